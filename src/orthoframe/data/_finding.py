"""Image files that are meant by names of files, names of folders, and patterns."""

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orthoframe.data._preparation import IMAGE_ENDINGS


@dataclass(frozen=True)
class Found:
    """Image files in the order of the names, and a sentence for each name that has none."""

    paths: tuple[Path, ...]
    problems: tuple[str, ...]


def find_images(names: Sequence[str]) -> Found:
    """The files that are meant by files, folders (with all that is below, sorted) and patterns such as `scans/*.png`.

    In a folder hidden files and those without the ending of an image are left out; a file that is named is taken as it
    is, whether it exists or not.

    Examples:
        >>> find_images(["scan.png", "none/*.png"])
        Found(paths=(PosixPath('scan.png'),), problems=('none/*.png: no file has such a name',))
    """
    paths: list[Path] = []
    problems: list[str] = []
    for name in map(os.path.expanduser, names):
        matches = [name]
        if glob.has_magic(name) and not os.path.lexists(name):
            matches = sorted(glob.glob(name, recursive=True))
            if not matches:
                problems.append(f"{name}: no file has such a name")
        for match in matches:
            if not os.path.isdir(match):
                paths.append(Path(match))
                continue
            found, unread = _below(match)
            paths += found
            problems += unread
            if not found and not unread:
                problems.append(f"{match}: there are no images in this folder ({', '.join(IMAGE_ENDINGS)})")
    return Found(tuple(paths), tuple(problems))


def _below(folder: str) -> tuple[list[Path], list[str]]:
    """All images of a folder and of the folders in it; and what cannot be looked into."""
    unread: list[OSError] = []
    found: list[Path] = []
    for where, inside, files in os.walk(folder, onerror=unread.append):
        inside[:] = [each for each in inside if not each.startswith(".")]
        named = (each for each in files if each.lower().endswith(IMAGE_ENDINGS) and not each.startswith("."))
        found += [Path(where, each) for each in named]
    return sorted(found), [f"{error.filename}: {error.strerror}" for error in unread]
