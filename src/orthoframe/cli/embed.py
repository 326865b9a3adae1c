"""`orthoframe embed`: the features of images, by any backbone."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from orthoframe.cli._files import writing
from orthoframe.cli._terminal import Flag, progress
from orthoframe.errors import Option, OptionError
from orthoframe.options import Fit

if TYPE_CHECKING:
    import torch

    from orthoframe.embedding import Embedded, Embedder, ProcessShare


@dataclass(frozen=True)
class EmbedCommand:
    """Write the features of images to a folder, by a backbone that others trained.

    Features come in shards, features-00000.npz and so on, with paths, and labels, class names and splits if they are
    known; orthoframe fit and orthoframe measure read them. A command that was stopped goes on with the missing shards
    when it is given again. Under torchrun or srun each process writes its part of the shards. Exit status: 0 all images
    are embedded, 1 some could not be read and are left out, 2 bad input. For example:

    orthoframe embed folder:photos --backbone hf:facebook/dinov2-small --out features

    orthoframe embed csv:table.csv --backbone my_networks:make_encoder --out features
    """

    images: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="IMAGES...")]
    """folder:PATH (a sub-folder for each class), csv:FILE (paths and labels), or folders and files without labels."""
    backbone: Annotated[str, tyro.conf.arg(metavar="NAME")]
    """hf:NAME_OR_FOLDER (an image model of transformers), MODULE:FACTORY (a Python function that returns one), or
    run:FOLDER (an encoder that orthoframe trained)."""
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")]
    """Where features are written; a folder that has other features is refused."""
    fit: Fit | None = None
    """How images get the size that the backbone needs: crop what is over, pad with white, or stretch (default: crop;
    for a run as it was trained)."""
    batch_size: int = 64
    """Images that go through the backbone together."""
    shard_size: int = 4096
    """Images for each file of features."""
    workers: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Processes that decode images (default: one per core)."""
    code: Flag = False
    """Allow the Python function that a run names as its backbone, if there is one, to be imported and called."""
    device: str = "auto"
    """Where to compute: auto (a GPU if there is one), cpu, cuda, cuda:1 and so on."""
    path_column: str = "path"
    """The column of a csv:FILE with the paths of images, relative to the file."""
    label_column: str = "label"
    """The column with the classes."""
    split_column: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """The column that says train, validation or test."""

    def run(self) -> int:
        """Write the shards of this process, and name the images that were left out."""
        from orthoframe.data import Columns
        from orthoframe.embedding import embed, list_images, process_share

        share = process_share()
        if not (len(self.images) == 1 and self.images[0].startswith("csv:")):
            for name in ("path_column", "label_column", "split_column"):
                if getattr(self, name) != getattr(EmbedCommand, name):
                    raise OptionError(Option(name), " needs csv:FILE")
        images = list_images(self.images, Columns(self.path_column, self.label_column, self.split_column))
        device = _device(self.device, share)
        embedder, fit = _embedder(self.backbone, self.code)
        with writing(self.out, "out"), progress() as bar:
            task = bar.add_task("embedding", total=None)
            result = embed(
                images,
                embedder,
                self.out,
                fit=self.fit or fit,
                batch_size=self.batch_size,
                shard_size=self.shard_size,
                workers=self.workers,
                device=device,
                share=share,
                progress=lambda done, total: bar.update(task, completed=done, total=total),
            )
        return self._told(result, share)

    def _told(self, result: "Embedded", share: "ProcessShare") -> int:
        """Say what is there. The process that finds all shards speaks for the others, which may have ended."""
        who = f"process {share.place} of {share.count}: " if share.count > 1 else ""
        print(f"{who}{result.written} of {result.shards} shards written now", flush=True)
        if result.missing:
            print(f"{who}{result.missing} are not there yet: other processes write them, or the same command does")
            return 0
        good = result.rows - len(result.failed)
        print(f"{self.out}: {good} of {result.rows} images, {result.dim} features each")
        for sentence in result.failed:
            print(f"orthoframe: left out: {sentence}", file=sys.stderr)
        return int(bool(result.failed))


def _embedder(name: str, code: bool) -> "tuple[Embedder, Fit]":
    """The network by its name, and how its images get their size if nothing is said."""
    from orthoframe.cli._encoder import encoder_of
    from orthoframe.embedding import Embedder
    from orthoframe.encoders import load_backbone

    kind, _, path = name.partition(":")
    if kind != "run" or not path:
        return Embedder.of(load_backbone(name)), "crop"
    trained = encoder_of(Path(path), code)
    shape, scale = trained.image_shape, trained.normaliser
    found = Embedder(name, trained.encoder, shape, trained.encoder.out_features, scale.mean, scale.std)
    return found, trained.preparation.fit


def _device(name: str, share: "ProcessShare") -> "torch.device":
    """The device of this process: each has a GPU of its own, if there are enough."""
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        if name == "cuda":
            device = torch.device("cuda", share.local % max(1, torch.cuda.device_count()))
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError):  # unknown to torch, or absent from this machine or build
        raise OptionError(Option("device"), f" {name!r} is not available; use auto, cpu or cuda") from None
