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
from orthoframe._processes import LaunchedProcess
from orthoframe.data import Decoded, Normaliser, Preparation, PreparedFiles, available_cores, decode
from orthoframe.embedding import _shards
from orthoframe.embedding._images import ImageList
from orthoframe.embedding._shards import Manifest
from orthoframe.encoders import Backbone
from orthoframe.errors import DataError
from orthoframe.options import Fit, check_count, check_size


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
    processes = available_cores() if workers is None else check_count("workers", workers, 0)
    preparation = Preparation(extractor.image_shape, fit)
    manifest = _manifest(images, extractor, fit, shard_size)
    _shards.begin(folder, manifest)
    # The shards of a process do not depend on what is written already.
    missing = _shards.missing_shards(folder, manifest)
    mine = [shard for shard in missing if shard % process.count == process.rank]
    network, normalise = extractor.network.to(device).eval(), Normaliser(extractor.mean, extractor.std)
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
                    output = network(normalise(batch.pixels.to(device))).float().cpu()
                finite = output.isfinite().all(dim=1)
                features.append(output[finite])
                for row, good in zip(batch.positions, finite.tolist(), strict=True):
                    if good:
                        rows.append(row)
                    else:
                        failed.append(f"{images.names[row]}: its features are not finite")
            done += min(batch_size, places.stop - start)
            if progress is not None:
                progress(done, total)
        _shards.write_shard(_shards.shard_path(folder, shard), _arrays(images, extractor.dim, features, rows, failed))
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


def _manifest(images: ImageList, extractor: FeatureExtractor, fit: Fit, shard_size: int) -> Manifest:
    return Manifest(
        backbone=extractor.name,
        weights=extractor.digest(),
        images=images.source,
        digest=images.digest(),
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
) -> dict[str, np.ndarray[Any, Any]]:
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
    """The batches of one shard after another; no batch spans two shards."""
    rows = [
        list(places[start : start + batch_size])
        for places in map(manifest.places, shards)
        for start in range(0, len(places), batch_size)
    ]
    return decode(PreparedFiles(images.paths, preparation), rows, workers)
