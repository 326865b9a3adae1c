"""The encoder of a run as one file: its weights, the class means, and how pictures are prepared for it."""

import functools
import json
import math
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from orthoframe._atomic import write_atomic
from orthoframe._untrusted import few_entries, parsed
from orthoframe.data import Normaliser, Preparation
from orthoframe.encoders import PREFIX, FrameEncoder, load_weights, make_backbone, make_frame_encoder
from orthoframe.errors import DataError, TrainingError, brief
from orthoframe.geometry import Calibration, NearestCentre
from orthoframe.options import Activation, Fit, Head, Model

_FILE, _CENTRES = "encoder.safetensors", "class_means"
_ROWS = 256  # images that are encoded together
_CONVOLUTIONAL, _SMALLEST = ("resnet18", "resnet34", "densenet40"), 16  # encoders and sides, for `_formatted`


@dataclass(frozen=True)
class Architecture:
    """What an encoder is made of, as `make_frame_encoder` takes it."""

    model: Model | None  # None for another backbone
    width: int | None
    head: Head
    features: int | None
    activation: Activation
    backbone: dict[str, Any] | None = None  # as `make_backbone` takes it

    def make(self, image_shape: tuple[int, int, int], code: bool) -> FrameEncoder:
        """The encoder without weights, which takes memory when its shapes have been compared with those of a file."""
        backbone = None
        if self.backbone is not None:
            backbone = make_backbone(self.backbone, weights=False, code=code)
        return make_frame_encoder(
            self.model,
            image_shape,
            backbone=backbone,
            width=self.width,
            head=self.head,
            features=self.features,
            activation=self.activation,
            weights=False,
        )


@dataclass(frozen=True)
class TrainedEncoder:
    """An encoder with the class means of its training images."""

    encoder: FrameEncoder
    centres: Tensor  # [k, dim]
    classes: tuple[str, ...]
    preparation: Preparation  # of image files
    normaliser: Normaliser
    architecture: Architecture
    calibration: Calibration | None = None  # without validation images there is none

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        return self.preparation.image_shape

    @torch.no_grad()
    def features(self, pixels: Tensor) -> Tensor:
        """Unit features `[n, dim]` of uint8 images `[n, channels, height, width]`."""
        self.encoder.eval()
        parts = torch.split(self._formatted(pixels), _ROWS)
        return torch.cat([self.encoder(self.normaliser(part)).float() for part in parts])

    def _formatted(self, pixels: Tensor) -> Tensor:
        """With the channels of a pixel side by side where that is faster: convolutions take a fifth less time.

        Only for networks of this library, because others may count on the usual order.
        """
        suited = self.architecture.model in _CONVOLUTIONAL and min(pixels.shape[2:]) >= _SMALLEST
        return pixels.contiguous(memory_format=torch.channels_last) if suited else pixels

    def classify(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines of features to class means, `[n, k]`; the classes of the largest, `[n]`."""
        scores = NearestCentre(self.centres).scores(features)
        return scores, scores.argmax(1)


def save_encoder(folder: Path, trained: TrainedEncoder) -> None:
    """Write the encoder to the folder of its run."""
    about = {
        **asdict(trained.architecture),
        "image_shape": list(trained.image_shape),
        "fit": trained.preparation.fit,
        "classes": list(trained.classes),
        "mean": list(trained.normaliser.mean),
        "std": list(trained.normaliser.std),
        "calibration": None if trained.calibration is None else asdict(trained.calibration),
    }
    weights = trained.encoder.state_dict().items()
    tensors = {PREFIX + name: value.detach().cpu().contiguous() for name, value in weights}
    tensors[_CENTRES] = trained.centres.contiguous()
    # One entry: the order of several would differ from run to run.
    write_atomic(folder / _FILE, save(tensors, metadata={"orthoframe": json.dumps(about)}))


def load_encoder(folder: Path, *, code: bool = False) -> TrainedEncoder:
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
    path = folder / _FILE if os.path.isdir(folder) else folder
    try:
        return parsed(functools.partial(_read_encoder, code=code), path)
    except DataError as error:  # of a backbone
        raise TrainingError(f"{path}: ", *error.args) from None
    except FileNotFoundError:
        raise TrainingError(f"{folder}: there is no trained encoder in it") from None
    except (OSError, ValueError) as error:
        what = getattr(error, "strerror", None) or brief(error, 200)
        raise TrainingError(f"{path}: not an encoder that orthoframe trained ({what})") from None


@dataclass(frozen=True, kw_only=True)
class _EncoderDescription(Architecture):
    """What the file says beside its tensors."""

    image_shape: tuple[int, int, int]
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    fit: Fit = "stretch"  # of files that were written before there was a choice
    calibration: Calibration | None = None

    @property
    def architecture(self) -> Architecture:
        """That of the encoder."""
        return Architecture(self.model, self.width, self.head, self.features, self.activation, self.backbone)


def _read_encoder(path: Path, code: bool) -> TrainedEncoder:
    with safe_open(path, framework="pt") as file:
        about = msgspec.convert(
            json.loads(few_entries((file.metadata() or {}).get("orthoframe", "null"))), _EncoderDescription
        )
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
    if list(centres.shape) != [len(about.classes), encoder.out_features] or not centres.is_floating_point():
        raise ValueError(
            f"{len(about.classes)} class names, features of {encoder.out_features} dimensions, "
            f"and class means of shape {brief(list(centres.shape), 60)}"
        )
    encoder.eval()
    normaliser = Normaliser(about.mean, about.std)
    return TrainedEncoder(
        encoder, centres, about.classes, preparation, normaliser, about.architecture, about.calibration
    )
