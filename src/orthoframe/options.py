"""Every named choice, and the checks of choices, counts and numbers; importing it loads nothing heavy."""

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal, get_args

from orthoframe.errors import Option, OptionError, OptionTypeError, Part, brief

_LARGEST = 2**31 - 1  # length of an array: the entries of two such lengths fit into 64 bits

Denominator = Literal["all", "sincere", "negatives", "class-average"]
"""What the positives of an anchor are compared with.

- `all`: every other row (SupCon's L_out, the paper's).
- `sincere`: for each positive, that positive and the negatives.
- `negatives`: the negatives alone.
- `class-average`: every other row, with the exponentials of each class averaged, the anchor's own class without the
  anchor.
"""

Compare = Literal["all", "keys"]
"""What anchors are compared with: all other rows and the keys, or the keys alone."""

Singletons = Literal["skip", "count", "error"]
"""What to do with an anchor that has no positive: leave it out of the mean, count it as 0, or raise."""

Reduction = Literal["mean", "sum", "none"]
"""How the terms of the anchors become the result."""

Scheme = Literal["full", "partition", "reshuffle", "balanced", "weighted", "rare-hub"]
"""How the samples of an epoch are cut into batches.

- `full`: one batch of all samples.
- `partition`: random batches, the same in every epoch.
- `reshuffle`: new random batches in every epoch.
- `balanced`: every batch holds the same number of rows of each class, `batch_size // classes`. An epoch lasts until the
  largest class has been shown; smaller ones are shown several times, reshuffled each time, and no sample is left out.
- `weighted`: as many rows as there are samples, n, drawn by class: a class of n_c samples has the share
  s_c = n_c^power / sum of all n_j^power of the rows. With power 1 each class is shown as often as it is there, with 0.5
  (the default) as the square root of that, and with 0 equally often. Every sample of a class has the same chance, and
  is in an epoch n s_c / n_c times in the mean: small classes several times, and large ones not whole. After every epoch
  the samples of a class have been shown equally often, give or take one.
- `rare-hub`: as `reshuffle`, but each rare class (fewer samples than there are batches, at most half a batch) is whole
  in one batch, and so connected, if other classes are in that batch too.
"""

Binding = Literal["none", "fixed", "present", "redrawn", "random"]
"""What is added to the batches of a scheme.

- `none`: nothing.
- `fixed`: the same example of each class in every batch, the paper's batch-binding.
- `present`: the example of a class only in batches that already hold the class and are not connected without it, a
  guest in batches of a single class, and what class pairs need to meet: the cheapest that certifies every epoch.
- `redrawn`: a fresh example of each class in every batch; a control of equal size.
- `random`: as many random samples in every batch; a control of equal size.
"""

Activation = Literal["relu", "abs", "square", "softplus", "gelu", "leaky-relu", "none"]
"""The function between the last layer and the unit norm. What matters is the cone that its range spans.

- `relu`, `abs`, `square`: the orthant, so that an orthogonal frame is the optimum and can be reached. A ReLU can die: a
  row of zeros has no direction, and a dimension that is zero in every row learns nothing. The other two cannot.
- `softplus`: the orthant without its faces. The frame is approached and never reached.
- `gelu`, `leaky-relu` (slope 0.01), `none`: the whole sphere once rows are normalised. The optimum is not a frame,
  though with `leaky-relu` it looks like one for long.
"""

Model = Literal["resnet18", "resnet34", "densenet40", "densenet40-half", "conv6", "conv6-quarters", "mlp", "vit"]
"""The networks that encode images.

- `resnet18`, `resnet34`, `densenet40`: the paper's, for images of 32 pixels.
- `densenet40-half`: the same DenseNet behind a first convolution that halves the image; several times as fast.
- `conv6`: six convolutions with max-pooling, of the kind that learns CIFAR-10 in the shortest time.
- `conv6-quarters`: the same network, with features that keep where things are: averages, maxima, and the averages over
  each quarter of the image side by side.
- `mlp`: two hidden layers, for small images of one colour.
- `vit`: a small vision transformer.
"""

Head = Literal["linear", "none"]
"""What precedes the activation: a linear layer, or nothing, so that the last ReLU of the network is the activation."""

HeadNorm = Literal["none", "batch"]
"""What stands between the linear layer of the head and its activation.

- `none`: nothing.
- `batch`: a batch normalisation, which gives every dimension of a batch mean 0 and variance 1. Rows are spread from the
  first step, and about half of them are alive in every dimension of a ReLU.
"""

Imbalance = Literal["step", "long-tail", "none"]
"""Which classes are made small: the second half, every class a little more than the one before, or none."""

Fit = Literal["pad", "crop", "stretch"]
"""How an image of another shape gets its size: with a border, without its margins, or distorted."""

MOST_PIXELS = 2**25
"""The most pixels of an image; a larger file is refused before it is decoded."""


@dataclass(frozen=True, kw_only=True)
class DataKind:
    """A kind of data that `load_data` reads; its reader is in `orthoframe.data`."""

    path: str = ""  # what follows the kind and a colon in a name; empty if the kind is the name
    is_own: bool = False  # whether the data is the user's own, not a benchmark set
    # The arguments of `load_data` that have an effect, apart from those that all kinds take.
    takes: tuple[str, ...] = ()


_FOR_IMAGE_FILES = ("size", "largest", "channels", "fit", "memory", "workers", "group_by")

DATA_KINDS = {
    "digits": DataKind(),
    "mnist": DataKind(takes=("folder",)),
    "fashion-mnist": DataKind(takes=("folder",)),
    "cifar10": DataKind(takes=("folder",)),
    "cifar100": DataKind(takes=("folder",)),
    "folder": DataKind(path="PATH", is_own=True, takes=_FOR_IMAGE_FILES),
    "csv": DataKind(path="FILE", is_own=True, takes=(*_FOR_IMAGE_FILES, "columns")),
    "npz": DataKind(path="FILE", is_own=True),
    "dataset": DataKind(is_own=True),  # images from Python, see `as_data`
}
"""The kinds of data by name, or by the part of the name before a colon."""

TableLoss = Literal["frame", "supcon"]
"""What `FrameClassifier` minimises: the frame term, or the supervised contrastive loss."""

Adjust = Literal["cross-fit"]
"""Which rows tell a classifier how to make up for class sizes.

- `cross-fit`: all of them, each classified by a network that was trained without it: two networks more, each on half of
  the rows and of the batch, so that training takes about twice as long.
"""

LearningRateSchedule = Literal["cosine", "linear", "step"]
"""How the learning rate falls: along a cosine or a line after a warm-up, or by ten after each third."""

Precision = Literal["32", "bf16-mixed", "16-mixed"]
"""The floating-point precision of training."""

Recipe = Literal["quick", "accurate", "fast", "paper", "plain"]
"""Where values come from that are not given; `plain`: the usual values alone."""

Goal = Literal["accuracy", "frame"]
"""What a run of the recipe `accurate` ends with: the most accurate features, or features that settle onto the frame."""

TEMPERATURE = 0.1
"""The usual temperature: the default everywhere."""

POWER = 0.5
"""The usual power of class sizes with which the scheme `weighted` samples: their square root."""

COLDEST, HOTTEST = 1e-3, 1e6
"""The smallest and the largest temperature that is allowed."""

FRAME_DISTANCE = 0.05
"""Class means are an orthogonal frame up to this `delta_of`, if `FRAME_COSINE` and `FRAME_RATIO` agree.

The distance is an average over classes: two classes of k that share a direction move it by sqrt(2(1 - sqrt(k/(k+2)))),
which is .417 for ten classes and .050 for 800. So the worst pair and the worst class have limits of their own: what
they alone may be where ten classes are at a distance of 0.05.
"""

FRAME_COSINE = 0.1
"""No two class means of a frame have a larger cosine, nor one below its negative."""

FRAME_RATIO = 1.1
"""No class mean of a frame is longer than the shortest by more than this factor."""


def data_kind(name: str) -> DataKind | None:
    """The kind of data with this name; None if there is no such kind.

    Examples:
        >>> data_kind("npz:cats.npz").path, data_kind("cats")
        ('FILE', None)
    """
    return DATA_KINDS.get(name.partition(":")[0])


def check_choice(name: str, value: object, kind: Any) -> None:
    """Raise an `OptionError` for a value that is not in a `Literal`, or not a key of a table.

    Examples:
        >>> check_choice("head", "cubic", Head)
        Traceback (most recent call last):
        orthoframe.errors.OptionError: head must be one of 'linear', 'none', not 'cubic'
    """
    choices = get_args(kind) or tuple(kind)
    if value not in choices:
        raise OptionError(Option(name), f" must be one of {', '.join(map(repr, choices))}, not {brief(repr(value))}")


def check_count(name: str, value: object, least: int = 1) -> int:
    """The number as an `int`; an `OptionError` for what is not a whole number, or too small.

    Examples:
        >>> check_count("batch_size", 0)
        Traceback (most recent call last):
        orthoframe.errors.OptionError: batch_size must be at least 1, not 0
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise OptionError(Option(name), f" must be a whole number, at least {least}, not {brief(repr(value))}")
    if value < least:
        raise OptionError(Option(name), f" must be at least {least}, not {brief(value)}")
    return int(value)


def check_size(name: str, value: object, least: int = 1) -> int:
    """`check_count` for what becomes the length of an array, which must not be too large either.

    Examples:
        >>> check_size("width", 2**70)
        Traceback (most recent call last):
        orthoframe.errors.OptionError: width must be at most 2147483647, not 1180591620717411303424
    """
    size = check_count(name, value, least)
    if size > _LARGEST:
        raise OptionError(Option(name), f" must be at most {_LARGEST}, not {brief(size, 30)}")
    return size


def check_image_size(size: object) -> tuple[int, int]:
    """The height and width of images; an `OptionError` that names `size` for anything else, or for too many pixels.

    Examples:
        >>> check_image_size((48, 64))
        (48, 64)
    """
    if not (isinstance(size, tuple) and len(size) == 2):
        raise OptionError(Option("size"), f" must be a height and a width, not {brief(repr(size), 60)}")
    height, width = (check_size("size", side) for side in size)
    if height * width > MOST_PIXELS:
        raise OptionError(Option("size"), f" is {height} x {width}, and an image has at most {MOST_PIXELS} pixels")
    return height, width


def check_number(
    name: str,
    value: object,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
    below: float = math.inf,
    advice: tuple[Part, ...] = (),
) -> float:
    """The number as a `float`; an `OptionError` for one that is not finite, or out of range.

    The limits `above` and `below` themselves are out of range; `advice` follows the sentence.

    Examples:
        >>> check_number("ratio", 0, above=0, advice=("1 is balanced",))
        Traceback (most recent call last):
        orthoframe.errors.OptionError: ratio must be positive and finite, not 0; 1 is balanced
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise OptionTypeError(Option(name), f" must be a number, not {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:  # a whole number of hundreds of digits, which nobody wants to read
        number = value = math.inf if value > 0 else -math.inf  # type: ignore[operator]
    inside = -math.inf < number < below  # not math.isfinite, which torch.compile cannot trace
    inside = inside and (above is None or number > above) and (least is None or number >= least)
    inside = inside and (most is None or number <= most)
    if inside:
        return number
    bounds = []
    if above is not None:
        bounds.append(f"above {above:g}" if above else "positive")
    if least is not None and most is None:
        bounds.append(f"at least {least:g}")
    if least is not None and most is not None:
        bounds.append(f"from {least:g} to {most:g}")
    else:
        bounds.append("finite" if below == math.inf else f"below {below:g}")
    raise OptionError(
        Option(name), f" must be {' and '.join(bounds)}, not {brief(value, 60)}", *(("; ", *advice) if advice else ())
    )


def check_temperature(value: object) -> float:
    """The temperature as a `float`; an `OptionError` unless it is from 0.001 to 1,000,000.

    Outside of this range not even float64 can tell the exponentials of a loss apart.

    Examples:
        >>> check_temperature(5e-309)
        Traceback (most recent call last):
        orthoframe.errors.OptionError: temperature must be from 0.001 to 1e+06, not 5e-309; 0.1 is usual
    """
    return check_number("temperature", value, least=COLDEST, most=HOTTEST, advice=(f"{TEMPERATURE:g} is usual",))


def check_margin(margin: object, denominator: str) -> float:
    """The margin as a `float`, from -1 to 10; an `OptionError` for another, or for one that would have no effect.

    Examples:
        >>> check_margin(0.5, "negatives")
        Traceback (most recent call last):
        orthoframe.errors.OptionError: margin=0.5 would only add a constant with denominator='negatives'; leave it out
    """
    check_choice("denominator", denominator, Denominator)
    number = check_number("margin", margin, least=-1, most=10)
    if number and denominator == "negatives":
        constant = " would only add a constant with "
        raise OptionError(Option("margin", number), constant, Option("denominator", denominator), "; leave it out")
    return number
