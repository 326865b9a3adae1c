"""The files of an embedding: a manifest that describes them, and shards of features."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from orthoframe._arrays import named_arrays
from orthoframe.errors import DataError, Option, brief
from orthoframe.files import read_small, reading, write_json
from orthoframe.options import Fit

MANIFEST = "manifest.json"
"""The name of the file that describes an embedding."""
_MOST_SHARDS = 2**20  # the existence of each is checked


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Describes the shards of a folder; each has `shard_size` images, in the order of the list."""

    backbone: str
    weights: str  # the digest of the backbone
    images: str  # the `source` of the list of images
    digest: str  # of the list of images
    rows: int
    dim: int
    shard_size: int
    image_shape: tuple[int, int, int]  # of the input of the backbone
    mean: tuple[float, ...]
    std: tuple[float, ...]
    fit: Fit
    classes: tuple[str, ...] | None  # None without labels
    format: Literal["orthoframe.embedding"] = "orthoframe.embedding"

    @property
    def shards(self) -> int:
        """The number of shards."""
        return -(-self.rows // self.shard_size)

    def places(self, shard: int) -> range:
        """Positions of the images of a shard."""
        return range(shard * self.shard_size, min(self.rows, (shard + 1) * self.shard_size))


@dataclass(frozen=True, eq=False, kw_only=True)
class StoredFeatures:
    """Features of images, in the order of the list, without the images that could not be read.

    Attributes:
        features: float32, [rows, dim].
        paths: [rows], the names of the images.
        labels: int64, [rows]; None without labels.
        classes: The names of the classes.
        splits: [rows], `train`, `test` or `validation`; None without splits.
    """

    features: NDArray[np.float32]
    paths: NDArray[np.str_]
    labels: NDArray[np.int64] | None
    classes: tuple[str, ...]
    splits: NDArray[np.str_] | None


def shard_path(folder: Path, shard: int) -> Path:
    return folder / f"features-{shard:05d}.npz"


def begin(folder: Path, manifest: Manifest) -> None:
    """Make the folder, or check that it is for the same images and the same backbone."""
    if manifest.shards > _MOST_SHARDS:
        raise DataError(f"{manifest.shards} shards are more than {_MOST_SHARDS}; use a larger ", Option("shard_size"))
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / MANIFEST).exists():
        _check_same(folder, read_manifest(folder), manifest)
    elif any(folder.glob("features-*.npz")):
        raise DataError(f"{folder}: it has features and no {MANIFEST}; choose another ", Option("out"))
    else:  # processes that start together write the same
        write_json(folder / MANIFEST, asdict(manifest))


def _check_same(folder: Path, present: Manifest, new: Manifest) -> None:
    another = "; choose another ", Option("out")
    if any(getattr(present, name) != getattr(new, name) for name in ("weights", "image_shape", "mean", "std")):
        same = present.backbone == new.backbone
        change = "it has changed since" if same else f"{brief(new.backbone, 60)} is another backbone"
        raise DataError(f"{folder}: it has features of {brief(present.backbone, 60)}, and {change}", *another)
    if present.digest != new.digest:
        same = present.images == new.images
        change = "these have changed since" if same else f"{brief(new.images, 60)} has other ones"
        raise DataError(f"{folder}: it has features of the images {brief(present.images, 60)}, and {change}", *another)
    for name in ("fit", "shard_size"):
        values = Option(name, getattr(present, name)), Option(name, getattr(new, name))
        if values[0] != values[1]:
            raise DataError(f"{folder}: it was made with ", values[0], ", not ", values[1], *another)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a folder of features."""
    with reading(folder / MANIFEST, "what embed wrote", DataError):
        manifest = msgspec.json.decode(read_small(folder / MANIFEST), type=Manifest)
        if min(manifest.rows, manifest.dim, manifest.shard_size) < 1 or manifest.shards > _MOST_SHARDS:
            raise ValueError(f"{manifest.rows} rows of {manifest.dim} features, {manifest.shard_size} in each shard")
    return manifest


def remove(folder: Path, manifest: Manifest) -> None:
    """Remove an embedding, and its folder if nothing else is in it."""
    for path in [*(shard_path(folder, shard) for shard in range(manifest.shards)), folder / MANIFEST]:
        path.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def read_failures(folder: Path, manifest: Manifest) -> tuple[str, ...]:
    """A sentence for each image that was left out, in their order."""
    sentences: list[str] = []
    for shard in range(manifest.shards):
        sentences += _arrays(shard_path(folder, shard), ("failed",))["failed"].tolist()
    return tuple(sentences)


def missing_shards(folder: Path, manifest: Manifest) -> list[int]:
    """Shards that are not written yet."""
    return [shard for shard in range(manifest.shards) if not shard_path(folder, shard).exists()]


def read_embedding(folder: str | Path) -> StoredFeatures:
    """Read all shards of a folder.

    Raises:
        DataError: If shards are missing or broken.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    missing = missing_shards(folder, manifest)
    if missing:
        raise DataError(f"{folder}: {len(missing)} of {manifest.shards} shards are missing; run embed again to go on")
    names = ["features", "paths"] + (["labels"] if manifest.classes is not None else [])
    parts = []
    for shard in range(manifest.shards):
        path = shard_path(folder, shard)
        part = _arrays(path, names, ("splits",))
        rows = len(part["paths"])
        sizes = {name: array.shape for name, array in part.items()}
        shapes_match = sizes.pop("features") == (rows, manifest.dim) and set(sizes.values()) == {(rows,)}
        labels = part.get("labels", np.zeros(0, np.int64))
        valid = labels.dtype.kind == "i" and not ((labels < 0) | (labels >= len(manifest.classes or ()))).any()
        if not shapes_match or part["features"].dtype != np.float32 or (manifest.classes is not None and not valid):
            raise DataError(f"{path}: not a shard of this folder (its arrays have other shapes or types)")
        parts.append(part)
    whole = {name: np.concatenate([part[name] for part in parts]) for name in names}
    splits = np.concatenate([part["splits"] for part in parts]) if all("splits" in part for part in parts) else None
    return StoredFeatures(
        features=whole["features"],
        paths=whole["paths"],
        labels=whole.get("labels"),
        classes=manifest.classes or (),
        splits=splits,
    )


def _arrays(path: Path, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, NDArray[Any]]:
    with reading(path, "a shard that embed wrote", DataError):
        arrays = named_arrays(path, (*required, *optional))
        for name in required:
            if name not in arrays:
                raise ValueError(f"there is no array {name!r}")
        return arrays
