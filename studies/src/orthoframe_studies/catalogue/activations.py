"""Which activations reach the frame?"""

from typing import Any

from orthoframe.options import FRAME_DISTANCE
from orthoframe_studies._claims import Claim, reaches_frame
from orthoframe_studies._grids import RISING, trained
from orthoframe_studies._study import Cell, Panel, Scale, Study, way_to_frame
from orthoframe_studies.catalogue.without_relu import BELOW, CLOSE, LONG

ORTHANT = ("relu", "abs", "square", "softplus")
SPHERE = ("gelu", "leaky-relu")
_BATCHES: dict[str, Any] = {"epochs": 300, "measure_every": 10}


def grid(scale: Scale) -> list[Cell]:
    """Activations of the orthant in bound batches; the others in full batches, whose optimum is known."""
    cells = []
    for activation in ORTHANT:
        for ratio in (10, 100) if scale != "smoke" else (10,):
            where: dict[str, Any] = {
                "batches": "bound",
                "activation": activation,
                "ratio": ratio,
                "temperature": RISING,
            }
            cells.append(trained(scale, where, desk=_BATCHES))
    for activation in SPHERE:
        for temperature in (0.3, 0.5) if scale != "smoke" else (0.5,):
            where = {"batches": "full", "activation": activation, "ratio": 10, "temperature": temperature}
            cells.append(trained(scale, where, desk=LONG, seeds=6, scheme="full", binding="none"))
    return cells


def _leaves(text: str, activation: str) -> Claim:
    """The loss ends below the floor of non-negative features, which a frame has."""
    return Claim(text, "next check", "gap", {"activation": activation}, at_most=BELOW, proof="unmet")


def _predicted(text: str, activation: str) -> Claim:
    return Claim(text, "our theory", "delta_predicted", {"activation": activation}, at_most=CLOSE, proof="unmet")


STUDY = Study(
    name="activations",
    question="Which activations of the features lead to the orthogonal frame?",
    claims=(
        reaches_frame("A network with ReLU reaches the OF", "paper", activation="relu"),
        reaches_frame(
            "A network with abs or square instead of ReLU reaches the OF", "our theory", activation=("abs", "square")
        ),
        reaches_frame("A network with softplus instead of ReLU comes near the OF", "our theory", activation="softplus"),
        _leaves("GELU leads below the floor of non-negative features, and so not to the OF", "gelu"),
        _leaves("LeakyReLU leads below the floor of non-negative features, and so not to the OF", "leaky-relu"),
        _predicted("GELU ends at the geometry that is predicted without ReLU", "gelu"),
        _predicted("LeakyReLU ends at the geometry that is predicted without ReLU", "leaky-relu"),
    ),
    grid=grid,
    columns=("live_delta_of", "dead_rows", "merged_classes", "gap", "excess", "delta_predicted", "epochs_to_of"),
    panels=(
        Panel(
            "Non-negative",
            "live_delta_of",
            "activation",
            ("ratio",),
            where={"batches": "bound"},
            level=FRAME_DISTANCE,
            log="y",
        ),
        way_to_frame("Of either sign, full batches", "activation", "temperature", batches="full"),
    ),
    remark=(
        "Digits, STEP. Activations of the orthant: bound batches, a temperature that rises from 0.1 to 0.5. The slope "
        "of LeakyReLU is that of torch, 0.01: it may come near the frame on its way, and leave it again."
    ),
)
