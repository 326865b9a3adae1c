"""Studies: one file for each claim that is tested, and what runs them."""

from orthoframe.studies._claims import OF, Claim, Decision, Interval, agrees, interval, mean_of
from orthoframe.studies._jobs import FreeFeatures, GradientFlow, Job, JobResult, Training, crossing, key
from orthoframe.studies._results import (
    CellResult,
    Comparison,
    Failure,
    Finding,
    StudyResult,
    decide,
    read_result,
    write_result,
)
from orthoframe.studies._runner import StudyListener, run_study
from orthoframe.studies._store import Done, Store, compute, store_folder
from orthoframe.studies._study import SEEDS, STUDIES, Cell, Panel, Study

__all__ = [
    "STUDIES",
    "SEEDS",
    "Study",
    "Claim",
    "OF",
    "Cell",
    "Panel",
    "Job",
    "JobResult",
    "Training",
    "FreeFeatures",
    "GradientFlow",
    "crossing",
    "key",
    "Decision",
    "Interval",
    "interval",
    "mean_of",
    "agrees",
    "decide",
    "CellResult",
    "Comparison",
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
