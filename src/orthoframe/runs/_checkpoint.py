"""What a run is resumed from: a file without pickle that knows when it is broken."""

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import IO, Any

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load, save
from torch import Tensor

from orthoframe.data import Data
from orthoframe.runs._records import EpochRecord

_JSON, _WEIGHTS, _MOMENTUM = "json", "weights.", "momentum."
_DIGEST_BYTES = hashlib.sha256().digest_size


@dataclass(frozen=True, kw_only=True)
class DataFingerprint:
    """Digests of images as they were read, wherever they are: equal for equal data on every machine."""

    training_pixels: str
    training_labels: str
    test_pixels: str
    test_labels: str
    images: str  # all of them with their labels, in any order
    validation_pixels: str = ""
    validation_labels: str = ""

    @classmethod
    def of(cls, data: Data) -> "DataFingerprint":
        """Those of labelled images; a third of a second for 200 MB."""
        digests, rows = {}, []
        parts = {"training": data.train, "test": data.test}
        if data.validation is not None:
            parts["validation"] = data.validation
        for name, part in parts.items():
            labels = part.labels.cpu().numpy().astype("<u8")
            if isinstance(part.pixels, Tensor):
                pixels = part.pixels.cpu().contiguous().numpy()
                # Only to recognise images in another order, so that a checksum is enough.
                checksums = np.array([zlib.crc32(image) for image in pixels], dtype="<u8")
            else:  # from Python, and too many to look at: their labels must do
                checksums = pixels = np.zeros(len(labels), dtype="<u8")
            if part.checksums is not None:  # of files, whether their pixels are held or not
                checksums = pixels = part.checksums.astype("<u8")
            digests[f"{name}_pixels"] = _digest(tuple(part.pixels.shape), pixels)
            digests[f"{name}_labels"] = _digest(part.classes, labels)
            rows.append(checksums << np.uint64(32) | labels)
        return cls(images=_digest(data.train.classes, np.sort(np.concatenate(rows))), **digests)

    def changes(self, now: "DataFingerprint") -> str:
        """What differs in the data now; empty if nothing does."""
        old, new = asdict(self), asdict(now)
        names = [name.replace("_", " ") for name in old if new[name] != old[name]]
        if names and self.images == now.images:
            parts = dict.fromkeys(name.partition(" ")[0] for name in names)
            return f"the {' and '.join(parts)} images are in another order"
        return ", ".join(name for name in names if name != "images") + " differ" if names else ""


def _digest(about: tuple[int | str, ...], array: NDArray[Any]) -> str:
    digest = hashlib.sha256(json.dumps(about).encode())
    digest.update(array.data)
    return digest.hexdigest()


@dataclass(kw_only=True)
class State:
    """Where a run is."""

    epoch: int = 0  # epochs that are done
    steps: int = 0  # steps of the next epoch that are done
    seconds: float = 0.0  # that these steps took
    records: list[EpochRecord] = field(default_factory=list)  # rows of metrics.csv
    lines: list[str] = field(default_factory=list)  # of geometry.jsonl, which are not written yet
    written: int = 0  # bytes of geometry.jsonl


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The part of a checkpoint that is not tensors."""

    settings: dict[str, Any]  # with which the run was made, and the data and the batches
    encoder: str  # as an encoder file describes it
    data: DataFingerprint
    plan: str
    state: State  # without records and lines, so that no checkpoint grows with a run
    metrics: int  # CRC-32 of metrics.csv, which has the records
    batches: dict[str, list[float]]  # loss, floor and collapsed loss of each step of the next epoch
    precision: dict[str, float]  # the scale of gradients in 16 bits


@dataclass(frozen=True)
class Checkpoint:
    """A run between two steps.

    The file has a SHA-256 digest of the rest, and then the tensors as safetensors, with `Progress` as JSON among them:
    a changed or missing byte anywhere is noticed, and nothing is allocated that is not in the file.
    """

    progress: Progress
    weights: dict[str, Tensor]
    momentum: dict[str, Tensor]  # by the position of the parameter; empty before the first step

    def write(self, file: IO[bytes]) -> None:
        """Write it to an open file."""
        progress = msgspec.to_builtins(self.progress)
        content = bytearray(json.dumps(progress).encode())  # of the standard library, which keeps what is not finite
        tensors = {_JSON: torch.frombuffer(content, dtype=torch.uint8)}
        for prefix, group in ((_WEIGHTS, self.weights), (_MOMENTUM, self.momentum)):
            tensors |= {prefix + name: value.detach().cpu().contiguous() for name, value in group.items()}
        body = save(tensors)
        file.write(hashlib.sha256(body).digest())
        file.write(body)

    @classmethod
    def read(cls, file: IO[bytes]) -> "Checkpoint":
        """Read it from an open file; what is not a whole checkpoint may raise any error."""
        digest, body = file.read(_DIGEST_BYTES), file.read()
        if digest != hashlib.sha256(body).digest():
            raise ValueError("its checksum is wrong")
        tensors = load(body)
        progress = msgspec.convert(json.loads(tensors.pop(_JSON).numpy().tobytes()), Progress)
        return cls(progress, _below(_WEIGHTS, tensors), _below(_MOMENTUM, tensors))


def _below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
