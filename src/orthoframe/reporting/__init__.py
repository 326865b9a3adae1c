"""Figures and reports; what they show was computed elsewhere.

Names are loaded when they are first used: a report needs no matplotlib, and a figure no templates.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from orthoframe.errors import needs_extra

if TYPE_CHECKING:
    from orthoframe.reporting._figures import (
        certificate_figure,
        geometry_figure,
        training_figure,
        ufm_figure,
    )
    from orthoframe.reporting._report import write_report, write_run_report
    from orthoframe.reporting._study_figure import study_figure
    from orthoframe.reporting._study_pages import (
        write_claims_page,
        write_decisions_page,
        write_study,
        write_study_page,
    )
    from orthoframe.reporting._study_words import abbreviations, cell_words, found_words, rule_words

__all__ = [
    "write_report",
    "write_run_report",
    "training_figure",
    "geometry_figure",
    "certificate_figure",
    "ufm_figure",
    "study_figure",
    "write_study",
    "write_study_page",
    "write_claims_page",
    "write_decisions_page",
    "abbreviations",
    "cell_words",
    "found_words",
    "rule_words",
]

_MODULES = {
    "_report": ("write_report", "write_run_report"),
    "_figures": ("training_figure", "geometry_figure", "certificate_figure", "ufm_figure"),
    "_study_figure": ("study_figure",),
    "_study_pages": ("write_study", "write_study_page", "write_claims_page", "write_decisions_page"),
    "_study_words": ("abbreviations", "cell_words", "found_words", "rule_words"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            with needs_extra("orthoframe.reporting", "train"):
                return getattr(import_module(f"orthoframe.reporting.{module}"), name)
    raise AttributeError(f"module 'orthoframe.reporting' has no attribute {name!r}")
