"""Lists of images, and their way through a network, shard by shard."""

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from orthoframe._processes import LaunchedProcess
from orthoframe.data import (
    Columns,
    Listing,
    Normaliser,
    Preparation,
    PreparedFiles,
    decode,
    decoding_processes,
    file_stamps,
    find_images,
    list_files,
)
from orthoframe.embedding import _shards
from orthoframe.embedding._shards import Manifest
from orthoframe.encoders import Backbone
from orthoframe.errors import DataError, Option, brief
from orthoframe.files import held, remove_leftovers, write_atomic
from orthoframe.options import Fit, check_size, data_kind


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageList:
    """Image files in order, before any is opened.

    Attributes:
        source: The arguments of `list_images`.
        paths: The files.
        names: [n], paths relative to the folder or table that lists them.
        labels: int64, [n]; None without labels.
        classes: The names of the classes.
        splits: [n], `train`, `test` or `validation`; None without splits.
    """

    source: str
    paths: tuple[Path, ...]
    names: tuple[str, ...]
    labels: NDArray[np.int64] | None = None
    classes: tuple[str, ...] = ()
    splits: NDArray[np.str_] | None = None

    def __len__(self) -> int:
        return len(self.paths)

    def digest(self, stamps: NDArray[np.int64]) -> str:
        """A hash of the names in their order, of labels and splits, and of what `file_stamps` says of the files."""
        digest = hashlib.sha256(stamps.astype("<i8").tobytes())
        for row, name in enumerate(self.names):
            label = "" if self.labels is None else self.classes[self.labels[row]]
            split = "" if self.splits is None else self.splits[row]
            digest.update("\0".join((name, label, split, "")).encode("utf-8", "backslashreplace"))
        return digest.hexdigest()


def list_images(sources: Sequence[str], columns: Columns | None = None) -> ImageList:
    """List image files.

    Args:
        sources: `folder:PATH`, a sub-folder for each class, perhaps with `train`, `test` and `validation` above them;
            `csv:FILE`, a table of paths and labels; or image files, folders of images and patterns, without labels.
        columns: The columns of a table, if they are not `path` and `label`.

    Raises:
        DataError: If something is not there, or has no images in it.
    """
    source = sources[0] if sources else ""
    kind = data_kind(source)
    if ":" in source and kind is not None and "size" in kind.takes:
        if len(sources) > 1:
            raise DataError(f"{brief(source, 80)} must be given alone, without {brief(sources[1], 80)}")
        listing = list_files(source, columns)
        return ImageList(
            source=source,
            paths=listing.paths,
            names=_names(listing.paths, listing.root),
            labels=listing.labels,
            classes=listing.classes,
            splits=_splits(listing) if listing.divided else None,
        )
    paths, problems = find_images(sources)
    if problems:
        raise DataError(problems[0])
    if not paths:
        raise DataError("which images? Name a folder:PATH, a csv:FILE, a folder or image files")
    missing = next((path for path in paths if not os.path.exists(path)), None)
    if missing is not None:
        raise DataError(f"{missing}: no such file or folder")
    folder = os.path.expanduser(source)
    only = Path(folder) if len(sources) == 1 and os.path.isdir(folder) else None
    return ImageList(source=" ".join(sources), paths=paths, names=_names(paths, only))


@dataclass(frozen=True, eq=False, kw_only=True)
class FeatureExtractor:
    """A network, and the size and normalisation of its images.

    Attributes:
        name: What messages and the manifest call it.
        network: Normalised images `[b, channels, height, width]` to features `[b, dim]`.
        image_shape: Channels, height and width.
        dim: The dimension of features.
        mean: The mean of each channel, on the scale from 0 to 1.
        std: The standard deviation of each channel.
    """

    name: str
    network: nn.Module
    image_shape: tuple[int, int, int]
    dim: int
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def of(cls, backbone: Backbone) -> "FeatureExtractor":
        """A backbone as a feature extractor."""
        return cls(
            name=backbone.name,
            network=backbone,
            image_shape=backbone.image_shape,
            dim=backbone.out_features,
            mean=backbone.mean,
            std=backbone.std,
        )

    def digest(self) -> str:
        """A hash of layers and weights, by which a network is recognised whatever its name."""
        layers = re.sub(r" at 0x[0-9a-f]+", "", repr(self.network))  # the address of a function differs each time
        digest = hashlib.sha256(layers.encode())
        for name, value in sorted(self.network.state_dict().items()):
            digest.update(f"{name} {value.dtype} {list(value.shape)} ".encode())
            digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
        return digest.hexdigest()


@dataclass(frozen=True, kw_only=True)
class EmbedResult:
    """The state of the folder when a process has done its part.

    Attributes:
        rows: The number of images.
        dim: The dimension of features.
        shards: The number of shards.
        written: The number of shards that this call has written.
        missing: The number of shards that other processes still have to write.
        failed: A sentence for each image that was left out; empty while shards are missing.
    """

    rows: int
    dim: int
    shards: int
    written: int
    missing: int
    failed: tuple[str, ...]


def embed(
    images: ImageList,
    extractor: FeatureExtractor,
    folder: Path,
    *,
    fit: Fit = "crop",
    batch_size: int = 64,
    shard_size: int = 4096,
    workers: int | None = None,
    device: torch.device | None = None,
    process: LaunchedProcess | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> EmbedResult:
    """Write the features of images to a folder, in shards; those that are there already are left as they are.

    Args:
        images: See `list_images`.
        extractor: The network.
        folder: Gets `manifest.json` and `features-00000.npz` and so on.
        fit: How images get their size, see `orthoframe.data.Preparation`.
        batch_size: Images that go through the network together.
        shard_size: Images for each file.
        workers: Processes that decode images (default: one per core).
        device: Where the network computes (default: the CPU).
        process: This process, if several share the work: each writes its own shards (default: a single one).
        progress: Called with the number of images done, and the number that this process has to do.

    Raises:
        DataError: If the folder has features of another backbone or of other images, or no image has any.
    """
    process, device = process or LaunchedProcess(), device or torch.device("cpu")
    check_size("batch_size", batch_size)
    check_size("shard_size", shard_size)
    processes = decoding_processes(workers)
    stamps = file_stamps(images.paths)
    manifest = _manifest(images, images.digest(stamps), extractor, fit, shard_size)
    _shards.begin(folder, manifest)
    with held(folder / f".lock-{process.rank}") as ours:
        if not ours:
            raise DataError(f"{folder}: another process is writing to it; wait, or choose another ", Option("out"))
        # The shards of a process do not depend on what is written already.
        missing = _shards.missing_shards(folder, manifest)
        mine = {shard: manifest.places(shard) for shard in missing if shard % process.count == process.rank}
        # No batch spans two shards.
        batches = [
            places[start : start + batch_size]
            for places in mine.values()
            for start in range(0, len(places), batch_size)
        ]
        decoded = decode(
            PreparedFiles(images.paths, Preparation(extractor.image_shape, fit), stamps), batches, processes
        )
        network, normalise = extractor.network.to(device).eval(), Normaliser(extractor.mean, extractor.std)
        total, done = sum(map(len, batches)), 0
        for shard, places in mine.items():
            features: list[Tensor] = []
            rows: list[int] = []
            failed: list[str] = []
            for start in range(0, len(places), batch_size):
                batch = next(decoded)
                failed += batch.problems
                if batch.positions:
                    with torch.inference_mode():
                        output = network(normalise(batch.pixels.to(device))).float().cpu()
                    finite = output.isfinite().all(dim=1)
                    features.append(output[finite])
                    for row, good in zip(batch.positions, finite.tolist(), strict=True):
                        if good:
                            rows.append(row)
                        else:
                            failed.append(f"{images.names[row]}: its features are not finite")
                done += min(batch_size, len(places) - start)
                if progress is not None:
                    progress(done, total)
            arrays = _arrays(images, extractor.dim, features, rows, failed)
            write_atomic(_shards.shard_path(folder, shard), partial(np.savez, **arrays))  # type: ignore[arg-type]
    missing = _shards.missing_shards(folder, manifest)
    if not missing:
        remove_leftovers(folder)  # files of processes that were killed: nobody writes any more
    failures = () if missing else _shards.read_failures(folder, manifest)
    if len(failures) == manifest.rows:
        _shards.remove(folder, manifest)
        others = f"; the same holds for all {len(failures)} images" if len(failures) > 1 else ""
        raise DataError(f"{failures[0]}{others}")
    return EmbedResult(
        rows=manifest.rows,
        dim=manifest.dim,
        shards=manifest.shards,
        written=len(mine),
        missing=len(missing),
        failed=failures,
    )


def _manifest(images: ImageList, digest: str, extractor: FeatureExtractor, fit: Fit, shard_size: int) -> Manifest:
    return Manifest(
        backbone=extractor.name,
        weights=extractor.digest(),
        images=images.source,
        digest=digest,
        rows=len(images),
        dim=extractor.dim,
        shard_size=shard_size,
        image_shape=extractor.image_shape,
        mean=extractor.mean,
        std=extractor.std,
        fit=fit,
        classes=None if images.labels is None else images.classes,
    )


def _arrays(
    images: ImageList, dim: int, features: list[Tensor], rows: list[int], failed: list[str]
) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {
        "features": torch.cat([torch.empty(0, dim), *features]).numpy(),
        "paths": np.array([images.names[row] for row in rows], dtype=str),
        "failed": np.array(failed, dtype=str),
    }
    if images.labels is not None:
        arrays |= {"labels": images.labels[rows], "classes": np.array(images.classes, dtype=str)}
    if images.splits is not None:
        arrays["splits"] = images.splits[rows]
    return arrays


def _splits(listing: Listing) -> NDArray[np.str_]:
    splits = np.empty(len(listing.paths), dtype="<U10")
    for part, places in listing.parts.items():
        splits[places] = part
    return splits


def _names(paths: Sequence[Path], root: Path | None) -> tuple[str, ...]:
    """Paths relative to a folder, if they are in it, as text that can be printed, whatever the bytes of a file name."""
    inner = (path.relative_to(root) if root is not None and path.is_relative_to(root) else path for path in paths)
    return tuple(os.fsencode(path).decode("utf-8", "backslashreplace") for path in inner)
