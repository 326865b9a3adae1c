"""Figures and reports; what they show was computed elsewhere."""

from orthoframe.reporting._certificate import certificate_figure
from orthoframe.reporting._geometry import geometry_figure
from orthoframe.reporting._report import write_report
from orthoframe.reporting._run import Run, read_run
from orthoframe.reporting._study_figure import study_figure
from orthoframe.reporting._study_pages import write_claims_page, write_study, write_study_page
from orthoframe.reporting._study_words import cell_words, found_words, rule_words
from orthoframe.reporting._training import training_figure
from orthoframe.reporting._ufm import ufm_figure, write_sphere_gif

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
    "cell_words",
    "found_words",
    "rule_words",
]
