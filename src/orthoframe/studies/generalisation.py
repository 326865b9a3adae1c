"""Do features of an orthogonal frame generalise better than those of an ETF?"""

from typing import Any

from orthoframe.options import Scale
from orthoframe.studies._claims import Claim, reaches_frame
from orthoframe.studies._study import RISING, Cell, Panel, Study, trained

WAYS: dict[str, dict[str, Any]] = {
    "OF": {"activation": "relu"},
    "ETF": {"activation": "none"},
    "cross-entropy": {"loss": "cross-entropy", "binding": "none"},
}
# Augmented images first, then images as they are and a temperature that rises: so that the geometry is reached.
_LONG = {"epochs": 120, "clean_fraction": 0.4, "temperature": RISING, "measure_every": 20}


def grid(scale: Scale) -> list[Cell]:
    """Both geometries and cross-entropy; balanced, where the second is an ETF, and imbalanced."""
    cells = []
    for data in ("digits", "fashion-mnist"):
        for ratio in (1, 10) if scale != "smoke" else (10,):
            for way, options in WAYS.items():
                where = {"data": data, "ratio": ratio, "geometry": way}
                cells.append(trained(scale, where, desk=_LONG, augment=True, **options))
    return cells


def _at_etf(text: str, geometry: str) -> Claim:
    return Claim(text, "gate", "delta_etf", {"geometry": geometry, "ratio": 1}, at_most=0.1)


def _higher(text: str, quantity: str, versus: str = "ETF", **where: Any) -> Claim:
    here, there = {"geometry": "OF", **where}, {"geometry": versus}
    return Claim(text, "open question", quantity, here, versus=there, how="difference", at_least=0.0)


STUDY = Study(
    name="generalisation",
    question="Does the orthogonal frame generalise better than the ETF that training without ReLU leads to?",
    claims=(
        reaches_frame("The cells called OF are at the OF", "gate", geometry="OF"),
        _at_etf("The balanced cells called ETF are at the ETF", "ETF"),
        _at_etf("Balanced cross-entropy is at the ETF", "cross-entropy"),
        _higher("Balanced accuracy on held-out data is higher with the OF", "balanced_accuracy"),
        _higher(
            "Minority accuracy on held-out data is higher with the OF, under imbalance", "minority_accuracy", ratio=10
        ),
        _higher(
            "The margin of minority classes on held-out data is larger with the OF, under imbalance",
            "minority_margin",
            ratio=10,
        ),
        _higher(
            "Balanced accuracy is higher with the OF than with cross-entropy", "balanced_accuracy", "cross-entropy"
        ),
    ),
    grid=grid,
    columns=("balanced_accuracy", "minority_accuracy", "minority_margin", "margin", "delta_of", "delta_etf"),
    panels=(
        Panel("Balanced accuracy", "balanced_accuracy", "geometry", ("data", "ratio")),
        Panel("Margin of minority classes", "minority_margin", "geometry", ("data", "ratio")),
    ),
    remark=(
        "Held-out images, nearest class centre; images are augmented in the first three fifths of the epochs. The "
        "margin is the cosine to the own centre less the largest to another one: at most 1 at an OF, and 1.11 at an "
        "ETF of ten classes. OF and ETF stand for with and without ReLU: under imbalance the latter is no ETF."
    ),
)
