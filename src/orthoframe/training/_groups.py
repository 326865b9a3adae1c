"""The groups of settings that every run has in common; images have a group for each kind, and each loss is one."""

import math
import os
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from orthoframe.errors import Option, OptionError, brief
from orthoframe.options import (
    Activation,
    Binding,
    Head,
    HeadNorm,
    LearningRateSchedule,
    Model,
    Precision,
    Scheme,
    check_number,
    check_size,
)
from orthoframe.training._fields import AUTO, BEYOND, Group, absolute_path, usual, usual_value

if TYPE_CHECKING:
    from orthoframe.batches import BatchPlan

_WARM_UP = 0.05  # the fraction of the steps in which the learning rate rises


@dataclass(frozen=True, kw_only=True, repr=False)
class EncoderSettings(Group):
    """The network that encodes images, and its head."""

    model: Model | None = usual()
    """The encoder (default: conv6-quarters for your own images from 16 pixels on, else mlp)."""
    width: int | None = usual(None)
    """Width of the encoder (default: the model's; 8, 16 or 32 for your own images, as time allows)."""
    backbone: str | None = usual(None)
    """Another network instead: efficientnet-lite0 (trained on ImageNet, for photographs of things),
    efficientnet-lite0-224 (larger images), hf:NAME_OR_FOLDER (of transformers) or MODULE:FACTORY (a Python
    function)."""
    init: Path | None = usual(None)
    """Start from the encoder of this run, for more images or classes in fewer steps; classes without images are
    forgotten. Known classes keep their directions, new ones get dimensions of their own."""
    head: Head = usual()
    """A linear layer before the activation, or none, with which features approach the frame far more slowly (default:
    linear; none for losses of a linear classifier)."""
    head_norm: HeadNorm = usual("none")
    """BatchNorm between the linear layer and the activation, which spreads the features early in training."""
    features: int | None = usual()
    """Dimensions of the features, with a linear head (default: those of the encoder; for your own images and the frame
    term at least 128, and two per class)."""
    activation: Activation = usual("relu")
    """Applied before the unit norm; the frame needs features that are non-negative, as relu and abs make them."""

    NETWORK: ClassVar = ("model", "width", "backbone", "init")
    """Settings that each decide the network, or a part of it."""
    SHAPE: ClassVar = ("model", "width", "head", "features", "head_norm", "activation")
    """Settings that an encoder to start from decides."""

    def check(self) -> None:
        super().check()
        if self.backbone not in (AUTO, None):
            for name in ("model", "width", "init"):
                if getattr(self, name) not in (AUTO, None):
                    raise OptionError(Option("backbone"), " takes the place of ", Option(name), "; leave one out")
        if self.head == "none" and self.features not in (AUTO, None):
            otherwise = "; without it the width decides the dimension"
            raise OptionError(Option("features"), " needs ", Option("head", "linear"), otherwise)
        if self.head == "none" and self.head_norm not in (AUTO, "none"):
            raise OptionError(Option("head_norm", self.head_norm), " needs ", Option("head", "linear"))

    @property
    def is_open(self) -> bool:
        """Whether nobody has said which network it is."""
        return all(getattr(self, name) in (AUTO, None) for name in self.NETWORK)

    def shape(self) -> dict[str, Any]:
        """What the network is made of, as `make_frame_encoder` and `Architecture` take it."""
        return {name: getattr(self, name) for name in self.SHAPE}

    def absolute(self) -> Self:
        """The same with absolute paths, also of a folder that a backbone is in."""
        settings, (kind, _, path) = super().absolute(), str(self.backbone).partition(":")
        is_folder = kind == "hf" and os.path.isdir(os.path.expanduser(path))
        return replace(settings, backbone=f"hf:{absolute_path(path)}") if is_folder else settings


@dataclass(frozen=True, kw_only=True, repr=False)
class BatchSettings(Group):
    """Which examples meet."""

    scheme: Scheme = usual("reshuffle")
    """How samples are drawn and cut into batches."""
    power: float | None = usual(None, least=0, most=1)
    """With the scheme weighted: rows are sampled in proportion to class size^POWER (default: 0.5; 1 samples as in the
    data, 0 all classes equally often)."""
    binding: Binding = usual("fixed")
    """Examples that bind each batch; fixed adds the same example of each class."""
    bound_classes: int | None = usual(None)
    """Bind only the first N classes (default: all)."""
    bound_examples: int = usual(1)
    """Examples of each bound class that are added to a batch."""
    batch_size: int = usual(128)
    """Samples per batch, before binding; with the scheme weighted at most, in batches of equal size."""
    views: int = usual(1)
    """Augmented views of each sample in a batch; 1 in epochs without augmentation."""

    @classmethod
    def of(cls, plan: "BatchPlan") -> Self:
        """The settings of a plan, as far as it has them."""
        return cls(
            scheme=plan.scheme,
            power=plan.power,
            binding=plan.binding,
            bound_examples=plan.bound_examples,
            batch_size=plan.batch_size or AUTO,
            views=plan.views,
        )

    def check(self) -> None:
        super().check()
        if self.binding in ("none", "present"):
            for name in ("bound_classes", "bound_examples"):
                if getattr(self, name) not in (AUTO, usual_value(BatchSettings, name)):
                    others = f", redrawn or random, not {self.binding}"
                    raise OptionError(Option(name), " needs ", Option("binding", "fixed"), others)
        if self.scheme == "full" and self.batch_size not in (AUTO, usual_value(BatchSettings, "batch_size")):
            whole = " is one batch of all samples; leave "
            raise OptionError(Option("scheme", "full"), whole, Option("batch_size"), " out")
        if self.power not in (AUTO, None) and self.scheme != "weighted":
            raise OptionError(Option("power"), " needs ", Option("scheme", "weighted"))


@dataclass(frozen=True, kw_only=True, repr=False)
class ScheduleSettings(Group):
    """How long, and how fast."""

    epochs: int = usual()
    """Passes over the data (default: as many as 2000 steps make, from 5 to 500)."""
    minutes: float | None = usual(None, above=0)
    """Minutes in all, start-up and report included (default: 5 for your own images, without another length). They
    decide the width and the batch size, if these are open, and the number of steps, which are cut into 20 epochs."""
    steps: tuple[int, ...] | None = usual(None)
    """Optimisation steps in all, in 20 epochs, whatever that makes in passes over the data."""
    lr: float = usual(0.1, above=0, below=BEYOND)
    """Peak learning rate of SGD with Nesterov momentum 0.9."""
    backbone_lr: float | None = usual(least=0, below=BEYOND)
    """Peak learning rate of the backbone; 0 freezes it (default: as lr; 0 with backbone)."""
    lr_schedule: LearningRateSchedule = usual("cosine")
    """Learning-rate schedule: cosine or linear after a warm-up of 5 %, or step (divided by 10 after each third); linear
    does not restart."""
    weight_decay: float = usual(5e-4, least=0, below=BEYOND)
    """L2 penalty on the weights."""
    clean_fraction: float = usual(0.4, least=0, below=1)
    """Final fraction of the epochs, without augmentation; the learning-rate schedule restarts there."""

    PARTS: ClassVar = 20
    """Epochs that a number of steps is cut into."""

    def __post_init__(self) -> None:
        super().__post_init__()
        steps: Any = self.steps
        if isinstance(steps, int) and steps > 0:
            parts = min(self.PARTS, steps)
            ends = [steps * part // parts for part in range(parts + 1)]
            object.__setattr__(self, "steps", tuple(last - first for first, last in pairwise(ends)))

    def check(self) -> None:
        super().check()
        timed = self.minutes not in (AUTO, None)
        if self.steps in (AUTO, None):
            if timed and self.epochs is not AUTO:
                raise OptionError(Option("minutes"), " decides the number of epochs; leave ", Option("epochs"), " out")
            return
        numbers: Any = self.steps  # one number, if it was refused
        for number in numbers if isinstance(numbers, tuple) else (numbers,):
            check_size("steps", number)
        if not (self.steps or timed):
            raise OptionError(Option("steps"), " must be 1 or more")
        if self.epochs is AUTO:
            if timed:
                raise OptionError(Option("minutes"), " decides the number of steps; leave ", Option("steps"), " out")
        elif len(self.steps) > self.epochs or (len(self.steps) < self.epochs and not timed):
            what = f" are those of {len(self.steps)} epochs, and not of "
            raise OptionError(Option("steps"), what, Option("epochs", self.epochs), "; leave one of them out")

    @property
    def is_open(self) -> bool:
        """Whether time still has to decide the steps of some epochs."""
        return self.steps is not None and len(self.steps) < self.epochs

    @property
    def settling_epoch(self) -> int:
        """The first epoch, counted from 0, of images that are not augmented; the number of epochs if there is none.

        Examples:
            >>> schedule = ScheduleSettings(clean_fraction=0.4)
            >>> [replace(schedule, epochs=epochs).settling_epoch for epochs in (10, 8, 2)]
            [6, 5, 2]
        """
        return math.ceil((1 - self.clean_fraction) * self.epochs - 1e-9)

    def is_clean(self, epoch: int) -> bool:
        """Whether images are not augmented in an epoch."""
        return epoch >= self.settling_epoch

    def learning_rate(self, progress: float) -> float:
        """The learning rate after a fraction of all steps, from 0 to below 1.

        Examples:
            >>> schedule = ScheduleSettings(
            ...     lr=1.0, lr_schedule="cosine", epochs=20, clean_fraction=0.4
            ... )
            >>> progress = (0.0, 0.05, 0.3, 0.599, 0.6, 0.8)
            >>> [round(schedule.learning_rate(part), 2) for part in progress]
            [0.0, 0.98, 0.5, 0.0, 1.0, 0.5]
        """
        restart = self.settling_epoch / self.epochs
        phase = progress / restart if progress < restart else (progress - restart) / (1.0 - restart)
        if self.lr_schedule == "step":
            return self.lr * 0.1 ** math.floor(3 * phase)
        fall = 1 - progress if self.lr_schedule == "linear" else 0.5 * (1 + math.cos(math.pi * phase))
        return self.lr * min(1.0, progress / _WARM_UP) * fall


@dataclass(frozen=True, kw_only=True, repr=False)
class EvaluationSettings(Group):
    """What is measured, and how classes are predicted."""

    adjust: float | Literal["fit"] = usual()
    """Logit adjustment: score - lambda log(class share); fit tunes lambda on validation images (default: fit if there
    are any, else 0)."""
    probe: bool = usual(False)
    """Predict with a balanced linear probe on the features before the head, fitted after training; for classes of a few
    images whose features have settled onto the frame."""
    measure_every: int = usual()
    """Measure the geometry every N epochs (default: about 40 measurements in all)."""

    def check(self) -> None:
        super().check()
        if self.adjust is not AUTO and self.adjust != "fit":
            check_number("adjust", self.adjust, least=0, most=100, advice=("or ", Option("adjust", "fit")))
        if self.probe is True and self.adjust not in (AUTO, 0):
            raise OptionError(Option("probe"), " is balanced already; leave ", Option("adjust"), " out")


@dataclass(frozen=True, kw_only=True, repr=False)
class MachineSettings(Group):
    """What computes, and the seed."""

    precision: Precision = usual("32")
    """Floating-point precision of the encoder; 16-mixed needs a GPU."""
    devices: int = usual(1)
    """Processes that share each batch (CPU cores or GPUs); torchrun and SLURM set their own number."""
    compile: bool = usual(False)
    """Compile the encoder with torch.compile."""
    seed: int = usual(0, least=0)
    """Seed of everything that is random."""

    def check(self) -> None:
        super().check()
        if self.seed is not AUTO and self.seed >= 2**63:
            raise OptionError(Option("seed"), f" must be below 2^63, not {brief(self.seed, 30)}")
