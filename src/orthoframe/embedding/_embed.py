"""Images through a network, shard by shard."""

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from orthoframe._files import remove_leftovers
from orthoframe.data import Decoded, Normaliser, Preparation, PreparedFiles, available_cores, decode
from orthoframe.embedding import _shards
from orthoframe.embedding._list import ImageList
from orthoframe.embedding._shards import Manifest
from orthoframe.embedding._share import ProcessShare
from orthoframe.encoders import Backbone
from orthoframe.errors import DataError
from orthoframe.options import Fit, check_count, check_size


@dataclass(frozen=True, eq=False)
class Embedder:
    """A network, and what images must be like for it.

    Attributes:
        name: By which it is told.
        network: Normalised images `[b, channels, height, width]` to features `[b, dim]`.
        image_shape: Channels, height and width.
        dim: The dimension of features.
        mean: Of each channel, on the scale from 0 to 1.
        std: Of each channel.
    """

    name: str
    network: nn.Module
    image_shape: tuple[int, int, int]
    dim: int
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def of(cls, backbone: Backbone) -> "Embedder":
        """That of a backbone."""
        shape, dim = backbone.image_shape, backbone.out_features
        return cls(backbone.name, backbone, shape, dim, backbone.mean, backbone.std)

    def digest(self) -> str:
        """Of layers and weights, by which a network is recognised whatever its name."""
        layers = re.sub(r" at 0x[0-9a-f]+", "", repr(self.network))  # where a function is in memory differs each time
        found = hashlib.sha256(layers.encode())
        for name, value in sorted(self.network.state_dict().items()):
            found.update(f"{name} {value.dtype} {list(value.shape)} ".encode())
            found.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
        return found.hexdigest()


@dataclass(frozen=True)
class Embedded:
    """What is in the folder when a process has done its part.

    Attributes:
        rows: Images in all.
        dim: The dimension of features.
        shards: How many there are in all.
        written: How many of them this process has written now.
        missing: How many are not there yet, because other processes write them.
        failed: For each image that was left out a sentence; known when no shard is missing.
    """

    rows: int
    dim: int
    shards: int
    written: int
    missing: int
    failed: tuple[str, ...]


def embed(
    images: ImageList,
    embedder: Embedder,
    folder: Path,
    *,
    fit: Fit = "crop",
    batch_size: int = 64,
    shard_size: int = 4096,
    workers: int | None = None,
    device: torch.device | None = None,
    share: ProcessShare | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Embedded:
    """Write the features of images to a folder, in shards; those that are there already are left as they are.

    Args:
        images: See `list_images`.
        embedder: The network.
        folder: Where `manifest.json` and `features-00000.npz` and so on are written.
        fit: How images get their size, see `orthoframe.data.Preparation`.
        batch_size: Images that go through the network together.
        shard_size: Images for each file.
        workers: Processes that decode images (default: one per core).
        device: Where the network computes (default: the CPU).
        share: Which of several processes this is.
        progress: Called with the number of images that are done, and of those that this process has to do.

    Raises:
        DataError: If the folder has features of another backbone or of other images, or no image has any.
    """
    share, device = share or ProcessShare(), device or torch.device("cpu")
    check_size("batch_size", batch_size)
    check_size("shard_size", shard_size)
    processes = available_cores() if workers is None else check_count("workers", workers, 0)
    preparation = Preparation(embedder.image_shape, fit)
    manifest = _manifest(images, embedder, fit, shard_size)
    _shards.begin(folder, manifest)
    mine = [shard for shard in _shards.missing_shards(folder, manifest) if share.takes(shard)]
    network, normalise = embedder.network.to(device).eval(), Normaliser(embedder.mean, embedder.std)
    total, done = sum(len(manifest.places(shard)) for shard in mine), 0
    loader = _batches(images, preparation, manifest, mine, batch_size, processes)
    for shard in mine:
        features: list[Tensor] = []
        rows: list[int] = []
        failed: list[str] = []
        places = manifest.places(shard)
        for start in range(places.start, places.stop, batch_size):
            batch = next(loader)
            failed += batch.problems
            if batch.positions:
                with torch.inference_mode():
                    found = network(normalise(batch.pixels.to(device))).float().cpu()
                finite = found.isfinite().all(dim=1)
                features.append(found[finite])
                for row, good in zip(batch.positions, finite.tolist(), strict=True):
                    if good:
                        rows.append(row)
                    else:
                        failed.append(f"{images.names[row]}: its features are not finite")
            done += min(batch_size, places.stop - start)
            if progress is not None:
                progress(done, total)
        _shards.write_shard(_shards.shard_path(folder, shard), _arrays(images, embedder.dim, features, rows, failed))
    missing = len(_shards.missing_shards(folder, manifest))
    if not missing:
        remove_leftovers(folder)  # of processes that were killed: nobody writes any more
    told = () if missing else _shards.read_failures(folder, manifest)
    if len(told) == manifest.rows:
        _shards.remove(folder, manifest)
        others = f"; so it is with all {len(told)} images" if len(told) > 1 else ""
        raise DataError(f"{told[0]}{others}")
    return Embedded(manifest.rows, manifest.dim, manifest.shards, len(mine), missing, told)


def _manifest(images: ImageList, embedder: Embedder, fit: Fit, shard_size: int) -> Manifest:
    return Manifest(
        backbone=embedder.name,
        weights=embedder.digest(),
        images=images.given,
        digest=images.digest(),
        rows=len(images),
        dim=embedder.dim,
        shard_size=shard_size,
        image_shape=embedder.image_shape,
        mean=embedder.mean,
        std=embedder.std,
        fit=fit,
        classes=None if images.labels is None else images.classes,
    )


def _arrays(
    images: ImageList, dim: int, features: list[Tensor], rows: list[int], failed: list[str]
) -> dict[str, np.ndarray[Any, Any]]:
    """What a shard has in it."""
    arrays: dict[str, np.ndarray[Any, Any]] = {
        "features": torch.cat([torch.empty(0, dim), *features]).numpy(),
        "paths": np.array([images.names[row] for row in rows], dtype=str),
        "failed": np.array(failed, dtype=str),
    }
    if images.labels is not None:
        arrays |= {"labels": images.labels[rows], "classes": np.array(images.classes, dtype=str)}
    if images.splits is not None:
        arrays["splits"] = images.splits[rows]
    return arrays


def _batches(
    images: ImageList,
    preparation: Preparation,
    manifest: Manifest,
    shards: list[int],
    batch_size: int,
    workers: int,
) -> Iterator[Decoded]:
    """The batches of one shard after another; none has images of two."""
    rows = [
        list(places[start : start + batch_size])
        for places in map(manifest.places, shards)
        for start in range(0, len(places), batch_size)
    ]
    return decode(PreparedFiles(images.paths, preparation), rows, workers)
