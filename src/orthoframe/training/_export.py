"""The encoder that is handed out: weights, class centres, and all that is needed to use them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from orthoframe._atomic import write_atomic
from orthoframe.data import Normaliser
from orthoframe.encoders import FrameEncoder, make_frame_encoder
from orthoframe.errors import TrainingError
from orthoframe.geometry import NearestCentre
from orthoframe.training._evaluate import encode
from orthoframe.training._setup import Task

NAME = "encoder.safetensors"
_CENTRES = "class_means"


@dataclass(frozen=True)
class Trained:
    """An encoder with the class means of its training images."""

    encoder: FrameEncoder
    centres: Tensor  # [k, dim]
    classes: tuple[str, ...]
    image_shape: tuple[int, ...]
    normaliser: Normaliser

    def features(self, pixels: Tensor) -> Tensor:
        """Unit features `[n, dim]` of uint8 images `[n, channels, height, width]`."""
        return encode(self.encoder, pixels, self.normaliser)

    def classify(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines of features to class means, `[n, k]`; nearest centres, `[n]`."""
        cosines = NearestCentre(self.centres).scores(features)
        return cosines, cosines.argmax(1)


def save_encoder(folder: Path, task: Task, centres: Tensor) -> None:
    """Write the encoder and the class means to the folder."""
    about: dict[str, Any] = {
        "model": task.settings.model,
        "image_shape": list(task.train.pixels.shape[1:]),
        "width": task.settings.width,
        "head": task.settings.head,
        "features": task.settings.features,
        "activation": task.settings.activation,
        "classes": list(task.train.classes),
        "mean": list(task.normaliser.mean),
        "std": list(task.normaliser.std),
    }
    tensors = {
        f"encoder.{name}": value.detach().cpu().contiguous() for name, value in task.encoder.state_dict().items()
    }
    tensors[_CENTRES] = centres.contiguous()
    # One entry: the order of several would differ from run to run.
    content = save(tensors, metadata={"orthoframe": json.dumps(about)})
    write_atomic(folder / NAME, lambda file: file.write(content))


def load_encoder(folder: Path) -> Trained:
    """Read what `save_encoder` wrote.

    Raises:
        TrainingError: If there is none, or it is broken.
    """
    path = folder / NAME if folder.is_dir() else folder
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})["orthoframe"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        encoder = make_frame_encoder(
            about["model"],
            about["image_shape"],
            width=about["width"],
            head=about["head"],
            features=about["features"],
            activation=about["activation"],
        )
        centres = tensors.pop(_CENTRES)
        encoder.load_state_dict({name.removeprefix("encoder."): value for name, value in tensors.items()})
        normaliser = Normaliser(tuple(about["mean"]), tuple(about["std"]))
        trained = Trained(encoder, centres, tuple(about["classes"]), tuple(about["image_shape"]), normaliser)
    except (OSError, SafetensorError, KeyError, ValueError, TypeError, RuntimeError) as error:
        what = error.strerror if isinstance(error, OSError) and error.strerror else str(error).splitlines()[0][:200]
        raise TrainingError(f"{path}: not an encoder that orthoframe trained ({what})") from None
    encoder.eval()
    return trained
