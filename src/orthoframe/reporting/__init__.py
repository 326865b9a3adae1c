"""Figures and reports; what they show was computed elsewhere.

Names are loaded when they are first used: a report needs no matplotlib, and a figure no templates.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orthoframe.reporting._figures import certificate_figure as certificate_figure
    from orthoframe.reporting._figures import geometry_figure as geometry_figure
    from orthoframe.reporting._figures import training_figure as training_figure
    from orthoframe.reporting._figures import ufm_figure as ufm_figure
    from orthoframe.reporting._figures import write_sphere_gif as write_sphere_gif
    from orthoframe.reporting._report import write_report as write_report
    from orthoframe.reporting._run import Run as Run
    from orthoframe.reporting._run import read_run as read_run
    from orthoframe.reporting._study_figure import study_figure as study_figure
    from orthoframe.reporting._study_page import write_study_page as write_study_page
    from orthoframe.reporting._study_text import write_claims_page as write_claims_page
    from orthoframe.reporting._study_text import write_study as write_study

_MODULES = {
    "Run": "_run",
    "read_run": "_run",
    "write_report": "_report",
    "training_figure": "_figures",
    "geometry_figure": "_figures",
    "certificate_figure": "_figures",
    "ufm_figure": "_figures",
    "write_sphere_gif": "_figures",
    "study_figure": "_study_figure",
    "write_study": "_study_text",
    "write_study_page": "_study_page",
    "write_claims_page": "_study_text",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'orthoframe.reporting' has no attribute {name!r}")
    return getattr(import_module(f"orthoframe.reporting.{_MODULES[name]}"), name)
