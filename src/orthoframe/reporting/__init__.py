"""Figures and reports; what they show was computed elsewhere.

Names are loaded when they are first used: a report needs no matplotlib, and a figure no templates.
"""
# ruff: noqa: F403  # type checkers follow the stars; at run time the table below decides

from typing import TYPE_CHECKING

from orthoframe._lazy import lazy_names

if TYPE_CHECKING:
    from orthoframe.reporting._figures import *
    from orthoframe.reporting._report import *
    from orthoframe.reporting._study_figure import *
    from orthoframe.reporting._study_pages import *
    from orthoframe.reporting._study_words import *
else:
    _NAMES = {
        "_report": "write_report write_run_report",
        "_figures": "training_figure geometry_figure certificate_figure ufm_figure",
        "_study_figure": "study_figure",
        "_study_pages": "write_study write_study_page write_claims_page write_decisions_page",
        "_study_words": "abbreviations cell_words found_words rule_words",
    }
    __all__, __getattr__, __dir__ = lazy_names(__name__, _NAMES, "train")
