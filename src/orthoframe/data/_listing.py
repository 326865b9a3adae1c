"""Image files with their classes and splits, from folders or a table; and image files alone, by name."""

import csv
import glob
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from orthoframe.data._preparation import IMAGE_ENDINGS, ImageHead, read_head
from orthoframe.errors import DataError, Option, OptionError, brief, reason_of
from orthoframe.files import lines_of, open_text, reading

_PARTS = {"train": "train", "training": "train", "test": "test", "testing": "test"}
_PARTS |= dict.fromkeys(("val", "valid", "validation", "dev"), "validation")
_UNWRITABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # control characters, and bytes that are no text
_MOST_HASHED = 2**33  # bytes of files; larger sets are recognised by the sizes of their files
_LEVELS = 3  # of folders, in which a folder of classes is looked for to suggest it
_SIDES = (8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 224)  # usual sizes of square images


@dataclass(frozen=True)
class Columns:
    """The names of the columns of a table of images."""

    path: str = "path"
    label: str = "label"  # the name of its class
    split: str | None = None  # `train`, `test` or `validation`; None if the table has no splits
    # Images with the same entry, such as frames of one video, stay together when some are held out.
    group: str | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Listing:
    """Image files, before any is decoded."""

    paths: tuple[Path, ...]
    labels: NDArray[np.int64]  # [n]
    classes: tuple[str, ...]
    # Positions of the images for `train`, `test` and `validation`; all for `train` without splits.
    parts: Mapping[str, NDArray[np.int64]]
    divided: bool  # whether the data has splits of its own
    root: Path  # the folder to which names of files are relative
    groups: tuple[str, ...] | None = None  # [n], images that stay together; None if each stands alone
    left_out: tuple[str, ...] = ()  # files that are not directly in the folder of a class, or not images

    def __post_init__(self) -> None:
        check_class_names(self.root, self.classes)
        sides: dict[str, str] = {}
        for part, places in self.parts.items():
            for group in () if self.groups is None else map(self.groups.__getitem__, places):
                if sides.setdefault(group, part) != part:
                    where = f"{self.root}: group {brief(repr(group), 60)} is in {sides[group]} and in {part}"
                    raise DataError(f"{where}; a group must be on one side")

    def heads(self, progress: Callable[[int], None]) -> list[ImageHead]:
        """Size and colours of each file; a `DataError` if some cannot be read, when all were tried."""
        heads, broken = [], []
        for number, path in enumerate(self.paths, 1):
            try:
                heads.append(read_head(path))
            except DataError as error:
                broken.append(str(error))
            if number % 64 == 0 or number == len(self.paths):
                progress(number)
        if broken:
            others = f"; {len(broken) - 1} more of {len(self.paths)} cannot be read either" if len(broken) > 1 else ""
            raise DataError(f"{brief(broken[0], 240)}{others}")
        return heads

    def checksums(self) -> NDArray[np.uint64]:
        """A checksum of the content of each file; its size alone if the files are too large to be read for that."""
        sizes = [os.path.getsize(path) for path in self.paths]
        if sum(sizes) > _MOST_HASHED:
            return np.array(sizes, dtype=np.uint64)
        return np.array([zlib.crc32(path.read_bytes()) for path in self.paths], dtype=np.uint64)


def check_class_names(where: Path | str, classes: Sequence[str]) -> None:
    """Refuse names that could not be written to files, or that a terminal would obey, before anything is computed."""
    for name in classes:
        if _UNWRITABLE.search(name):
            raise DataError(f"{where}: class {brief(repr(name), 60)}: its name is not UTF-8, or has control characters")


def chosen_size(sizes: Sequence[tuple[int, int]], largest: int | None = None) -> tuple[int, int]:
    """Height and width for images of many sizes.

    The common size of all images, up to 224 x 224; else a square, with the largest usual side that at least half of the
    images fill. Another side than 224 may be the largest.

    Examples:
        >>> chosen_size([(40, 60), (50, 50), (300, 200)])
        (48, 48)
        >>> chosen_size([(40, 60), (50, 50), (300, 200)], largest=32)
        (32, 32)
    """
    largest = largest or _SIDES[-1]
    if len(set(sizes)) == 1 and max(sizes[0]) <= largest:
        return sizes[0]
    side = float(np.median([(height * width) ** 0.5 for height, width in sizes]))
    side = min(side, largest)
    chosen = max((each for each in _SIDES if each <= side), default=_SIDES[0])
    return chosen, chosen


def list_folder(path: Path) -> Listing:
    """Images from `path/CLASS/*`, or from `path/train/CLASS/*` and `path/test/CLASS/*`, perhaps with a validation part.

    Other files, and those whose name starts with a dot, are ignored.
    """
    if not path.is_dir():
        raise DataError(f"{path}: no such folder")
    parts = _part_folders(path)
    classes = tuple(folder.name for folder in _folders(parts["train"]))
    if not classes:
        raise DataError(f"{parts['train']}: expected a sub-folder of images for each class, and there is none")
    paths: list[Path] = []
    labels: list[int] = []
    places: dict[str, NDArray[np.int64]] = {}
    for name, part in parts.items():
        first = len(paths)
        for folder in _folders(part):
            if folder.name not in classes:
                names = brief(", ".join(classes))
                raise DataError(f"{folder}: the training images have no such class; classes are {names}")
            images = _images(folder)
            if not images:
                _refuse_empty(path, part, folder)
            paths += images
            labels += [classes.index(folder.name)] * len(images)
        if len(paths) == first:
            raise DataError(f"{part}: there is no sub-folder of images in it")
        places[name] = np.arange(first, len(paths))
    others = set(_visible_files(path)) - set(map(str, paths))
    return Listing(
        paths=tuple(paths),
        labels=np.array(labels, dtype=np.int64),
        classes=classes,
        parts=places,
        divided=len(parts) > 1,
        root=path,
        left_out=tuple(sorted(others)),
    )


def _part_folders(path: Path) -> dict[str, Path]:
    """The folders of `train`, `test` and `validation`; the folder itself for `train` if it is not divided."""
    folders: dict[str, Path] = {}
    for folder in _folders(path):
        part = _PARTS.get(folder.name.lower(), "")
        if part and not _images(folder):
            if part in folders:
                raise DataError(f"{folder} and {folders[part].name} both name the {part} images; keep one of them")
            folders[part] = folder
    if "train" not in folders or len(folders) == 1:
        return {"train": path}
    return {part: folders[part] for part in ("train", "test", "validation") if part in folders}


def _visible_files(path: Path | str, errors: list[OSError] | None = None) -> Iterator[str]:
    """Files below a folder at any depth, without hidden ones; folders that cannot be read are collected as errors."""
    for place, folders, files in os.walk(path, onerror=None if errors is None else errors.append):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (os.path.join(place, name) for name in files if not name.startswith("."))


def _folders(path: Path) -> list[Path]:
    entries = path.iterdir() if path.is_dir() else ()
    return sorted(entry for entry in entries if entry.is_dir() and not entry.name.startswith("."))


def _images(folder: Path) -> list[Path]:
    entries = (entry for entry in folder.iterdir() if entry.suffix.lower() in IMAGE_ENDINGS)
    return sorted(entry for entry in entries if not entry.name.startswith(".") and entry.is_file())


def _refuse_empty(path: Path, part: Path, folder: Path) -> None:
    """Raise for a folder without images, with advice if the folders of classes are at another level.

    The advice is never a part alone, nor to train on test images.
    """
    deeper = _folders(path) if part == path else []
    for _ in range(_LEVELS):
        roots = [each for each in deeper if not _images(each) and any(map(_images, _folders(each)))]
        roots = [each for each in roots if _PARTS.get(each.name.lower(), "train") == "train"]
        if roots:
            above = roots[0].parent
            whole = above if len(_part_folders(above)) > 1 else roots[0]
            raise DataError(f"{folder}: there are no images in it; did you mean folder:{whole}?")
        deeper = [inside for each in deeper for inside in _folders(each)]
    kinds = ", ".join(IMAGE_ENDINGS)
    raise DataError(f"{folder}: there are no images in it ({kinds}), and each sub-folder of {part} is a class")


def list_table(path: Path, columns: Columns) -> Listing:
    """Images from a CSV file with a row for each."""
    with reading(path, "a table in CSV", DataError), open_text(path) as file:
        rows = _read_rows(path, csv.DictReader(lines_of(file), strict=True), columns)
    if not rows:
        raise DataError(f"{path}: there is no row in it below the names of the columns")
    for number, row in enumerate(rows, start=2):
        missing = next((name for name, value in row.items() if value is None or not value.strip()), None)
        if missing is not None:
            raise DataError(f"{path}: line {number} has no entry in the column {missing!r}")
    splits = [_PARTS.get(row[columns.split].strip().lower(), "") if columns.split else "train" for row in rows]
    if "" in splits:
        number = splits.index("")
        split = brief(repr(rows[number][columns.split or ""]), 40)
        raise DataError(f"{path}: line {number + 2}: a split is train, validation or test, not {split}")
    labels = [row[columns.label].strip() for row in rows]
    trained = {label for label, split in zip(labels, splits, strict=True) if split == "train"}
    unknown = next((label for label in labels if label not in trained), None)
    if unknown is not None:
        raise DataError(f"{path}: class {brief(repr(unknown), 60)} has no training image")
    classes = sorted_classes(trained)
    numbers = {name: number for number, name in enumerate(classes)}
    parts: dict[str, NDArray[np.int64]] = {
        name: np.flatnonzero(np.array(splits) == name) for name in ("train", "test", "validation") if name in splits
    }
    return Listing(
        paths=tuple(path.parent / row[columns.path].strip() for row in rows),
        labels=np.array([numbers[label] for label in labels], dtype=np.int64),
        classes=classes,
        parts=parts,
        divided=columns.split is not None,
        root=path.parent,
        groups=tuple(row[columns.group] for row in rows) if columns.group else None,
    )


def _read_rows(path: Path, reader: "csv.DictReader[str]", columns: Columns) -> list[dict[str, str]]:
    """The entries of the columns that are needed, row by row."""
    names = list(reader.fieldnames or [])
    if not names:
        raise DataError(f"{path}: the file is empty; its first line must name the columns")
    if len(names) == 1 and (";" in names[0] or "\t" in names[0]):
        raise DataError(f"{path}: columns must be separated by commas, not as in {brief(names[0], 60)!r}")
    needed = {"path_column": columns.path, "label_column": columns.label}
    needed |= {"split_column": columns.split} if columns.split else {}
    needed |= {"group_column": columns.group} if columns.group else {}
    for option, name in needed.items():
        if name not in names:
            present = brief(", ".join(names))
            raise DataError(f"{path}: there is no column {name!r}, but {present}; name it with ", Option(option))
        if names.count(name) > 1:
            raise DataError(f"{path}: there are {names.count(name)} columns {name!r}; rename all but one")
    return [{name: row[name] for name in needed.values()} for row in reader]


def check_unique(path: Path, listing: Listing) -> None:
    """Refuse a table that names an image twice: one row could be for training, and the other for the test."""
    lines: dict[str, int] = {}
    again: list[tuple[int, str]] = []
    for line, image in enumerate(map(os.path.normpath, listing.paths), 2):
        if lines.setdefault(image, line) != line:
            again.append((line, image))
    if again:
        line, image = again[0]
        others = f"; {len(again) - 1} more lines repeat an image too" if len(again) > 1 else ""
        raise DataError(
            f"{path}: line {line} names the image of line {lines[image]} again ({brief(image)}); keep one, because an "
            f"image must not be on both sides of a split{others}"
        )


def grouped(listing: Listing, pattern: str) -> Listing:
    """The same images in groups, which a regular expression finds in their paths."""
    option = Option("group_by", pattern)
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise OptionError(option, f" is not a regular expression: {error}") from None
    if listing.groups is not None:
        raise OptionError(option, " and ", Option("group_column"), " both name the groups; leave one of them out")
    root = listing.root
    names = [(path.relative_to(root) if path.is_relative_to(root) else path).as_posix() for path in listing.paths]
    groups, others = [], []
    for name in names:
        if match := expression.search(name):  # it may be empty, as (clip[0-9]+)|$ allows: then the image is alone
            groups.append((expression.groups and match[1]) or match[0] or name)
        else:
            others.append(name)
    if others:
        what = f"{root}: {len(others)} of {len(names)} images, such as {brief(others[0])}, do not match "
        raise DataError(what, option, "; end it with '|$', and each of them is a group of its own")
    return replace(listing, groups=tuple(groups))


def sorted_classes(names: set[str]) -> tuple[str, ...]:
    """Class names in alphabetical order, or by number if all of them are whole numbers.

    Examples:
        >>> sorted_classes({"10", "9"}), sorted_classes({"b", "10", "a"})
        (('9', '10'), ('10', 'a', 'b'))
    """
    if all(name.isascii() and name.isdigit() and len(name) < 18 for name in names):
        return tuple(sorted(names, key=lambda name: (int(name), name)))
    return tuple(sorted(names))


def find_images(names: Sequence[str]) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Find image files by their names, by folders, and by patterns such as `scans/*.png`.

    Folders are searched at any depth, without hidden files and files without the ending of an image. A file that is
    named is included whether it exists or not.

    Returns:
        The files in the order of `names`, and a sentence for each name that has none.

    Examples:
        >>> find_images(["scan.png", "none/*.png"])
        ((PosixPath('scan.png'),), ('none/*.png: no file matches',))
    """
    paths: list[Path] = []
    problems: list[str] = []
    for name in map(os.path.expanduser, names):
        matches = [name]
        if glob.has_magic(name) and not os.path.lexists(name):
            matches = sorted(glob.glob(name, recursive=True))
            if not matches:
                problems.append(f"{name}: no file matches")
        for match in matches:
            if not os.path.isdir(match):
                paths.append(Path(match))
                continue
            errors: list[OSError] = []
            images = [file for file in _visible_files(match, errors) if file.lower().endswith(IMAGE_ENDINGS)]
            paths += sorted(map(Path, images))
            problems += [f"{error.filename}: {reason_of(error)}" for error in errors]
            if not images and not errors:
                problems.append(f"{match}: there are no images in this folder ({', '.join(IMAGE_ENDINGS)})")
    return tuple(paths), tuple(problems)
