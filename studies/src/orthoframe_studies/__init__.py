"""Studies: one file for each claim that is tested, and what runs them."""

from orthoframe_studies._claims import OF, Claim, Decision, Proof, agrees
from orthoframe_studies._costs import Cost, estimate
from orthoframe_studies._decide import decide
from orthoframe_studies._endings import PROVEN, at_frame, has_ended, has_learnt, trend
from orthoframe_studies._free_jobs import FreeClassifier, FreeFeatures, GradientFlow
from orthoframe_studies._jobs import Job, JobResult, crossing, key
from orthoframe_studies._planned_job import PlannedNetwork
from orthoframe_studies._results import (
    CellResult,
    Comparison,
    Failure,
    Finding,
    StudyResult,
    Tally,
    read_result,
    write_result,
)
from orthoframe_studies._runner import StudyListener, run_study
from orthoframe_studies._statistics import (
    ALPHA,
    MOST,
    Interval,
    chance_of_mean,
    chance_of_most,
    clopper_pearson,
    holm,
    mean_interval,
    median_range,
)
from orthoframe_studies._store import Done, Store, compute, store_folder
from orthoframe_studies._study import FIRST_SEED, FRESH_SEED, SCALES, STUDIES, Cell, Panel, Study
from orthoframe_studies._training_job import Training

__all__ = [
    "STUDIES",
    "SCALES",
    "FIRST_SEED",
    "FRESH_SEED",
    "Study",
    "Claim",
    "OF",
    "Proof",
    "Cell",
    "Panel",
    "Job",
    "JobResult",
    "Training",
    "PlannedNetwork",
    "FreeFeatures",
    "FreeClassifier",
    "GradientFlow",
    "crossing",
    "trend",
    "key",
    "Decision",
    "ALPHA",
    "MOST",
    "Interval",
    "clopper_pearson",
    "chance_of_most",
    "chance_of_mean",
    "holm",
    "mean_interval",
    "median_range",
    "agrees",
    "decide",
    "Cost",
    "estimate",
    "PROVEN",
    "at_frame",
    "has_ended",
    "has_learnt",
    "CellResult",
    "Comparison",
    "Tally",
    "Finding",
    "Failure",
    "StudyResult",
    "read_result",
    "write_result",
    "StudyListener",
    "run_study",
    "Store",
    "store_folder",
    "Done",
    "compute",
]
