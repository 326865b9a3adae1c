"""The encoder of a run as one file: its weights, how it classifies, and how pictures are prepared for it."""

import functools
import json
import math
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import torch
from safetensors.torch import save
from torch import Tensor

from orthoframe._rows import unit_rows
from orthoframe.data import Normaliser, Preparation
from orthoframe.encoders import PREFIX, Encoder, FrameEncoder, load_weights, make_backbone, make_frame_encoder
from orthoframe.errors import Call, DataError, InputError, Option, OptionError, Part, TrainingError, brief, reason_of
from orthoframe.files import open_tensors, parsed, write_atomic
from orthoframe.geometry import Calibration, Familiarity, LinearClassifier, NearestCentre
from orthoframe.options import Activation, Fit, Head, HeadNorm, Model
from orthoframe.runs._checkpoint import Checkpoint
from orthoframe.runs._read import read_run
from orthoframe.runs._records import Ending

_FILE, _CENTRES = "encoder.safetensors", "class_means"
_WEIGHTS, _BIAS = "classifier.weights", "classifier.bias"
_MEANS, _HELD_OUT = "familiarity.means", "familiarity.held_out"
_ROWS = 256  # images that are encoded together


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """What an encoder is made of, as `make_frame_encoder` takes it."""

    model: Model | None  # None for another backbone
    width: int | None
    head: Head
    features: int | None
    activation: Activation
    backbone: dict[str, Any] | None = None  # as `make_backbone` takes it
    head_norm: HeadNorm = "none"

    def make(self, image_shape: tuple[int, int, int], code: bool) -> FrameEncoder:
        """The encoder without weights, which takes memory when its shapes have been compared with those of a file."""
        shape = asdict(self)
        if self.backbone is not None:
            shape["backbone"] = make_backbone(self.backbone, code=code)
        return make_frame_encoder(image_shape=image_shape, weights=False, **shape)


@dataclass(frozen=True, kw_only=True)
class TrainedEncoder:
    """An encoder, and how it classifies: by the nearest centre, or by a linear classifier before its head."""

    encoder: FrameEncoder
    centres: Tensor  # [k, dim], prototypes, or the class means of the training images
    classes: tuple[str, ...]
    preparation: Preparation  # of image files
    normaliser: Normaliser
    architecture: Architecture
    calibration: Calibration | None = None  # without validation images there is none
    shares: tuple[float, ...] | None = None  # [k], for which the scores of centres are adjusted
    adjust: float = 0.0
    classifier: LinearClassifier | None = None  # of the features before the head; it classifies if there is one
    familiarity: Familiarity | None = None  # of the features before the head; none without validation images

    @property
    def rule(self) -> NearestCentre | LinearClassifier:
        """What classifies `features`."""
        return self.classifier or NearestCentre(self.centres, self.shares, self.adjust)

    @property
    def has_frame(self) -> bool:
        """Whether it was trained to a frame; losses of a linear classifier have no head for one."""
        return self.classifier is None or self.encoder.head.linear is not None

    @property
    def dimensions_per_class(self) -> int:
        """Dimensions of the features that each class has on average, at least one."""
        return max(1, self.encoder.out_features // len(self.classes))

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        return self.preparation.image_shape

    @property
    def network(self) -> FrameEncoder | Encoder:
        """What makes `features`: all of it, or all before the head if a linear classifier reads them there."""
        return self.encoder if self.classifier is None else self.encoder.backbone

    @torch.no_grad()
    def features(self, pixels: Tensor, *, mirror: bool = False) -> Tensor:
        """Features `[n, dim]` of uint8 images `[n, channels, height, width]`, as `classify` takes them.

        They are unit rows; with a linear classifier those before the head, of any length. With `mirror`, they are the
        mean over an image and its mirror image.
        """
        rows = self.features_of(self.rows_before_head(pixels))
        if mirror:
            rows = (rows + self.features(pixels.flip(-1))) / 2
            rows = rows if self.classifier is not None else unit_rows(rows)[0]
        return rows

    @torch.no_grad()
    def rows_before_head(self, pixels: Tensor) -> Tensor:
        """The features of the backbone `[n, d]` of uint8 images, of any length, as `familiarity` takes them."""
        backbone, parts = self.encoder.eval().backbone, torch.split(pixels, _ROWS)
        return torch.cat([backbone(self.normaliser(part)).float() for part in parts])

    @torch.no_grad()
    def features_of(self, rows: Tensor) -> Tensor:
        """`features`, of rows before the head."""
        return rows if self.classifier is not None else self.encoder.eval().head(rows).float()

    def refused(self, rows: Tensor, error: float | None) -> Tensor:
        """Which rows before the head are of no known class, `[n]`, as `Familiarity` decides; None refuses none."""
        if error is None or self.familiarity is None:
            return torch.zeros(len(rows), dtype=torch.bool)
        return self.familiarity.refused(rows, error)

    def check_reject(self, error: float | None) -> None:
        """An `OptionError` for an error that is out of range, and if nothing is known of validation images."""
        if error is None:
            return
        if self.familiarity is None:
            none = (
                "the run had none"
                if self.calibration is None
                else "the encoder is of a version that kept nothing of them"
            )
            raise OptionError(Option("reject"), f" needs validation images, and {none}; train again with them")
        self.familiarity.threshold(error)

    @torch.no_grad()
    def framed(self, features: Tensor) -> Tensor:
        """Unit rows `[n, dim]` on which the centres are, of `features`."""
        rows: Tensor = features if self.classifier is None else self.encoder.eval().head(features)
        return rows

    def classify(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """The score of each row for each class, `[n, k]`; the classes of the largest, `[n]`.

        Scores are cosines to the centres, adjusted for class sizes, or those of the linear classifier.
        """
        scores = self.rule.scores(features)
        return scores, scores.argmax(1)


@dataclass(frozen=True, kw_only=True)
class _EncoderDescription(Architecture):
    """What the file says beside its tensors."""

    image_shape: tuple[int, int, int]
    fit: Fit = "stretch"  # of files that were written before there was a choice
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    calibration: Calibration | None = None
    shares: tuple[float, ...] | None = None
    adjust: float = 0.0

    @property
    def architecture(self) -> Architecture:
        return Architecture(**{each.name: getattr(self, each.name) for each in fields(Architecture)})


def describe_encoder(trained: TrainedEncoder) -> str:
    """All of it but its tensors, as JSON."""
    about = _EncoderDescription(
        **asdict(trained.architecture),
        image_shape=trained.image_shape,
        fit=trained.preparation.fit,
        classes=trained.classes,
        mean=trained.normaliser.mean,
        std=trained.normaliser.std,
        calibration=trained.calibration,
        shares=trained.shares,
        adjust=trained.adjust,
    )
    return json.dumps(asdict(about))


def save_encoder(folder: Path, trained: TrainedEncoder) -> None:
    """Write the encoder to the folder of its run."""
    weights = trained.encoder.state_dict().items()
    tensors = {PREFIX + name: value.detach().cpu().contiguous() for name, value in weights}
    tensors[_CENTRES] = trained.centres.contiguous()
    if trained.classifier is not None:
        tensors |= {_WEIGHTS: trained.classifier.weights.contiguous(), _BIAS: trained.classifier.bias.contiguous()}
    if trained.familiarity is not None:
        tensors |= {_MEANS: trained.familiarity.means, _HELD_OUT: trained.familiarity.held_out}
    # One entry: the order of several would differ from run to run.
    write_atomic(folder / _FILE, save(tensors, metadata={"orthoframe": describe_encoder(trained)}))


def load_encoder(folder: str | Path, *, code: bool = False) -> TrainedEncoder:
    """Read the encoder of a run.

    Args:
        folder: That of the run, or the file itself.
        code: Whether a Python function that the file names as its backbone may be imported and called. A file from
            somebody else may name any.

    Returns:
        The encoder, in evaluation mode, and all that is needed to classify images with it.

    Raises:
        TrainingError: If there is none, or it is broken.
    """
    folder = Path(folder)
    path = folder / _FILE if os.path.isdir(folder) else folder
    try:
        return parsed(functools.partial(_read_file, code=code), path)
    except DataError as error:  # of a backbone
        raise TrainingError(f"{path}: ", *error.args) from None
    except FileNotFoundError:
        if os.path.isfile(folder / "config.json"):
            raise TrainingError(*_unfinished(folder)) from None
        raise TrainingError(f"{folder}: there is no trained encoder in it") from None
    except (OSError, ValueError) as error:
        what = f"not an encoder that orthoframe trained ({reason_of(error, 200)})"
        raise TrainingError(f"{path}: {what}") from None


def encoder_in(checkpoint: Checkpoint, *, code: bool = False) -> TrainedEncoder:
    """The encoder of a run that goes on, as `load_encoder` has it, but with the centres that it was started from.

    Raises:
        TrainingError: If the checkpoint has none, or it is broken.
    """
    tensors, about = {**checkpoint.weights}, {"orthoframe": checkpoint.progress.encoder}
    tensors[_CENTRES] = tensors.pop("directions", torch.empty(0))
    file = SimpleNamespace(keys=tensors.keys, get_tensor=tensors.__getitem__, metadata=lambda: about)
    try:
        return parsed(functools.partial(_read_encoder, code=code), file)
    except ValueError as error:
        raise TrainingError(f"the encoder in the checkpoint is broken ({brief(error, 200)})") from None


def _unfinished(folder: Path) -> tuple[Part, ...]:
    """How far a run is that has no encoder yet; one whose loss was not finite would only end so again."""
    resumption: tuple[Part, ...] = ("; resume it with: ", Call("resume", str(folder)))
    try:
        verdict = read_run(folder).verdict
    except InputError:  # it was killed before it had written all files
        return f"{folder}: the run has not finished its first epoch", *resumption
    if verdict.ending is Ending.NON_FINITE:
        resumption = ("; start a new one",)
    return f"{folder}: {verdict.sentence.rstrip('.')}", *resumption


def _read_file(path: Path, code: bool) -> TrainedEncoder:
    with open_tensors(path) as file:
        return _read_encoder(file, code)


def _read_encoder(file: Any, code: bool) -> TrainedEncoder:
    about = msgspec.convert(json.loads((file.metadata() or {}).get("orthoframe", "null")), _EncoderDescription)
    "".join(about.classes).encode()  # names may be half a character, which cannot be printed
    preparation = Preparation(about.image_shape, about.fit)
    channels = about.image_shape[0]
    if about.calibration is not None and not 0 < about.calibration.temperature < math.inf:
        raise ValueError("the temperature of confidences must be positive")
    if len(about.mean) != channels or not all(map(math.isfinite, about.mean + about.std)):
        raise ValueError(f"mean and std must be {channels} finite numbers")
    encoder = about.architecture.make(about.image_shape, code)
    load_weights(encoder, file)
    centres = file.get_tensor(_CENTRES).clone()
    classifier = _read_classifier(file, len(about.classes), encoder.backbone.out_features)
    if list(centres.shape) != [len(about.classes), encoder.out_features] or not centres.is_floating_point():
        raise ValueError(
            f"{len(about.classes)} class names, features of {encoder.out_features} dimensions, "
            f"and class means of shape {brief(list(centres.shape), 60)}"
        )
    encoder.eval()
    NearestCentre(centres, about.shares, about.adjust)  # which refuses shares that do not fit
    return TrainedEncoder(
        encoder=encoder,
        centres=centres,
        classes=about.classes,
        preparation=preparation,
        normaliser=Normaliser(about.mean, about.std),
        architecture=about.architecture,
        calibration=about.calibration,
        shares=about.shares,
        adjust=about.adjust,
        classifier=classifier,
        familiarity=_read_familiarity(file, len(about.classes), encoder.backbone.out_features),
    )


def _read_familiarity(file: Any, classes: int, dim: int) -> Familiarity | None:
    if not {_MEANS, _HELD_OUT} <= set(file.keys()):
        return None
    means, held_out = file.get_tensor(_MEANS), file.get_tensor(_HELD_OUT)
    if list(means.shape) != [classes, dim] or held_out.ndim != 1 or not len(held_out):
        shapes = f"{brief(list(means.shape), 60)} and {brief(list(held_out.shape), 60)}, not {[classes, dim]} and [n]"
        raise ValueError(f"class means and held-out images for telling unknown classes of shape {shapes}")
    if not means.is_floating_point() or not held_out.is_floating_point() or held_out.isnan().any():
        raise ValueError("class means and held-out images for telling unknown classes that are not numbers")
    return Familiarity(means.clone(), held_out.clone())


def _read_classifier(file: Any, classes: int, dim: int) -> LinearClassifier | None:
    if not {_WEIGHTS, _BIAS} <= set(file.keys()):
        return None
    weights, bias = file.get_tensor(_WEIGHTS), file.get_tensor(_BIAS)
    if list(weights.shape) != [classes, dim] or list(bias.shape) != [classes]:
        raise ValueError(f"a linear classifier of shape {brief(list(weights.shape), 60)}, not {[classes, dim]}")
    if weights.dtype != torch.float64 or bias.dtype != torch.float64:
        raise ValueError("a linear classifier that is not float64")
    return LinearClassifier(weights.clone(), bias.clone())
