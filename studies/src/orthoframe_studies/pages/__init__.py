"""Pages and figures of studies; what they show was computed elsewhere."""

from orthoframe_studies.pages._figure import study_figure
from orthoframe_studies.pages._pages import write_claims_page, write_decisions_page, write_study, write_study_page
from orthoframe_studies.pages._words import abbreviations, cell_words, found_words, rule_words

__all__ = [
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
