"""Pages and figures of studies; what they show was computed elsewhere.

Names are loaded when they are first used: words need no matplotlib.
"""
# ruff: noqa: F403  # type checkers follow the stars; at run time the table below decides

from typing import TYPE_CHECKING

from orthoframe.lazy import lazy_names

if TYPE_CHECKING:
    from orthoframe_studies.pages._figure import *
    from orthoframe_studies.pages._pages import *
    from orthoframe_studies.pages._words import *
else:
    _NAMES = {
        "_figure": "study_figure",
        "_pages": "write_study write_study_page write_claims_page write_decisions_page",
        "_words": "abbreviations cell_words finding_words rule_words",
    }
    __all__, __getattr__, __dir__ = lazy_names(__name__, _NAMES)
