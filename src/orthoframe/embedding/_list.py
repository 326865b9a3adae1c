"""Which images are embedded, in which order, and what is known of them."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from orthoframe.data import Columns, Listing, find_images, list_folder, list_table
from orthoframe.errors import DataError, brief


@dataclass(frozen=True, eq=False)
class ImageList:
    """Image files in order, before any is opened.

    Attributes:
        given: What was asked for.
        paths: The files.
        names: [n], by which they are told: relative to the folder or table that they come from.
        labels: int64, [n]; None if they have none.
        classes: The names of the classes.
        splits: [n], `train`, `test` or `validation`; None if nothing says.
    """

    given: str
    paths: tuple[Path, ...]
    names: tuple[str, ...]
    labels: NDArray[np.int64] | None = None
    classes: tuple[str, ...] = ()
    splits: NDArray[np.str_] | None = None

    def __len__(self) -> int:
        return len(self.paths)

    def digest(self) -> str:
        """Of the names in their order, of labels and splits, and of the sizes of the files."""
        found = hashlib.sha256()
        for row, (path, name) in enumerate(zip(self.paths, self.names, strict=True)):
            label = "" if self.labels is None else self.classes[self.labels[row]]
            split = "" if self.splits is None else self.splits[row]
            found.update("\0".join((name, str(_size(path)), label, split, "")).encode("utf-8", "backslashreplace"))
        return found.hexdigest()


def list_images(given: Sequence[str], columns: Columns | None = None) -> ImageList:
    """Find images.

    Args:
        given: `folder:PATH`, a sub-folder for each class, perhaps with `train`, `test` and `validation` above them;
            `csv:FILE`, a table of paths and labels; or image files, folders of images and patterns, without labels.
        columns: The columns of a table, if they are not `path` and `label`.

    Raises:
        DataError: If something is not there, or has no images in it.
    """
    kind, colon, rest = given[0].partition(":") if given else ("", "", "")
    if colon and kind in ("folder", "csv") and rest:
        if len(given) > 1:
            raise DataError(f"{brief(given[0], 80)} must be given alone, without {brief(given[1], 80)}")
        path = Path(os.path.expanduser(rest))
        if kind == "folder":
            listing = list_folder(path)
            return _labelled(given[0], listing, path, len(listing.parts) > 1)
        columns = columns or Columns()
        return _labelled(given[0], list_table(path, columns), path.parent, columns.split is not None)
    found = find_images(given)
    if found.problems:
        raise DataError(found.problems[0])
    paths = found.paths
    if not paths:
        raise DataError("which images? Name a folder:PATH, a csv:FILE, a folder or image files")
    missing = next((path for path in paths if not os.path.exists(path)), None)
    if missing is not None:
        raise DataError(f"{missing}: no such file or folder")
    root = os.path.expanduser(given[0])
    only = Path(root) if len(given) == 1 and os.path.isdir(root) else None
    return ImageList(" ".join(given), paths, _names(paths, only))


def _labelled(given: str, listing: Listing, root: Path, divided: bool) -> ImageList:
    splits = None
    if divided:
        splits = np.empty(len(listing.paths), dtype="<U10")
        for part, places in listing.parts.items():
            splits[places] = part
    return ImageList(given, listing.paths, _names(listing.paths, root), listing.labels, listing.classes, splits)


def _names(paths: Sequence[Path], root: Path | None) -> tuple[str, ...]:
    """Relative to a folder, where they are in it; as text that can be printed, whatever the bytes of a file name."""
    inner = (path.relative_to(root) if root is not None and path.is_relative_to(root) else path for path in paths)
    return tuple(os.fsencode(path).decode("utf-8", "backslashreplace") for path in inner)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # told when it is read
        return -1
