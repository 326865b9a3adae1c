"""Everything that decides a run, in one record."""

import math
import os
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from orthoframe.errors import Option, OptionError, brief
from orthoframe.options import (
    LINEAR_LOSSES,
    OWN_FILES,
    Activation,
    Binding,
    Denominator,
    Fit,
    Head,
    HeadNorm,
    Imbalance,
    LearningRateSchedule,
    Loss,
    Model,
    Precision,
    Scheme,
    check_choice,
    check_count,
    check_image_size,
    check_margin,
    check_number,
    check_size,
    check_temperature,
)
from orthoframe.training._schedules import Ramp, TemperatureSchedule

_PLACES = ("data_dir", "init")  # settings that are paths
_RAMPS = ("temperature", "margin", "supcon", "classifier")  # settings that may change from the first epoch to the last
_NOTHING, _USUAL = Ramp(0.0, 0.0), TemperatureSchedule(0.1, 0.1)
OF_FRAMES = (
    *("supcon", "denominator", "prototypes", "temperature", "margin", "classifier"),
    *("head", "head_norm", "features", "activation", "probe"),
)
"""Settings that a linear classifier has no use for."""
DECIDED = ("model", "width", "head", "head_norm", "activation")
"""Settings that are decided by an encoder to start from."""
_BEYOND = 1e38  # float32 ends at 3.4e38
_MEASUREMENTS = 40  # in a run, if nothing else is said
_WARM_UP = 0.05  # the fraction of the steps in which the learning rate rises


@dataclass(frozen=True)
class Settings:
    """The settings of a run; the same settings give the same bytes."""

    data: str = "digits"
    """digits, mnist, fashion-mnist, cifar10, cifar100, folder:PATH (one sub-folder per class), csv:FILE or npz:FILE."""
    data_dir: Path | None = None
    """Where data is looked for, and downloaded to (default: ORTHOFRAME_DATA, or the user's cache)."""
    path_column: str = "path"
    """In a CSV file, the column of image files, relative to it."""
    label_column: str = "label"
    """In a CSV file, the column of class names."""
    split_column: str | None = None
    """In a CSV file, the column that says train, validation or test (default: a part of each class is held out)."""
    group_column: str | None = None
    """In a CSV file, the column of groups, such as videos, that stay together when images are held out."""
    size: tuple[int, int] | None = None
    """Height and width that image files get (default: chosen from them)."""
    fit: Fit = "pad"
    """How image files get their size: pad (nothing is lost or distorted), crop or stretch."""
    validation: float | None = None
    """Part of the training images held out for choices during training (default: 0.1 of your own, none of others)."""
    imbalance: Imbalance | None = None
    """Which classes are made small: the second half (step), gradually more (long-tail), or none (default: none for your
    own images, step for the benchmark sets)."""
    ratio: float = 10.0
    """Size of the largest class divided by that of the smallest, where classes are made small."""
    majority: int | None = None
    """Samples of the largest class (default: all that there are)."""
    model: Model | None = None
    """The encoder (default: resnet18 for your own images from 16 pixels on, else mlp)."""
    backbone: str | None = None
    """Another network instead: hf:NAME_OR_FOLDER (of transformers) or MODULE:FACTORY (a Python function)."""
    init: Path | None = None
    """Start from the encoder of this run; known classes keep their directions, new ones get dimensions of their own."""
    width: int | None = None
    """Width of the encoder (default: its own; 16 where the encoder is chosen)."""
    head: Head | None = None
    """What precedes the activation; with none, averages of ReLU maps approach the frame far more slowly (default:
    linear; none for losses of a linear classifier)."""
    head_norm: HeadNorm = "none"
    """A BatchNorm between the linear layer and the activation, which spreads the first features."""
    features: int | None = None
    """Dimensions of the features, with a linear head (default: those of the encoder; for your own images and the frame
    term at least 128, and two per class)."""
    activation: Activation = "relu"
    """Of the features: relu, abs, square and softplus are non-negative; gelu, leaky-relu and none are not."""
    loss: Loss = "supcon"
    """The supervised contrastive loss (supcon), or the frame term (frame), which starts faster; cross-entropy and
    balanced-softmax train an ordinary linear classifier on ordinary features, and predict with it."""
    supcon: Ramp = _NOTHING
    """Weight of a contrastive part beside the frame term: one number, or the first and the last of an even change."""
    denominator: Denominator = "all"
    """The denominator of the contrastive loss."""
    temperature: TemperatureSchedule = _USUAL
    """Of the loss: one number, or the first and the last of a schedule that changes evenly in between."""
    margin: Ramp = _NOTHING
    """Taken off the cosines of the own class, which leads faster to the same frame: one number, or first and last."""
    classifier: Ramp = _NOTHING
    """Weight of a linear classifier (balanced softmax) on the features before the head, beside the loss: with it the
    network learns faster. It predicts, unless its weight ends at zero: one number, or first and last."""
    scheme: Scheme = "reshuffle"
    """How samples are drawn and cut into batches."""
    power: float | None = None
    """With the scheme weighted: a class has a share of the rows proportional to its size to this power (default: 0.5;
    1 is as often as it is there, 0 every class equally often)."""
    binding: Binding = "fixed"
    """What is added to each batch; fixed: the same example of each class."""
    bound_classes: int | None = None
    """Bind only the first N classes (default: all)."""
    bound_examples: int = 1
    """Examples of each bound class that are added to a batch."""
    prototypes: bool = False
    """Also compare every batch with a fixed prototype per class, which binds classes without encoding images."""
    batch_size: int = 128
    """Samples per batch, before binding; with the scheme weighted at most, in batches of equal size."""
    views: int = 1
    """Augmented views of each sample in a batch; one while images are not augmented."""
    augment: bool = True
    """Shift images at random; photographs and clothes of the benchmark sets are also flipped."""
    clean_fraction: float = 0.4
    """The last fraction of the epochs, in which images are not augmented and the learning-rate schedule restarts."""
    flip: bool = False
    """Exchange left and right at random, too; photographs and clothes of the benchmark sets are flipped anyway."""
    epochs: int | None = None
    """Passes over the data (default: as many as 2000 steps make, from 5 to 500)."""
    minutes: float | None = None
    """As many epochs as this time allows, start and report included, by the speed of the first steps; at least one."""
    lr: float = 0.1
    """Largest learning rate of SGD with Nesterov momentum 0.9."""
    backbone_lr: float | None = None
    """Largest learning rate of the encoder without its head; 0 leaves it as it is (default: that of all, and 0 with
    another backbone)."""
    lr_schedule: LearningRateSchedule = "cosine"
    """How the learning rate falls: cosine or step (by ten after each third), or linear, which does not restart; a
    warm-up of 5 % comes before cosine and linear."""
    weight_decay: float = 5e-4
    """L2 penalty on the weights."""
    precision: Precision = "32"
    """Floating-point precision of the encoder; 16-mixed needs a GPU."""
    devices: int = 1
    """Processes that share each batch (CPU cores or GPUs); torchrun and SLURM set their own number."""
    compile: bool = False
    """Compile the encoder with torch.compile."""
    workers: int | None = None
    """Processes that decode image files (default: one per core)."""
    memory: float | None = None
    """GiB for the pixels of image files; more are decoded whenever they are needed (default: a quarter of all)."""
    adjust: float | Literal["fit"] | None = None
    """What is taken off the score of a class, times the logarithm of its share of the training images, or of the rows
    that a linear classifier was shown (default: fit, if there are validation images, on which it is fitted; else 0)."""
    probe: bool = False
    """Predict with a balanced linear classifier of the encoder's features before the head, fitted at the end; for
    classes of a few images that have settled onto the frame."""
    test_images: int | None = None
    """Test images per class (default: all)."""
    measure_every: int | None = None
    """Epochs between two measurements of the geometry (default: about forty measurements in all)."""
    seed: int = 0
    """Decides everything that is random."""

    def __post_init__(self) -> None:
        for name in _RAMPS:
            kind = TemperatureSchedule if name == "temperature" else Ramp
            object.__setattr__(self, name, kind.of(getattr(self, name)))

    @property
    def num_epochs(self) -> int:
        """The number of epochs, once it is decided."""
        assert self.epochs is not None
        return self.epochs

    @property
    def linear_classifier(self) -> bool:
        """Whether the loss is that of a linear classifier on features of any length."""
        return self.loss in LINEAR_LOSSES

    @property
    def classifier_predicts(self) -> bool:
        """Whether a linear classifier of features before the head predicts, and not prototypes or means."""
        return self.linear_classifier or self.classifier.last > 0

    @property
    def classifier_leaves(self) -> bool:
        """Whether a classifier teaches at first and predicts nothing at the end, as on the way to the frame."""
        return self.classifier.first > self.classifier.last == 0

    @property
    def measured_every(self) -> int:
        """Epochs between two measurements of the geometry."""
        return self.measure_every or max(1, self.num_epochs // _MEASUREMENTS)

    def is_measured(self, epoch: int) -> bool:
        """Whether the geometry is measured after an epoch, counted from 1: also after the first, and before settling.

        Settling begins with the first epoch of images that are not augmented.
        """
        return epoch == self.settling_epoch or epoch in (1, self.num_epochs) or epoch % self.measured_every == 0

    @property
    def settling_epoch(self) -> int:
        """The first epoch, counted from 0, of images that are not augmented; the number of epochs if there is none.

        Examples:
            >>> [Settings(clean_fraction=0.4, epochs=n).settling_epoch for n in (10, 8, 2)]
            [6, 5, 2]
        """
        return math.ceil((1 - self.clean_fraction) * self.num_epochs - 1e-9)

    def clean(self, epoch: int) -> bool:
        """Whether images are not augmented in an epoch."""
        return epoch >= self.settling_epoch

    def views_in(self, epoch: int) -> int:
        """Views of each sample in an epoch: one while images are not augmented."""
        return 1 if self.clean(epoch) else self.views

    def learning_rate(self, progress: float) -> float:
        """The learning rate after a fraction of all steps, from 0 to below 1.

        Examples:
            >>> settings = Settings(lr=1.0, clean_fraction=0.4, epochs=20)
            >>> progress = (0.0, 0.05, 0.3, 0.599, 0.6, 0.8)
            >>> [round(settings.learning_rate(part), 2) for part in progress]
            [0.0, 0.98, 0.5, 0.0, 1.0, 0.5]
        """
        restart = self.settling_epoch / self.num_epochs
        phase = progress / restart if progress < restart else (progress - restart) / (1.0 - restart)
        if self.lr_schedule == "step":
            return self.lr * 0.1 ** math.floor(3 * phase)
        fall = 1 - progress if self.lr_schedule == "linear" else 0.5 * (1 + math.cos(math.pi * phase))
        return self.lr * min(1.0, progress / _WARM_UP) * fall

    def absolute(self) -> "Settings":
        """The same settings with absolute paths."""
        kind, _, path = self.data.partition(":")
        data = f"{kind}:{_absolute(path)}" if kind in OWN_FILES and path else self.data
        places = {name: getattr(self, name) for name in _PLACES}
        absolute: dict[str, Any] = {
            name: None if place is None else Path(_absolute(place)) for name, place in places.items()
        }
        backbone = self.backbone
        if backbone is not None and backbone.startswith("hf:") and os.path.isdir(os.path.expanduser(backbone[3:])):
            backbone = f"hf:{_absolute(backbone[3:])}"
        return replace(self, data=data, backbone=backbone, **absolute)

    def check(self) -> None:
        """Refuse values that are not allowed or contradict each other.

        Raises:
            OptionError: With a sentence that names the setting.
        """
        self._check_values()
        if self.imbalance == "none" and self.ratio not in (Settings.ratio, 1):
            raise OptionError(Option("imbalance", "none"), " has no ", Option("ratio"), "; leave one of them out")
        if self.epochs is not None and self.minutes is not None:
            raise OptionError(Option("minutes"), " decides the number of epochs; leave ", Option("epochs"), " out")
        if not self.augment and self.flip:
            raise OptionError(Option("flip"), " is a part of augmentation; leave one of them out")
        if not self.data.startswith("csv:"):
            for name in ("path_column", "label_column", "split_column", "group_column"):
                if getattr(self, name) != getattr(Settings, name):
                    raise OptionError(Option(name), " needs ", Option("data", "csv:FILE"))
        if self.backbone is not None:
            for name in ("model", "width", "init"):
                if getattr(self, name) is not None:
                    raise OptionError(Option("backbone"), " takes the place of ", Option(name), "; leave one out")
        if self.head == "none" and self.features is not None:
            otherwise = "; without it the width decides the dimension"
            raise OptionError(Option("features"), " needs ", Option("head", "linear"), otherwise)
        self._check_loss()
        if self.binding in ("none", "present"):
            for name in ("bound_classes", "bound_examples"):
                if getattr(self, name) != getattr(Settings, name):
                    others = f", redrawn or random, not {self.binding}"
                    raise OptionError(Option(name), " needs ", Option("binding", "fixed"), others)
        if self.scheme == "full" and self.batch_size != Settings.batch_size:
            whole = " is one batch of all samples; leave "
            raise OptionError(Option("scheme", "full"), whole, Option("batch_size"), " out")
        if not self.augment and self.views > 1:
            same = f" without augmentation would be {self.views} times the same image"
            raise OptionError(Option("views", self.views), same)

    def _check_loss(self) -> None:
        """Refuse what the loss would ignore."""
        given = [field.name for field in fields(Settings) if getattr(self, field.name) != field.default]
        if self.linear_classifier:
            for name in OF_FRAMES:
                if name in given and (name, self.head) != ("head", "none"):
                    either = (Option("loss", "supcon"), " or frame; ")
                    frames = (Option("loss", "frame"), "; ") if name == "supcon" else either
                    raise OptionError(Option(name), " needs ", *frames, f"{self.loss} has a linear classifier instead")
        frozen = self.backbone_lr == 0 or (self.backbone is not None and self.backbone_lr is None)
        if self.classifier.largest and frozen:
            learns = " teaches a backbone; this one stays as it is without a "
            raise OptionError(Option("classifier"), learns, Option("backbone_lr"), "; use ", Option("probe"))
        if self.loss != "frame" and "supcon" in given:
            raise OptionError(Option("supcon"), " needs ", Option("loss", "frame"))
        if self.loss == "frame" and not self.supcon.largest:
            for name in ("denominator", "prototypes"):
                if name in given:
                    raise OptionError(Option(name), " is of the contrastive part; give it a weight, ", Option("supcon"))
        if self.power is not None and self.scheme != "weighted":
            raise OptionError(Option("power"), " needs ", Option("scheme", "weighted"))
        if self.head_norm != "none" and self.head == "none":
            raise OptionError(Option("head_norm", self.head_norm), " needs ", Option("head", "linear"))
        if self.probe and self.classifier.last:
            raise OptionError(Option("probe"), " and ", Option("classifier"), " both predict; leave one of them out")
        if self.probe and self.adjust:
            raise OptionError(Option("probe"), " is balanced already; leave ", Option("adjust"), " out")
        for margin in (self.margin.first, self.margin.last):
            check_margin(margin, self.denominator)

    def _check_values(self) -> None:
        for name, kind in get_type_hints(Settings).items():
            value = getattr(self, name)
            choice = next((each for each in (kind, *get_args(kind)) if get_origin(each) is Literal), None)
            if choice is not None and name != "adjust":  # which may be a number, too
                if value is not None or choice is kind:
                    check_choice(name, value, choice)
            elif name == "workers":
                value is None or check_count(name, value, 0)
            elif kind is int or (kind == int | None and value is not None):
                check_count(name, value, 0) if name == "seed" else check_size(name, value)
            elif kind is bool and not isinstance(value, bool):
                raise OptionError(Option(name), f" must be true or false, not {value!r}")
        if not isinstance(self.data, str):
            raise OptionError(Option("data"), f" must be a string, not {self.data!r}")
        for name in _PLACES:
            if not isinstance(getattr(self, name), Path | str | None):
                raise OptionError(Option(name), f" must be a folder, not {getattr(self, name)!r}")
        if self.seed >= 2**63:
            raise OptionError(Option("seed"), f" must be below 2^63, not {brief(self.seed, 30)}")
        check_number("ratio", self.ratio, least=1)
        check_number("lr", self.lr, above=0, below=_BEYOND)
        if self.backbone_lr is not None:
            check_number("backbone_lr", self.backbone_lr, least=0, below=_BEYOND)
            if self.backbone_lr == 0 and self.head == "none" and not self.linear_classifier:
                raise OptionError(Option("backbone_lr", 0), " leaves nothing to train; use ", Option("head", "linear"))
        check_number("weight_decay", self.weight_decay, least=0, below=_BEYOND)
        check_number("clean_fraction", self.clean_fraction, least=0, below=1)
        if self.validation is not None:
            check_number("validation", self.validation, least=0, below=1)
        if self.minutes is not None:
            check_number("minutes", self.minutes, above=0)
        if self.memory is not None:
            check_number("memory", self.memory, least=0)
        if self.size is not None:
            check_image_size(self.size)
        if not isinstance(self.backbone, str | None):
            raise OptionError(Option("backbone"), f" must be a name, not {brief(repr(self.backbone), 60)}")
        for name in ("path_column", "label_column", "split_column", "group_column"):
            value = getattr(self, name)
            if not (isinstance(value, str) or (value is None and getattr(Settings, name) is None)):
                raise OptionError(Option(name), f" must be the name of a column, not {brief(repr(value), 60)}")
        for tau in (self.temperature.first, self.temperature.last):
            check_temperature(tau)
        for name in ("supcon", "classifier"):
            for weight in (getattr(self, name).first, getattr(self, name).last):
                check_number(name, weight, least=0, below=_BEYOND)
        if self.power is not None:
            check_number("power", self.power, least=0, most=1)
        if self.adjust is not None and self.adjust != "fit":
            check_number("adjust", self.adjust, least=0, most=100, advice=("or ", Option("adjust", "fit")))

    def to_dict(self) -> dict[str, Any]:
        """Types that JSON has: what may change is a number, or a list of the first and the last."""
        data = asdict(self)
        data |= {name: None if data[name] is None else str(data[name]) for name in _PLACES}
        return data | {name: getattr(self, name).to_json() for name in _RAMPS}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Settings":
        """The settings that `to_dict` wrote; unknown entries are ignored."""
        known = {field.name for field in fields(Settings)}
        own = {name: value for name, value in data.items() if name in known}
        if isinstance(own.get("size"), list):
            own["size"] = tuple(own["size"])
        places: dict[str, Any] = {name: None if own.get(name) is None else Path(own[name]) for name in _PLACES}
        return replace(Settings(**own), **places)


def _absolute(path: str | Path) -> str:
    return os.path.abspath(os.path.expanduser(path))
