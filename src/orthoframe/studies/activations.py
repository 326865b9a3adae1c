"""Which activations reach the frame?"""

from orthoframe.options import Scale
from orthoframe.studies._claims import OF, misses_frame, reaches_frame
from orthoframe.studies._study import RISING, Cell, Panel, Study, coordinate, trained, way_to_frame

ORTHANT = ("relu", "abs", "square", "softplus")
SPHERE = ("gelu", "leaky-relu", "none")
_LONG = {"epochs": 300, "measure_every": 10}
_RISES = {"temperature": coordinate(RISING)}
_FOLDS = {"activation": ("abs", "square")}


def grid(scale: Scale) -> list[Cell]:
    """Every activation: at two ratios, and with a temperature that rises, which is faster."""
    return [
        trained(scale, {"activation": activation, "ratio": ratio, "temperature": temperature}, desk=_LONG)
        for activation in (*ORTHANT, *SPHERE)
        for ratio, temperature in (((10, 0.1), (100, 0.1), (10, RISING)) if scale != "smoke" else ((10, 0.1),))
    ]


STUDY = Study(
    name="activations",
    question="Which activations of the features lead to the orthogonal frame?",
    claims=(
        reaches_frame("ReLU reaches the OF in these epochs", "paper", activation="relu"),
        reaches_frame("So do abs and square at a temperature of 0.1", "our theory", **_FOLDS, temperature=0.1),
        reaches_frame("So do abs and square with a temperature that rises", "our theory", **_FOLDS, **_RISES),
        reaches_frame(
            "Softplus comes near it with a temperature that rises", "our theory", activation="softplus", **_RISES
        ),
        misses_frame("GELU and none do not reach it", "next check", activation=("gelu", "none")),
        misses_frame("LeakyReLU does not reach it", "next check", activation="leaky-relu"),
    ),
    grid=grid,
    columns=("delta_of", "beta_nc", "mean_cosine", "max_cosine", "epochs_to_of", "balanced_accuracy"),
    panels=(
        Panel("At the end", "delta_of", "activation", ("ratio", "temperature"), {}, OF, "y"),
        way_to_frame("On the way, R = 10", "activation", ratio=10, temperature=0.1),
    ),
    remark=(
        "Digits, STEP; the slope of LeakyReLU is that of torch, 0.01. An activation that does not reach the OF may "
        "never reach it, or 300 epochs may be too few: compare with what the activations of the orthant do in the "
        "same epochs."
    ),
)
