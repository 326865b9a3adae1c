"""The folder of a run: its one writer, its files, its checkpoints, and the encoder that is handed out."""

import csv
import errno
import io
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from orthoframe._atomic import json_ready, locked, write_atomic
from orthoframe._untrusted import few_entries, parsed, read_small
from orthoframe.data import Normaliser, Preparation
from orthoframe.encoders import PREFIX, FrameEncoder, load_weights, make_frame_encoder
from orthoframe.errors import Call, Option, OrthoframeError, TrainingError, brief, unwritable
from orthoframe.geometry import Calibration, NearestCentre
from orthoframe.options import Activation, Fit, Head, Model
from orthoframe.training._checkpoint import Checkpoint
from orthoframe.training._records import COLUMNS, NON_FINITE_FILE, EpochRecord, RunEnvironment
from orthoframe.training._settings import Settings
from orthoframe.training._task import Evaluation, Task

CHECKPOINT, PREVIOUS = "checkpoint.bin", "checkpoint.previous.bin"
_ENCODER, _CENTRES = "encoder.safetensors", "class_means"
_ROWS = 256  # images that are encoded together
_ENCODER_SETTINGS = ("width", "head", "features", "activation")
_environment = msgspec.json.Decoder(RunEnvironment)


class RunFolder:
    """Where a run keeps its files; the folder need not exist."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def check_free(self) -> None:
        """Refuse a folder that has a run in it, or that cannot be looked into."""
        try:
            taken = (self.path / "config.json").exists()
        except OSError as error:
            raise TrainingError(*unwritable(self.path, error, "out")) from None
        if taken:
            raise TrainingError(
                *(f"{self.path} has a run in it; resume with ", Call("resume", str(self.path))),
                *(", or choose another ", Option("out")),
            )

    @contextmanager
    def opened(self, resumed: bool) -> Iterator[None]:
        """Keep other processes out; a process that dies lets go. A run that is not resumed may have to make it."""
        with ExitStack() as held:
            try:
                if not resumed:
                    self.path.mkdir(parents=True, exist_ok=True)
                ours = held.enter_context(locked(self.path))
            except OSError as error:
                if not resumed:
                    raise TrainingError(*unwritable(self.path, error, "out")) from None
                reason = f"{error.strerror or error}; resume a copy of it that can be written to"
                raise TrainingError(f"{self.path}: {reason}") from None
            if not ours:
                other = (", or choose another ", Option("out")) if not resumed else ()
                raise TrainingError(f"{self.path}: another process is training into it; wait", *other)
            (self.path / NON_FINITE_FILE).unlink(missing_ok=True)  # of the attempt before
            if not resumed:
                self.check_free()  # now that nobody else can start one
            yield

    def settings(self) -> Settings:
        """The settings of the run that is in the folder."""
        file = self.path / "config.json"
        try:
            data = parsed(json.loads, read_small(file))
            if not isinstance(data, dict):
                raise ValueError("it is not an object")
            settings = Settings.from_dict(data)
            settings.check()
        except FileNotFoundError:
            raise TrainingError(f"{file}: there is no run to resume") from None
        except (OSError, ValueError, TypeError) as error:
            raise TrainingError(f"{file}: not the settings of a run ({brief(error)})") from None
        return settings

    def environment(self) -> RunEnvironment | None:
        """What the run used before; None if it was killed before it could say, or the file is broken."""
        try:
            found = parsed(_environment.decode, read_small(self.path / "run.json"))
        except (OSError, ValueError):
            return None
        return found if found.processes > 0 else None

    def write_metrics(self, records: Sequence[EpochRecord], measurements: Sequence[dict[str, Any]]) -> None:
        """Write what was measured so far."""
        table = io.StringIO()
        writer = csv.DictWriter(table, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(json_ready(asdict(record)) for record in records)  # None becomes an empty entry
        write_atomic(self.path / "metrics.csv", table.getvalue())
        lines = (json.dumps(json_ready(entry)) + "\n" for entry in measurements)
        write_atomic(self.path / "geometry.jsonl", "".join(lines))

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint, and keep the one before it.

        A process that is killed during the write leaves the old one, the new one, or the old one as the previous.
        """
        fresh = self.path / ".checkpoint.new.bin"
        write_atomic(fresh, checkpoint.write)
        if (self.path / CHECKPOINT).exists():
            os.replace(self.path / CHECKPOINT, self.path / PREVIOUS)
        os.replace(fresh, self.path / CHECKPOINT)

    def load_checkpoint(self, check: Callable[[Checkpoint], None] | None = None) -> tuple[Checkpoint | None, list[str]]:
        """The newest checkpoint that is whole, None if there is none yet; and a sentence for each broken one.

        Args:
            check: Raises a `ValueError` for a checkpoint that is broken too, and an `OrthoframeError` to stop.

        Raises:
            TrainingError: If all are broken, one cannot be read, or `check` says so.
        """
        broken: list[str] = []
        for name in (CHECKPOINT, PREVIOUS):
            path = self.path / name
            if not path.exists():
                continue
            try:
                with path.open("rb") as file:
                    checkpoint = Checkpoint.read(file)
                if check is not None:
                    check(checkpoint)
                return checkpoint, [f"{self.path}{os.sep}{each}" for each in broken]
            except MemoryError:  # not the fault of the file, which allocates no more than it has
                raise
            except OSError as error:  # nor is this, unless the disk has lost a part of it
                if error.errno != errno.EIO:
                    sentence = f"{path}: {error.strerror or error}; the run cannot be resumed without it"
                    raise TrainingError(sentence) from None
                broken.append(f"{name} is broken ({error.strerror})")
            except OrthoframeError as error:
                raise TrainingError(f"{self.path}: ", *error.args) from None
            except Exception as error:  # a broken file can fail in any way
                what = "" if isinstance(error, ValueError) and str(error) else f"{type(error).__name__}: "
                broken.append(f"{name} is broken ({what}{brief(error, 60)})")
        if broken:
            every = "; ".join(broken)
            raise TrainingError(f"{self.path}: {every}: no checkpoint is left to resume from; start a new run")
        if (self.path / "checkpoint.pt").exists():
            raise TrainingError(
                f"{self.path}: checkpoint.pt was made by an earlier version, and is not read any more; resume with "
                "that, or start a new run"
            )
        return None, []


@dataclass(frozen=True)
class TrainedEncoder:
    """An encoder with the class means of its training images."""

    encoder: FrameEncoder
    centres: Tensor  # [k, dim]
    classes: tuple[str, ...]
    preparation: Preparation  # of image files
    normaliser: Normaliser
    calibration: Calibration | None = None  # without validation images there is none

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        return self.preparation.image_shape

    @torch.no_grad()
    def features(self, pixels: Tensor) -> Tensor:
        """Unit features `[n, dim]` of uint8 images `[n, channels, height, width]`."""
        self.encoder.eval()
        parts = [self.encoder(self.normaliser(part)).float() for part in torch.split(pixels, _ROWS)]
        return torch.cat(parts)

    def classify(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines of features to class means, `[n, k]`; the classes of the largest, `[n]`."""
        scores = NearestCentre(self.centres).scores(features)
        return scores, scores.argmax(1)


def save_encoder(folder: Path, task: Task, found: Evaluation) -> None:
    """Write the encoder and the class means to the folder."""
    about = {
        **{name: getattr(task.settings, name) for name in ("model", *_ENCODER_SETTINGS)},
        "image_shape": list(task.train.image_shape),
        "fit": task.preparation.fit,
        "classes": list(task.train.classes),
        "mean": list(task.normaliser.mean),
        "std": list(task.normaliser.std),
        "calibration": None if found.calibration is None else asdict(found.calibration),
    }
    weights = task.encoder.state_dict().items()
    tensors = {PREFIX + name: value.detach().cpu().contiguous() for name, value in weights}
    tensors[_CENTRES] = found.centres.contiguous()
    # One entry: the order of several would differ from run to run.
    write_atomic(folder / _ENCODER, save(tensors, metadata={"orthoframe": json.dumps(about)}))


def load_encoder(folder: Path) -> TrainedEncoder:
    """Read the encoder of a run.

    Args:
        folder: That of the run, or the file itself.

    Returns:
        The encoder, in evaluation mode, and all that is needed to classify images with it.

    Raises:
        TrainingError: If there is none, or it is broken.
    """
    path = folder / _ENCODER if os.path.isdir(folder) else folder
    try:
        return parsed(_read_encoder, path)
    except (OSError, ValueError) as error:
        what = getattr(error, "strerror", None) or brief(error, 200)
        raise TrainingError(f"{path}: not an encoder that orthoframe trained ({what})") from None


@dataclass(frozen=True)
class _EncoderFile:
    """What the file says beside its tensors."""

    model: Model
    width: int | None
    head: Head
    features: int | None
    activation: Activation
    image_shape: tuple[int, int, int]
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    fit: Fit = "stretch"  # of files that were written before there was a choice
    calibration: Calibration | None = None


def _read_encoder(path: Path) -> TrainedEncoder:
    with safe_open(path, framework="pt") as file:
        about = msgspec.convert(
            json.loads(few_entries((file.metadata() or {}).get("orthoframe", "null"))), _EncoderFile
        )
        "".join(about.classes).encode()  # names may be half a character, which cannot be printed
        preparation = Preparation(about.image_shape, about.fit)
        channels = about.image_shape[0]
        if about.calibration is not None and not 0 < about.calibration.temperature < math.inf:
            raise ValueError("the temperature of confidences must be positive")
        if len(about.mean) != channels or not all(map(math.isfinite, about.mean + about.std)):
            raise ValueError(f"mean and std must be {channels} finite numbers")
        parts = {name: getattr(about, name) for name in _ENCODER_SETTINGS}
        # It takes memory when its shapes have been compared with those of the tensors.
        encoder = make_frame_encoder(about.model, about.image_shape, **parts, weights=False)
        load_weights(encoder, file)
        centres = file.get_tensor(_CENTRES).clone()
    if list(centres.shape) != [len(about.classes), encoder.out_features] or not centres.is_floating_point():
        raise ValueError(
            f"{len(about.classes)} class names, features of {encoder.out_features} dimensions, "
            f"and class means of shape {brief(list(centres.shape), 60)}"
        )
    encoder.eval()
    normaliser = Normaliser(about.mean, about.std)
    return TrainedEncoder(encoder, centres, about.classes, preparation, normaliser, about.calibration)
