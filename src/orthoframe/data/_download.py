"""Downloads that are resumed, checked, and there whole or not at all."""

import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pooch
import requests
import urllib3

from orthoframe.errors import DataError

Progress = Callable[[str, int, int | None], None]
"""Called with the name of a file, the bytes that are there, and those that it will have, if that is known."""

_TIMEOUT = (10, 60)  # seconds to connect, and between two pieces
_PIECE = 2**16


def download(url: str, sha256: str, target: Path, progress: Progress | None = None) -> None:
    """Download a file, going on from what an interrupted attempt has left.

    Bytes are collected in `target` with `.part` behind its name, which becomes `target` when its hash is right. A
    broken connection is tried again for as long as that brings the end nearer. If a resumed file turns out wrong (its
    beginning is of another version, say), it is downloaded once more from the start.

    Raises:
        DataError: If the file has another hash.
        OSError: If the connection fails, or the file cannot be written.
    """
    part = target.with_name(f"{target.name}.part")
    while True:
        resumed = part.exists()
        if not (resumed and pooch.file_hash(str(part)) == sha256):  # else an attempt ended just before its last line
            _receive_all(url, part, target.name, progress)
        found = pooch.file_hash(str(part))
        if found == sha256:
            os.replace(part, target)
            return
        part.unlink()
        if not resumed:
            raise DataError(f"{url} has the SHA-256 {found}, and {sha256} was expected; nothing was kept")


def _receive_all(url: str, part: Path, name: str, progress: Progress | None) -> None:
    furthest = _size(part)
    while True:
        try:
            return _receive(url, part, name, progress)
        # Of urllib3 because the body is read from below requests, which would unpack what is sent as gzip.
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
        done = have if continues else 0  # a server that ignores the range sends everything
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
    kept = f"; {have} bytes of {url} are kept, and another try goes on there" if have else ""
    if isinstance(error, requests.ConnectionError):  # of requests: later it would be one of urllib3
        return f"there is no connection to {host}{kept}"
    return f"the connection to {host} broke{kept}"
