"""Download the files of data sets: resumable, checked, and written whole or not at all."""

import os
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pooch
import requests
import urllib3
from filelock import FileLock

from orthoframe._files import write_atomic
from orthoframe.data._datasets import Progress
from orthoframe.data._sources import Source
from orthoframe.errors import DataError

_TIMEOUT = (10, 60)  # seconds to connect, and between two pieces
_PIECE = 2**16


def fetch(name: str, source: Source, folder: Path, allowed: bool, progress: Progress) -> None:
    """Download the missing files of a data set if that is allowed, or unpack them from an archive that is there.

    Only one process does it; others wait, and find the files.
    """
    if not allowed and not (source.archive and (folder / source.archive).is_file()):
        raise DataError(_advice(name, source, folder, "download=False"))
    try:
        with _new_folder(folder / source.folder), _locked(folder / f".{source.folder}.lock"):
            missing = source.missing(folder)
            if source.archive is None:
                for file in missing:
                    download(source.url + file, source.hashes[file], folder / source.folder / file, progress)
            elif missing:
                _fetch_archive(source, source.archive, missing, folder, progress)
    except OSError as error:
        raise DataError(_advice(name, source, folder, str(error))) from error


@contextmanager
def _new_folder(folder: Path) -> Iterator[None]:
    """Make a folder and its parents; remove them in the end if they are new and still empty."""
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
    """One process at a time; the lock file is removed in the end, which waiting processes notice."""
    with FileLock(path):
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _fetch_archive(source: Source, archive: str, files: list[str], folder: Path, progress: Progress | None) -> None:
    path = folder / archive
    if not path.is_file():
        download(source.url + archive, source.hashes[archive], path, progress)
    elif (actual := pooch.file_hash(str(path))) != source.hashes[archive]:
        raise DataError(f"{path}: it has the SHA-256 {actual}, and {source.hashes[archive]} was expected; delete it")
    _unpack(path, source.folder, files, folder)
    path.unlink()


def _unpack(archive: Path, inside: str, files: list[str], folder: Path) -> None:
    """Write the regular files `inside/file` of a `.tar.gz` to the same place under `folder`, each whole or not at all.

    Paths in the archive are never written to: only the bytes of the expected files are read.
    """
    missing = {f"{inside}/{file}": folder / inside / file for file in files}
    try:
        with tarfile.open(archive, "r|gz") as tar:
            for member in tar:
                if member.name in missing and member.isreg():
                    stream = tar.extractfile(member)
                    assert stream is not None  # only links and folders have none
                    write_atomic(missing.pop(member.name), stream.read())
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise DataError(f"{archive}: not a whole .tar.gz file ({error}); delete it") from None
    if missing:
        raise DataError(f"{archive}: it lacks {', '.join(sorted(missing))}; delete it")


def _advice(name: str, source: Source, folder: Path, reason: str) -> str:
    archive = f", or {source.url}{source.archive} into {folder}" if source.archive else f" (from {source.url})"
    return (
        f"{name} is not complete under {folder} and was not downloaded: {reason}; "
        f"put {', '.join(source.missing(folder))} into {folder / source.folder}{archive}"
    )


def download(url: str, sha256: str, target: Path, progress: Progress | None = None) -> None:
    """Download a file, resuming an interrupted attempt.

    Bytes are collected in a file named like `target` with `.part` appended, which is renamed when its hash is right. A
    broken connection is retried as long as each attempt makes progress. If a resumed file has another hash (because its
    beginning is from another version, for example), it is downloaded again from the start.
    """
    part = target.with_name(f"{target.name}.part")
    while True:
        resumed = part.exists()
        if not (resumed and pooch.file_hash(str(part)) == sha256):  # else an attempt ended just before renaming
            _receive_all(url, part, target.name, progress)
        actual = pooch.file_hash(str(part))
        if actual == sha256:
            os.replace(part, target)
            return
        part.unlink()
        if not resumed:
            raise DataError(f"{url} has the SHA-256 {actual}, and {sha256} was expected; nothing was kept")


def _receive_all(url: str, part: Path, name: str, progress: Progress | None) -> None:
    furthest = _size(part)
    while True:
        try:
            return _receive(url, part, name, progress)
        # Those of urllib3 too: the body is read below requests, which would decompress it.
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            if _size(part) <= furthest:
                raise ConnectionError(_reason(url, error, _size(part))) from error
            furthest = _size(part)


def _receive(url: str, part: Path, name: str, progress: Progress | None) -> None:
    have = _size(part)
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
        partial = response.status_code == 206
        continues = partial and response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        if have and (response.status_code == 416 or (partial and not continues)):
            part.unlink()  # it is longer than the file, or the server sends another range: start over
            return _receive(url, part, name, progress)
        response.raise_for_status()
        done = have if continues else 0  # a server that ignores the range sends the whole file
        length = response.headers.get("Content-Length")
        total = done + int(length) if length is not None else None
        with open(part, "ab" if continues else "wb") as file:
            for piece in response.raw.stream(_PIECE, decode_content=False):
                file.write(piece)
                done += len(piece)
                if progress is not None:
                    progress(name, done, total)
            file.flush()
            os.fsync(file.fileno())
    return None


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _reason(url: str, error: Exception, have: int) -> str:
    host = urlsplit(url).netloc
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"{host} answered {error.response.status_code} {error.response.reason} for {url}"
    kept = f"; the first {have} bytes of {url} are kept, and the next attempt resumes there" if have else ""
    if isinstance(error, requests.ConnectionError):  # while connecting; a later failure is one of urllib3
        return f"there is no connection to {host}{kept}"
    return f"the connection to {host} broke{kept}"
