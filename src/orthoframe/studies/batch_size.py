"""How far the end depends on the batch size, with and without ReLU and binding."""

from orthoframe.options import Scale
from orthoframe.studies._claims import OF, Claim, reaches_frame
from orthoframe.studies._jobs import FreeFeatures
from orthoframe.studies._study import Cell, Panel, Study, free, trained

SIZES = (32, 64, 128, 256)
_COUNTS = (20,) * 5 + (4,) * 5
_RELU = {"features": "network", "activation": "relu"}


def grid(scale: Scale) -> list[Cell]:
    """Sizes, activations, bindings; and free features of batches that are just too small, or just large enough."""
    cells = []
    for activation in ("relu", "none"):
        for binding in ("fixed", "none"):
            for size in SIZES if scale != "smoke" else (16, 64):
                where = {"features": "network", "activation": activation, "binding": binding, "batch_size": size}
                cells.append(trained(scale, where, desk={"epochs": 100}))
    for size in (8, 16, 32, 64) if scale != "smoke" else (16,):
        where = {"features": "free", "activation": "relu", "binding": "none", "batch_size": size}
        cells.append(free(where, FreeFeatures(_COUNTS, 20, 0, temperature=0.5, epochs=3, batch_size=size)))
    return cells


STUDY = Study(
    name="batch-size",
    question="Does the geometry depend on the batch size, with and without ReLU, with and without binding?",
    claims=(
        reaches_frame(
            "With ReLU and binding every batch size reaches the OF in these epochs", "paper", **_RELU, binding="fixed"
        ),
        reaches_frame(
            "With ReLU alone every batch size reaches the OF in these epochs", "paper", **_RELU, binding="none"
        ),
        Claim(
            "With ReLU the end of the smallest batches is near that of the largest",
            "paper",
            "delta_of",
            {**_RELU, "batch_size": 32},
            versus={"batch_size": 256},
            how="difference",
            at_least=-0.05,
            at_most=0.05,
        ),
        Claim(
            "Free features end at the OF if and only if their batches are certified",
            "our theory",
            "certificate_correct",
            {"features": "free"},
            at_least=1.0,
        ),
        Claim("Without ReLU no batch size reaches the OF", "paper", "delta_of", {"activation": "none"}, at_least=0.3),
    ),
    grid=grid,
    columns=("delta_of", "beta_nc", "epochs_to_of", "certified", "coverage", "epochs_to_certify", "balanced_accuracy"),
    panels=(
        Panel("At the end", "delta_of", "batch_size", ("activation", "binding"), {"features": "network"}, OF, "xy"),
        Panel("Speed with ReLU", "epochs_to_of", "batch_size", ("binding",), _RELU, None, "xy"),
    ),
    remark=(
        "Digits, STEP, R = 10, the same number of epochs for every size: batches of 256 make an eighth of the steps "
        "of batches of 32. certified is the fraction of seeds whose plan is certified over its first 20 epochs; "
        "epochs_to_certify is what coverage predicts for 99 % confidence without binding. Free features see three "
        "epochs of batches together; coverage is the predicted probability that these are certified."
    ),
)
