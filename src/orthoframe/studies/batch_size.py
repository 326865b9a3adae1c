"""How far the end depends on the batch size, with and without ReLU and binding."""

from orthoframe.studies._claims import Claim
from orthoframe.studies._jobs import OF
from orthoframe.studies._networks import network
from orthoframe.studies._study import Cell, Panel, Scale, Study, trained

SIZES = (32, 64, 128, 256)


def grid(scale: Scale) -> list[Cell]:
    """Sizes, activations, bindings."""
    return [
        trained(
            {"activation": activation, "binding": binding, "batch_size": size},
            network(scale, desk={"epochs": 100}, activation=activation, binding=binding, batch_size=size),
        )
        for activation in ("relu", "none")
        for binding in ("fixed", "none")
        for size in (SIZES if scale != "smoke" else (16, 64))
    ]


STUDY = Study(
    name="batch-size",
    question="Does the geometry depend on the batch size, with and without ReLU, with and without binding?",
    claims=(
        Claim(
            "With ReLU and binding every batch size reaches the OF",
            "paper",
            "delta_of",
            {"activation": "relu", "binding": "fixed"},
            at_most=OF,
        ),
        Claim(
            "With ReLU alone every batch size reaches the OF",
            "paper",
            "delta_of",
            {"activation": "relu", "binding": "none"},
            at_most=OF,
        ),
        Claim(
            "With ReLU the end of the smallest batches is near that of the largest",
            "paper",
            "delta_of",
            {"activation": "relu", "batch_size": 32},
            versus={"batch_size": 256},
            how="difference",
            at_least=-0.05,
            at_most=0.05,
        ),
        Claim("Without ReLU no batch size reaches the OF", "paper", "delta_of", {"activation": "none"}, at_least=0.3),
    ),
    grid=grid,
    columns=("delta_of", "beta_nc", "epochs_to_of", "certified", "epochs_to_certify", "balanced_accuracy"),
    panels=(
        Panel("At the end", "delta_of", "batch_size", ("activation", "binding"), {}, OF, "xy"),
        Panel("Speed with ReLU", "epochs_to_of", "batch_size", ("binding",), {"activation": "relu"}, None, "xy"),
    ),
    remark=(
        "Digits, STEP, R = 10, as many epochs for every size. certified is the part of seeds whose plan is certified "
        "over its first 20 epochs; epochs_to_certify is what coverage predicts for 99 % confidence without binding."
    ),
)
