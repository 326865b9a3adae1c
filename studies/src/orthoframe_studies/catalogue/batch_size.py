"""How far the end depends on the batch size, with and without binding."""

from orthoframe.options import FRAME_DISTANCE
from orthoframe_studies._claims import Claim, reaches_frame
from orthoframe_studies._free_jobs import FreeFeatures
from orthoframe_studies._grids import free, trained
from orthoframe_studies._study import Cell, Panel, Scale, Study

# Epochs that make about 3000 steps with the digits at R = 10, and measurements in between.
EPOCHS = {32: 130, 64: 250, 128: 500, 256: 1000}
_COUNTS = (20,) * 5 + (4,) * 5
_NETWORK = {"features": "network"}


def grid(scale: Scale) -> list[Cell]:
    """Sizes and bindings with equal steps; and free features of batches that are too small, or large enough."""
    cells = []
    for binding in ("fixed", "none"):
        for size in EPOCHS if scale != "smoke" else (16, 64):
            where = {"features": "network", "binding": binding, "batch_size": size}
            epochs = EPOCHS.get(size, 4)
            cells.append(trained(scale, where, desk={"epochs": epochs, "measure_every": max(1, epochs // 40)}))
    for size in (8, 16, 32, 64) if scale != "smoke" else (16,):
        where = {"features": "free", "binding": "none", "batch_size": size}
        cells.append(free(where, FreeFeatures(_COUNTS, 20, 0, temperature=0.5, epochs=3, batch_size=size)))
    return cells


STUDY = Study(
    name="batch-size",
    question="Does the geometry depend on the batch size, with and without binding?",
    claims=(
        reaches_frame("With ReLU and binding every batch size reaches the OF", "paper", **_NETWORK, binding="fixed"),
        reaches_frame("With ReLU alone every batch size reaches the OF", "paper", **_NETWORK, binding="none"),
        Claim(
            "With ReLU the end of the smallest batches is near that of the largest",
            "paper",
            "live_delta_of",
            {**_NETWORK, "batch_size": 32},
            versus={"batch_size": 256},
            how="difference",
            at_least=-0.05,
            at_most=0.05,
            proof="end",
        ),
        Claim(
            "The certificate tells where most free features end: at the OF if batches are certified, elsewhere if not",
            "our theory",
            "certificate_correct",
            {"features": "free"},
            at_least=1.0,
            proof="end",
        ),
    ),
    grid=grid,
    columns=("live_delta_of", "dead_rows", "epochs_to_of", "certified", "coverage", "epochs_to_certify"),
    panels=(
        Panel(
            "At the end", "live_delta_of", "batch_size", ("binding",), where=_NETWORK, level=FRAME_DISTANCE, log="xy"
        ),
        Panel("How long it takes", "epochs_to_of", "batch_size", ("binding",), where=_NETWORK, log="xy"),
    ),
    remark=(
        "Digits, STEP, R = 10, a temperature of 0.1, about 3000 steps for every size at desk scale, so that batches of "
        "256 have eight times the epochs of batches of 32. Plans are certified over their first 20 epochs; epochs that "
        "certify are those that coverage predicts for 99 % confidence without binding. Free features see three epochs "
        "of batches together, and the predicted probability is about these."
    ),
)
