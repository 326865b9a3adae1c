"""Figures and reports; what they show was computed elsewhere.

Names are loaded when they are first used: a report needs no matplotlib, and a figure no templates.
"""
# ruff: noqa: F403  # type checkers follow the stars; at run time the table below decides

from typing import TYPE_CHECKING

from orthoframe.lazy import lazy_names

if TYPE_CHECKING:
    from orthoframe.reporting._figures import *
    from orthoframe.reporting._mistakes import *
    from orthoframe.reporting._pages import *
    from orthoframe.reporting._pictures import *
    from orthoframe.reporting._report import *
else:
    _NAMES = {
        "_report": "write_report write_run_report",
        "_mistakes": "write_mistakes",
        "_figures": "training_figure geometry_figure certificate_figure ufm_figure draw_cosines fit_fonts",
        "_pictures": "CosineMap Cosines",
        "_pages": "write_page render",
    }
    __all__, __getattr__, __dir__ = lazy_names(__name__, _NAMES, "train")
