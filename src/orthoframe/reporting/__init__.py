"""Figures and reports; what they show was computed elsewhere."""

from orthoframe.reporting._figures import certificate_figure, geometry_figure, training_figure, ufm_figure
from orthoframe.reporting._report import write_report
from orthoframe.reporting._run import Run, read_run
from orthoframe.reporting._sphere import write_sphere_gif
from orthoframe.reporting._study_figure import study_figure
from orthoframe.reporting._study_page import write_study_page
from orthoframe.reporting._study_text import write_claims_page, write_study

__all__ = [
    "certificate_figure",
    "geometry_figure",
    "ufm_figure",
    "write_sphere_gif",
    "Run",
    "read_run",
    "training_figure",
    "write_report",
    "study_figure",
    "write_study",
    "write_study_page",
    "write_claims_page",
]
