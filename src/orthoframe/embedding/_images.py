"""The images to embed: their order, names, labels and splits."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from orthoframe.data import Columns, Listing, find_images, list_files
from orthoframe.errors import DataError, brief
from orthoframe.options import has_files


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

    def digest(self) -> str:
        """A hash of the names in their order, of labels and splits, and of the sizes of the files."""
        digest = hashlib.sha256()
        for row, (path, name) in enumerate(zip(self.paths, self.names, strict=True)):
            label = "" if self.labels is None else self.classes[self.labels[row]]
            split = "" if self.splits is None else self.splits[row]
            digest.update("\0".join((name, str(_size(path)), label, split, "")).encode("utf-8", "backslashreplace"))
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
    if ":" in source and has_files(source):
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


def _splits(listing: Listing) -> NDArray[np.str_]:
    splits = np.empty(len(listing.paths), dtype="<U10")
    for part, places in listing.parts.items():
        splits[places] = part
    return splits


def _names(paths: Sequence[Path], root: Path | None) -> tuple[str, ...]:
    """Paths relative to a folder, if they are in it, as text that can be printed, whatever the bytes of a file name."""
    inner = (path.relative_to(root) if root is not None and path.is_relative_to(root) else path for path in paths)
    return tuple(os.fsencode(path).decode("utf-8", "backslashreplace") for path in inner)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # reading the file will say why
        return -1
