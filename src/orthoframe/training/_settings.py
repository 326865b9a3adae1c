"""Everything that decides a run, in one record."""

import os
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, get_args

import tyro

from orthoframe.training._options import check_type, flag
from orthoframe.training._schedules import DECAYS, Temperature


def hint(default: str) -> str:
    """What the help adds to an option: its default, unless the sentence tells it."""
    return "" if default == "None" else f"(default: {default})"


_Name = Annotated[str, tyro.conf.arg(metavar="NAME")]
_Count = Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint=hint)]

IMBALANCES = ("step", "long-tail", "none")
LOSSES = ("supcon", "cross-entropy")
_COUNTS = (
    "majority",
    "width",
    "features",
    "bound_classes",
    "bound_examples",
    "batch_size",
    "views",
    "epochs",
    "devices",
    "test_images",
    "measure_every",
)
PRECISIONS = ("auto", "32", "bf16-mixed", "16-mixed")


@dataclass(frozen=True)
class Settings:
    """The settings of a run; the same settings give the same bytes."""

    data: _Name = "digits"
    """digits, mnist, fashion-mnist, cifar10, cifar100, folder:PATH (a sub-folder a class) or npz:PATH."""
    data_dir: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER", help_behavior_hint=hint)] = None
    """Where data is looked for, and put if it is downloaded (default: ORTHOFRAME_DATA, or the user's cache)."""
    imbalance: _Name = "step"
    """Which classes are made small: step (the second half), long-tail, or none."""
    ratio: float = 10.0
    """Samples of the largest class over those of the smallest."""
    majority: _Count = None
    """Samples of the largest class (default: as many as there are)."""
    model: _Name = "mlp"
    """The encoder: resnet18, resnet34, densenet40, mlp or vit."""
    width: _Count = None
    """How wide the encoder is (default: its own)."""
    head: _Name = "linear"
    """What precedes the activation: linear (a layer of its own), or none (the encoder's last ReLU is the
    activation; pooled maps are rarely exactly zero, and approach the frame far more slowly)."""
    features: _Count = None
    """Dimensions of the features, with --head linear (default: those of the encoder)."""
    activation: _Name = "relu"
    """Of the features: relu, abs, square and softplus are non-negative; gelu, leaky-relu and none are not."""
    loss: _Name = "supcon"
    """supcon, or cross-entropy with a linear classifier on the same features."""
    denominator: _Name = "all"
    """Of the contrastive loss: all, sincere, negatives or class-average."""
    temperature: Annotated[str | float, tyro.conf.arg(metavar="TAU")] = "0.1"
    """A number, or a schedule such as '0.1->0.5' (a shell needs the quotes) or 0.1:0.5, which changes evenly from the
    first epoch to the last."""
    scheme: _Name = "reshuffle"
    """Which samples meet: full, partition, reshuffle, balanced or rare-hub."""
    binding: _Name = "fixed"
    """What is added to each batch: none, fixed (one example of each class), present, redrawn or random."""
    bound_classes: _Count = None
    """How many classes are bound: the first so many (default: all)."""
    bound_examples: int = 1
    """Examples of each bound class in a batch."""
    prototypes: bool = False
    """Whether every batch is compared with a fixed frame too, a row a class: binding that encodes no image."""
    batch_size: int = 128
    """Samples of a batch, before binding."""
    views: int = 1
    """Augmented views of each sample in a batch; one where images are shown as they are (--settle)."""
    augment: bool = True
    """Whether images are cropped and flipped at random."""
    settle: float = 0.4
    """The last part of the epochs, in which images are shown as they are and the learning rate starts anew."""
    epochs: int = 1000
    """Passes over the data."""
    lr: float = 0.1
    """Largest learning rate of SGD with Nesterov momentum 0.9."""
    decay: _Name = "cosine"
    """How the learning rate falls: cosine (after a rise in the first twentieth), or thirds (by ten after each)."""
    weight_decay: float = 5e-4
    """Pull of the weights to zero."""
    precision: _Name = "auto"
    """32, bf16-mixed, 16-mixed, or auto: bf16-mixed on a CPU that has units for it and is faster with it."""
    devices: int = 1
    """Processes that share each batch (CPU cores or GPUs); torchrun and SLURM decide it themselves."""
    compile: bool = False
    """Whether to compile the encoder with torch.compile."""
    test_images: _Count = None
    """Test images of each class (default: all)."""
    measure_every: _Count = None
    """Epochs between measurements of the geometry (default: so that there are about forty)."""
    seed: int = 0
    """Decides everything that is random."""

    def __post_init__(self) -> None:
        if isinstance(self.temperature, int | float):
            object.__setattr__(self, "temperature", str(self.temperature))

    def settled(self, epoch: int) -> bool:
        """Whether the images of an epoch are shown as they are."""
        return epoch >= (1 - self.settle) * self.epochs

    def views_in(self, epoch: int) -> int:
        """Views of each sample in an epoch: of an image as it is, one."""
        return 1 if self.settled(epoch) else self.views

    def absolute(self) -> "Settings":
        """The same settings, for whatever folder the process is in."""
        kind, _, path = self.data.partition(":")
        data = f"{kind}:{_absolute(path)}" if kind in ("folder", "npz") and path else self.data
        return replace(self, data=data, data_dir=None if self.data_dir is None else Path(_absolute(self.data_dir)))

    def check(self) -> None:
        """Refuse values that are not allowed or contradict each other, in a sentence.

        Raises:
            ValueError: With that sentence.
        """
        for field in fields(Settings):
            check_type(field.name, field.default, getattr(self, field.name))
        for name, allowed in _choices().items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{flag(name)} must be one of {', '.join(allowed)}, not {getattr(self, name)!r}")
        for name in _COUNTS:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{flag(name)} must be at least 1, not {value}")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"--seed must be at least 0 and below 2^63, not {self.seed}")
        if not 1 <= self.ratio < float("inf"):
            raise ValueError(f"--ratio must be a number from 1 (balanced), not {self.ratio}")
        if not 0 < self.lr < float("inf"):
            raise ValueError(f"--lr must be positive, not {self.lr}")
        if not 0 <= self.weight_decay < float("inf"):
            raise ValueError(f"--weight-decay must be at least 0, not {self.weight_decay}")
        if not 0 <= self.settle < 1:
            raise ValueError(f"--settle must be a part of the epochs from 0 to below 1, not {self.settle}")
        Temperature.of(self.temperature)
        if self.imbalance == "none" and self.ratio != Settings.ratio and self.ratio != 1:
            raise ValueError(f"--imbalance none has no ratio, and --ratio is {self.ratio}; leave one of them out")
        if self.head == "none" and self.features is not None:
            raise ValueError("--features needs --head linear; with --head none the width decides the dimension")
        if self.loss == "cross-entropy" and self.denominator != Settings.denominator:
            raise ValueError("--denominator is for --loss supcon; cross-entropy has none")
        if self.loss == "cross-entropy" and self.prototypes:
            raise ValueError("--prototypes are for --loss supcon; cross-entropy compares no rows")
        if self.binding in ("none", "present") and (self.bound_classes is not None or self.bound_examples > 1):
            raise ValueError(
                f"--bound-classes and --bound-examples need --binding fixed, redrawn or random, not {self.binding}"
            )
        if self.loss == "cross-entropy" and self.temperature != Settings.temperature:
            raise ValueError("--temperature is for --loss supcon; cross-entropy has none")
        if self.scheme == "full" and self.batch_size != Settings.batch_size:
            raise ValueError("--scheme full is one batch of all samples; leave --batch-size out")
        if not self.augment and self.views > 1:
            raise ValueError(f"--views {self.views} without augmentation are {self.views} times the same image")

    def to_dict(self) -> dict[str, Any]:
        """Types that JSON knows."""
        data = asdict(self)
        data["data_dir"] = None if self.data_dir is None else str(self.data_dir)
        return data

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Settings":
        """The settings that `to_dict` wrote; other entries are left out."""
        known = {field.name for field in fields(Settings)}
        own = {name: value for name, value in data.items() if name in known}
        return replace(Settings(**own), data_dir=None if own.get("data_dir") is None else Path(own["data_dir"]))


RECIPES: dict[str, dict[str, Any]] = {
    "quick": {},
    "paper": {
        "data": "cifar10",
        "majority": 5000,
        "model": "resnet18",
        "head": "none",
        "epochs": 350,
        "decay": "thirds",
        "settle": 0.0,
        "measure_every": 10,
    },
    "fast": {
        "data": "fashion-mnist",
        "model": "resnet18",
        "prototypes": True,
        "binding": "redrawn",
        "temperature": "0.1->0.5",
        "batch_size": 32,
        "lr": 0.03,
        "settle": 0.6,
        "epochs": 70,
    },
}
"""Settings that differ from the defaults, by the name of the recipe."""


def _choices() -> dict[str, tuple[str, ...]]:
    # Here, because the help of the command should not load what trains.
    from orthoframe.losses import Denominator
    from orthoframe.options import Activation, Binding, Head, Model, Scheme

    return {
        "imbalance": IMBALANCES,
        "model": get_args(Model),
        "head": get_args(Head),
        "activation": get_args(Activation),
        "loss": LOSSES,
        "denominator": get_args(Denominator),
        "scheme": get_args(Scheme),
        "binding": get_args(Binding),
        "decay": DECAYS,
        "precision": PRECISIONS,
    }


def _absolute(path: str | Path) -> str:
    return os.path.abspath(os.path.expanduser(path))
