"""Studies of seconds, in the place of the real ones."""

from dataclasses import replace

from studies.tests.jobs import Noted
from tests.training.runs import small

from orthoframe_studies import FIRST_SEED, Cell, Claim, Panel, Study, Training


def _grid(scale):
    epochs = {"smoke": 3, "desk": 4, "paper": 100_000}[scale]

    def cell(ratio, seeds=None, **where):
        where = {"data": "digits", "ratio": ratio, **where}
        return Cell(where, lambda seed: Training(small(ratio=float(ratio), epochs=epochs, seed=seed)), seeds)

    return [cell(1), cell(2), cell(2, again="yes")]


STUDY = Study(
    name="small-study",
    question="Do [digits] come near a frame in three epochs?",
    claims=(
        Claim("They come near it.", "nobody", "delta_of", {"data": "digits"}, at_most=0.001, over="mean"),
        Claim("They never come there.", "nobody", "epochs_to_of", {"ratio": 2}, at_least=3),
        Claim("Balance helps.", "nobody", "delta_of", {"ratio": 1}, versus={"ratio": 2}, at_most=10),
        Claim("Letters are worse.", "nobody", "delta_of", {"data": "letters"}, at_most=1),
    ),
    grid=_grid,
    columns=("delta_of", "epochs_to_of", "balanced_accuracy"),
    panels=(Panel("Distance", "delta_of", "epoch", ("ratio",)),),
    desk_seeds=2,
)


def noted_study(log, acts=("", "", "", "")):
    """A study of jobs that note when they are run."""
    grid = [
        Cell({"number": n}, lambda seed, n=n, act=act: Noted(str(log), 10 * (seed - FIRST_SEED) + n, act))
        for n, act in enumerate(acts)
    ]
    claim = Claim("Small.", "nobody", "value", {"number": (0, 1)}, at_most=1e6)
    return replace(STUDY, name="noted", claims=(claim,), grid=lambda scale: grid, columns=("value", "lost"))
