"""Which examples meet: plans, binding, the certificate, repair, coverage."""

from orthoframe.batches._binding import Binding
from orthoframe.batches._certificate import Certificate, ClassReport, certify
from orthoframe.batches._coverage import Coverage, coverage, epochs_to_certify
from orthoframe.batches._labels import Labels, index_lists, whole_number
from orthoframe.batches._loader import PlanLoader
from orthoframe.batches._meetings import meeting_counts
from orthoframe.batches._plan import BatchPlan
from orthoframe.batches._repair import repair
from orthoframe.batches._sampler import PlanSampler
from orthoframe.batches._schemes import Scheme

__all__ = [
    "BatchPlan",
    "PlanSampler",
    "PlanLoader",
    "certify",
    "Certificate",
    "ClassReport",
    "repair",
    "meeting_counts",
    "coverage",
    "Coverage",
    "epochs_to_certify",
    "Labels",
    "index_lists",
    "whole_number",
    "Scheme",
    "Binding",
]
