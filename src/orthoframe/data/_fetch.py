"""Where the files of a data set are: found, or fetched."""

import os
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from orthoframe.data._sources import Source
from orthoframe.errors import DataError

if TYPE_CHECKING:
    from orthoframe.data._download import Progress


def data_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """The folder of all data: the one given, else `ORTHOFRAME_DATA`, else one in the user's cache."""
    chosen = folder or os.environ.get("ORTHOFRAME_DATA")
    if chosen:
        return Path(chosen).expanduser()
    import pooch

    return Path(pooch.os_cache("orthoframe"))


def find_files(
    name: str, source: Source, folder: Path, *, download: bool = True, progress: "Progress | None" = None
) -> list[Path]:
    """The paths of the files of a data set, fetched if some are missing.

    Only one process fetches; others wait for it, and find what it has fetched.

    Raises:
        DataError: If files are missing and cannot be had; it says which to put where.
    """
    paths = [folder / source.folder / file for file in source.files]
    if all(path.is_file() for path in paths):
        return paths
    if not download and not (source.archive and (folder / source.archive).is_file()):
        raise DataError(_what_to_do(name, source, folder, "download=False"))
    try:
        with _made(folder / source.folder), _locked(folder / f".{source.folder}.lock"):
            if source.archive:
                _fetch_archive(source, folder, source.archive, progress)
            else:
                _fetch_files(source, folder, progress)
    except OSError as error:
        raise DataError(_what_to_do(name, source, folder, str(error))) from error
    return paths


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """A folder that is there, and those above it; what was made for it and is still empty in the end is removed."""
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    finally:
        with suppress(OSError):  # it is not empty, or another process was faster
            for path in new:
                path.rmdir()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process at a time; the file is removed with the lock, which those who wait notice."""
    from filelock import FileLock

    with FileLock(path):
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _fetch_files(source: Source, folder: Path, progress: "Progress | None") -> None:
    from orthoframe.data._download import download  # brings a client for HTTP, which most runs do not need

    for file in source.files:
        target = folder / source.folder / file
        if not target.is_file():
            download(source.url + file, source.hashes[file], target, progress)


def _fetch_archive(source: Source, folder: Path, archive: str, progress: "Progress | None") -> None:
    import pooch

    missing = {file for file in source.files if not (folder / source.folder / file).is_file()}
    if not missing:
        return
    path = folder / archive
    if not path.is_file():
        from orthoframe.data._download import download

        download(source.url + archive, source.hashes[archive], path, progress)
    elif (found := pooch.file_hash(str(path))) != source.hashes[archive]:
        raise DataError(f"{path}: it has the SHA-256 {found}, and {source.hashes[archive]} was expected; delete it")
    unpack(path, source.folder, missing, folder)
    path.unlink()


def unpack(archive: Path, inside: str, files: set[str], folder: Path) -> None:
    """Write the regular files `inside/file` of a `.tar.gz` to the same place under `folder`, each whole or not at all.

    Nothing is extracted by the path that the archive gives: only the bytes of what is expected are read.

    Raises:
        DataError: If the archive is broken, or lacks one.
    """
    missing = {f"{inside}/{file}": folder / inside / file for file in files}
    try:
        with tarfile.open(archive, "r|gz") as tar:
            for member in tar:
                if member.name in missing and member.isreg():
                    stream = tar.extractfile(member)
                    assert stream is not None  # it is for links and folders
                    _write(missing.pop(member.name), stream.read())
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise DataError(f"{archive}: not a whole .tar.gz file ({error}); delete it") from None
    if missing:
        raise DataError(f"{archive}: it lacks {', '.join(sorted(missing))}; delete it")


def _write(path: Path, content: bytes) -> None:
    part = path.with_name(f"{path.name}.part")
    with open(part, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


def _what_to_do(name: str, source: Source, folder: Path, reason: str) -> str:
    missing = [file for file in source.files if not (folder / source.folder / file).is_file()]
    archive = f", or {source.url}{source.archive} into {folder}" if source.archive else f" (from {source.url})"
    return (
        f"{name} is not complete under {folder} and was not downloaded: {reason}; put {', '.join(missing)} "
        f"into {folder / source.folder}{archive}"
    )
