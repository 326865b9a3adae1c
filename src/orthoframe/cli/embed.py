"""`orthoframe embed`: the features of images, by any backbone."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from orthoframe.cli._terminal import Flag, progress
from orthoframe.errors import Option, OptionError, brief
from orthoframe.files import writing
from orthoframe.options import Fit, data_kind

if TYPE_CHECKING:
    from orthoframe._processes import LaunchedProcess
    from orthoframe.embedding import EmbedResult, FeatureExtractor


@dataclass(frozen=True)
class EmbedCommand:
    """Write the features of images by a pretrained backbone to a folder.

    Features come in shards, features-00000.npz and so on, with paths, and with labels, class names and splits if there
    are any; orthoframe fit and orthoframe measure read them. Run an interrupted command again to write the missing
    shards. Under torchrun or srun each process writes its part of the shards.

    Exit status: 0 all images are embedded, 1 some could not be read and are left out, 2 bad input. For example:

    orthoframe embed folder:photos --backbone efficientnet-lite0 --out features

    orthoframe embed folder:photos --backbone hf:facebook/dinov2-small --out features

    orthoframe embed csv:table.csv --backbone my_networks:make_encoder --out features
    """

    images: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="IMAGES...")]
    """folder:PATH (a sub-folder for each class), csv:FILE (paths and labels), or folders and files without labels."""
    backbone: Annotated[str, tyro.conf.arg(metavar="NAME")]
    """efficientnet-lite0 (trained on ImageNet; the extra pretrained has its weights), efficientnet-lite0-224 (for
    larger images), hf:NAME_OR_FOLDER (an image model of transformers), MODULE:FACTORY (a Python function that returns
    one), or run:FOLDER (an encoder that orthoframe trained, before its head if a linear classifier
    predicts)."""
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")]
    """The folder of the features; one that has other features is refused."""
    fit: Fit | None = None
    """How images are resized for the backbone: crop the margins, pad with white, or stretch (default: crop; for a run,
    as in its training)."""
    batch_size: int = 64
    """Images per forward pass."""
    shard_size: int = 4096
    """Images per file of features."""
    workers: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Processes that decode images (default: one per core)."""
    code: Flag = False
    """Allow a run to import and call the Python function that it names as its backbone."""
    device: str = "auto"
    """The device: auto (a GPU if there is one), cpu, cuda, cuda:1 and so on."""
    path_column: str = "path"
    """The column of a csv:FILE with the paths of images, which are relative to the file."""
    label_column: str = "label"
    """The column with the classes."""
    split_column: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """The column that says train, validation or test."""

    def run(self) -> int:
        """Write the shards of this process, and name the images that were left out."""
        from orthoframe._processes import LaunchedProcess, find_device
        from orthoframe.data import Columns
        from orthoframe.embedding import embed, list_images

        process = LaunchedProcess.here()
        kind = data_kind(self.images[0])
        if len(self.images) > 1 or kind is None or "columns" not in kind.takes:
            for name in ("path_column", "label_column", "split_column"):
                if getattr(self, name) != getattr(EmbedCommand, name):
                    raise OptionError(Option(name), " needs csv:FILE")
        images = list_images(self.images, Columns(self.path_column, self.label_column, self.split_column))
        device = find_device(self.device, process.local)
        extractor, fit = _feature_extractor(self.backbone, self.code)
        with writing(self.out, "out"), progress() as bar:
            task = bar.add_task("embedding", total=None)
            result = embed(
                images,
                extractor,
                self.out,
                fit=self.fit or fit,
                batch_size=self.batch_size,
                shard_size=self.shard_size,
                workers=self.workers,
                device=device,
                process=process,
                progress=lambda done, total: bar.update(task, completed=done, total=total),
            )
        return self._report(result, process)

    def _report(self, result: "EmbedResult", process: "LaunchedProcess") -> int:
        """Print the result. The process that finds all shards reports for the others, which may have ended."""
        who = f"process {process.rank} of {process.count}: " if process.count > 1 else ""
        print(f"{who}{result.written} of {result.shards} shards written now", flush=True)
        if result.missing:
            print(f"{who}{result.missing} shards are missing: other processes write them, or run the command again")
            return 0
        good = result.rows - len(result.failed)
        print(f"{self.out}: {good} of {result.rows} images, {result.dim} features each")
        for sentence in result.failed:
            print(f"orthoframe: left out: {brief(sentence, 300)}", file=sys.stderr)
        return int(bool(result.failed))


def _feature_extractor(name: str, code: bool) -> "tuple[FeatureExtractor, Fit]":
    """The network by its name, and the default for `fit`."""
    from orthoframe.embedding import FeatureExtractor
    from orthoframe.encoders import load_backbone
    from orthoframe.runs import load_encoder

    kind, _, path = name.partition(":")
    if kind != "run" or not path:
        return FeatureExtractor.of(load_backbone(name)), "crop"
    trained = load_encoder(path, code=code)
    extractor = FeatureExtractor(
        name=name,
        network=trained.network,
        image_shape=trained.image_shape,
        dim=trained.network.out_features,
        mean=trained.normaliser.mean,
        std=trained.normaliser.std,
    )
    return extractor, trained.preparation.fit
