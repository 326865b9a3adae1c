"""Which examples meet: plans, binding, the certificate, repair, coverage."""

from orthoframe.batches._certificate import Certificate, ClassReport, certify
from orthoframe.batches._coverage import Coverage, coverage, epochs_to_certify
from orthoframe.batches._lists import index_lists, meeting_counts, read_batches, write_batches
from orthoframe.batches._plan import BatchPlan, RunCertificate, certify_run
from orthoframe.batches._repair import repair
from orthoframe.batches._sampler import PlanLoader, PlanSampler

__all__ = [
    "BatchPlan",
    "PlanSampler",
    "PlanLoader",
    "certify",
    "certify_run",
    "Certificate",
    "RunCertificate",
    "ClassReport",
    "repair",
    "meeting_counts",
    "coverage",
    "Coverage",
    "epochs_to_certify",
    "read_batches",
    "write_batches",
    "index_lists",
]
