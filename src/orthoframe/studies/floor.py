"""Does the full-batch loss of a network reach its floor?"""

from orthoframe.studies._claims import Claim
from orthoframe.studies._jobs import OF
from orthoframe.studies._networks import network
from orthoframe.studies._study import Cell, Panel, Scale, Study, trained

_LONG = {"epochs": 800, "measure_every": 50}
_LEFT = 0.01  # of the way from all features alike down to the floor


def grid(scale: Scale) -> list[Cell]:
    """One batch of everything, at three ratios and two temperatures; and real images."""
    cells = []
    for ratio in (1, 10, 100) if scale != "smoke" else (1, 10):
        for temperature in ("0.1", "0.5"):
            where = {"data": "digits", "ratio": ratio, "temperature": float(temperature)}
            settings = network(
                scale,
                ratio=ratio,
                temperature=temperature,
                scheme="full",
                binding="none",
                epochs=800,
                measure_every=50,
            )
            cells.append(trained(where, settings))
    where = {"data": "fashion-mnist", "ratio": 10, "temperature": 0.1}
    images = network(scale, "fashion-mnist", ratio=10, desk={**_LONG, "majority": 100}, scheme="full", binding="none")
    return [*cells, trained(where, images)]


STUDY = Study(
    name="floor",
    question="Does the full-batch loss of a network reach its floor?",
    claims=(
        Claim(
            "The full-batch loss reaches its floor",
            "paper",
            "part_left",
            {"temperature": 0.1, "data": "digits"},
            at_most=_LEFT,
        ),
        Claim("So it does on FashionMNIST", "paper", "part_left", {"data": "fashion-mnist"}, at_most=_LEFT),
        Claim("So it does at a temperature of 0.5", "ours", "part_left", {"temperature": 0.5}, at_most=_LEFT),
        Claim("At the floor there is the OF", "paper", "delta_of", {"temperature": 0.1}, at_most=OF),
    ),
    grid=grid,
    columns=("loss", "gap", "part_left", "delta_of", "beta_nc"),
    panels=(
        Panel("Loss above its floor", "gap", "epoch", ("ratio", "temperature"), {"data": "digits"}, None, "y"),
        Panel("Distance to the frame", "delta_of", "epoch", ("ratio", "temperature"), {"data": "digits"}, OF, "y"),
    ),
    remark="part_left is the gap above the floor, as a part of the way from all features alike down to the floor.",
)
