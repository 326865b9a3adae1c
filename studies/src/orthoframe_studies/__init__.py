"""Studies: claims about supervised contrastive learning, the runs that decide them, and pages of what was found.

Names are loaded when they are first used: the help of the command needs few of them.
"""
# ruff: noqa: F403  # type checkers follow the stars; at run time the table below decides

from typing import TYPE_CHECKING

from orthoframe.lazy import lazy_names

if TYPE_CHECKING:
    from orthoframe_studies._claims import *
    from orthoframe_studies._decide import *
    from orthoframe_studies._endings import *
    from orthoframe_studies._free_jobs import *
    from orthoframe_studies._grids import *
    from orthoframe_studies._jobs import *
    from orthoframe_studies._planned_job import *
    from orthoframe_studies._results import *
    from orthoframe_studies._runner import *
    from orthoframe_studies._statistics import *
    from orthoframe_studies._store import *
    from orthoframe_studies._study import *
    from orthoframe_studies._training_job import *
    from orthoframe_studies.catalogue import *
else:
    _NAMES = {
        "catalogue": "STUDIES",
        "_study": "Scale SCALES FIRST_SEED FRESH_SEED Study Cell Panel way_to_frame",
        "_grids": "trained free network coordinate",
        "_claims": "Claim Decision Proof agrees reaches_frame misses_frame faster",
        "_jobs": "Engine Job JobResult StudyError crossing key",
        "_training_job": "Training",
        "_planned_job": "PlannedTraining",
        "_free_jobs": "FreeFeatures FreeClassifier GradientFlow",
        "_statistics": "ALPHA HALF Interval clopper_pearson chance_of_most chance_of_mean holm mean_interval "
        "median_range",
        "_decide": "decide",
        "_endings": "PROVEN_BOUND at_frame has_ended has_learnt trend",
        "_results": "CellResult Comparison Tally Finding Failure StudyResult read_result write_result",
        "_runner": "Cost StudyListener estimate run_study",
        "_store": "Store JobOutcome store_folder compute",
    }
    __all__, __getattr__, __dir__ = lazy_names(__name__, _NAMES)
