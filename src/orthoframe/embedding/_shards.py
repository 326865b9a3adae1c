"""The files of an embedding: a manifest that says what they are, and shards of features."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from orthoframe._arrays import ArrayArchive
from orthoframe._files import few_entries, parsed, read_small, write_atomic, write_json
from orthoframe.errors import DataError, Option, brief
from orthoframe.options import Fit

MANIFEST = "manifest.json"
"""The name of the file that says what an embedding is."""
_MOST_SHARDS = 2**20  # each of them is looked for


@dataclass(frozen=True)
class Manifest:
    """What the shards of a folder are, and which images each of them has: `shard_size` of them in their order.

    Attributes:
        backbone: Its name.
        weights: Its digest.
        images: What was asked for.
        digest: Of the list of images.
        rows: How many images there are.
        dim: The dimension of features.
        shard_size: Images for each shard; the last may have fewer.
        image_shape: Channels, height and width of what the backbone gets.
        mean: Of the normalisation.
        std: Of the normalisation.
        fit: How images get their size.
        classes: The names of the classes; None without labels.
    """

    backbone: str
    weights: str
    images: str
    digest: str
    rows: int
    dim: int
    shard_size: int
    image_shape: tuple[int, int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    fit: Fit
    classes: tuple[str, ...] | None
    format: Literal["orthoframe.embedding"] = "orthoframe.embedding"

    @property
    def shards(self) -> int:
        """How many there are."""
        return -(-self.rows // self.shard_size)

    def places(self, shard: int) -> range:
        """The images of a shard."""
        return range(shard * self.shard_size, min(self.rows, (shard + 1) * self.shard_size))


@dataclass(frozen=True, eq=False)
class Embedding:
    """Features of images, in the order of the list; those that could not be read are left out.

    Attributes:
        features: float32, [rows, dim].
        paths: [rows], the names of the images.
        labels: int64, [rows]; None if there are none.
        classes: The names of the classes.
        splits: [rows], `train`, `test` or `validation`; None if nothing says.
    """

    features: NDArray[np.float32]
    paths: NDArray[np.str_]
    labels: NDArray[np.int64] | None
    classes: tuple[str, ...]
    splits: NDArray[np.str_] | None


def shard_path(folder: Path, shard: int) -> Path:
    """The file of a shard."""
    return folder / f"features-{shard:05d}.npz"


def begin(folder: Path, wanted: Manifest) -> None:
    """Make the folder, or find that it is for the same images and the same backbone."""
    if wanted.shards > _MOST_SHARDS:
        raise DataError(f"{wanted.shards} shards are more than {_MOST_SHARDS}; use a larger ", Option("shard_size"))
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / MANIFEST).exists():
        _refuse_others(folder, read_manifest(folder), wanted)
    elif any(folder.glob("features-*.npz")):
        raise DataError(f"{folder}: it has features and no {MANIFEST}; choose another ", Option("out"))
    else:  # processes that start together write the same
        write_json(folder / MANIFEST, asdict(wanted))


def _refuse_others(folder: Path, there: Manifest, wanted: Manifest) -> None:
    another = "; choose another ", Option("out")
    if any(getattr(there, name) != getattr(wanted, name) for name in ("weights", "image_shape", "mean", "std")):
        same = there.backbone == wanted.backbone
        new = "it has changed since" if same else f"{brief(wanted.backbone, 60)} is another backbone"
        raise DataError(f"{folder}: it has features of {brief(there.backbone, 60)}, and {new}", *another)
    if there.digest != wanted.digest:
        same = there.images == wanted.images
        new = "these have changed since" if same else f"{brief(wanted.images, 60)} has other ones"
        raise DataError(f"{folder}: it has features of the images {brief(there.images, 60)}, and {new}", *another)
    for name in ("fit", "shard_size"):
        old, new = getattr(there, name), getattr(wanted, name)
        if old != new:
            raise DataError(f"{folder}: it was made with ", Option(name, old), ", not ", Option(name, new), *another)


def read_manifest(folder: Path) -> Manifest:
    """What a folder of features says of itself."""
    try:
        data = parsed(lambda path: json.loads(few_entries(read_small(path))), folder / MANIFEST)
        found = msgspec.convert(data, Manifest)
    except OSError as error:
        raise DataError(f"{folder / MANIFEST}: {error.strerror or error}") from None
    except (ValueError, msgspec.ValidationError) as error:
        raise DataError(f"{folder / MANIFEST}: not what embed wrote ({brief(error, 120)})") from None
    if min(found.rows, found.dim, found.shard_size) < 1 or found.shards > _MOST_SHARDS:
        sizes = brief(f"{found.rows} rows of {found.dim} features, {found.shard_size} in each shard", 100)
        raise DataError(f"{folder / MANIFEST}: not what embed wrote ({sizes})")
    return found


def write_shard(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a shard, whole or not at all; the same arrays give the same bytes."""
    write_atomic(path, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]


def remove(folder: Path, manifest: Manifest) -> None:
    """Remove an embedding, and its folder if nothing else is in it."""
    for path in [*(shard_path(folder, shard) for shard in range(manifest.shards)), folder / MANIFEST]:
        path.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def read_failures(folder: Path, manifest: Manifest) -> tuple[str, ...]:
    """What was wrong with the images that were left out, in their order."""
    found: list[str] = []
    for shard in range(manifest.shards):
        found += _arrays(shard_path(folder, shard), ("failed",))["failed"].tolist()
    return tuple(found)


def missing_shards(folder: Path, manifest: Manifest) -> list[int]:
    """Those that are not written yet."""
    return [shard for shard in range(manifest.shards) if not shard_path(folder, shard).exists()]


def read_embedding(folder: str | Path) -> Embedding:
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
        right = sizes.pop("features") == (rows, manifest.dim) and set(sizes.values()) == {(rows,)}
        labels = part.get("labels", np.zeros(0, np.int64))
        inside = labels.dtype.kind == "i" and not ((labels < 0) | (labels >= len(manifest.classes or ()))).any()
        if not right or part["features"].dtype != np.float32 or (manifest.classes is not None and not inside):
            raise DataError(f"{path}: not a shard of this folder (its arrays have other shapes or types)")
        parts.append(part)
    whole = {name: np.concatenate([part[name] for part in parts]) for name in names}
    splits = np.concatenate([part["splits"] for part in parts]) if all("splits" in part for part in parts) else None
    return Embedding(whole["features"], whole["paths"], whole.get("labels"), manifest.classes or (), splits)


def _arrays(path: Path, names: Any, others: tuple[str, ...] = ()) -> dict[str, NDArray[Any]]:
    """Arrays of a shard: all of `names`, and those of `others` that are there."""
    try:
        archive = ArrayArchive(path)
        lacking = [name for name in names if name not in archive.names]
        if lacking:
            raise ValueError(f"there is no array {lacking[0]!r}")
        return {name: archive[name].read() for name in (*names, *(name for name in others if name in archive.names))}
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        raise DataError(f"{path}: not a shard that embed wrote ({brief(error, 120)})") from None
