"""Benchmark sets: their files and classes, and the download of missing files from their official sources."""

import hashlib
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from orthoframe.errors import DataError
from orthoframe.files import held, write_atomic

_TIMEOUT = (10, 60)  # seconds to connect, and between two pieces
_PIECE = 2**16

Progress = Callable[[str, int, int | None], None]
"""Called with a file name, the bytes downloaded so far, and the total if it is known; or with a description of the work
on image files, the number done, and their total."""


def unreported(task: str, done: int, total: int | None) -> None:
    """A `Progress` that nobody sees."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A benchmark set: its files, and where to download them."""

    folder: str  # of the files, inside the folder of all benchmark sets
    files: tuple[str, ...]
    classes: tuple[str, ...]  # class names, in the order of the labels
    url: str  # without the file name
    hashes: Mapping[str, str]  # SHA-256 of each download, by file name
    archive: str | None = None  # has the files, if they are not downloaded one by one
    coarse_classes: int = 0  # number of coarse labels in front of the labels, if there are any
    shift: int = 8  # augmentation moves an image by up to this part of its height, an eighth
    flip: bool = False  # whether a mirror image shows the same

    def missing(self, folder: Path) -> list[str]:
        """The files that are not there yet."""
        return [file for file in self.files if not (folder / self.folder / file).is_file()]


_IDX = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)
_CLOTHES = "t-shirt/top, trouser, pullover, dress, coat, sandal, shirt, sneaker, bag, ankle boot"
_CIFAR_10 = "airplane automobile bird cat deer dog frog horse ship truck"
_CIFAR_100 = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant flatfish
forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle
mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine
possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar
sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle wardrobe whale willow_tree
wolf woman worm
"""

SOURCES = {
    "mnist": Source(
        folder="mnist",
        files=_IDX,
        classes=tuple("0123456789"),
        shift=14,  # digits are centred
        url="https://ossci-datasets.s3.amazonaws.com/mnist/",
        hashes={
            _IDX[0]: "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            _IDX[1]: "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            _IDX[2]: "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            _IDX[3]: "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        },
    ),
    "fashion-mnist": Source(
        folder="fashion-mnist",
        files=_IDX,
        classes=tuple(_CLOTHES.split(", ")),
        flip=True,
        url="http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",  # it has no https
        hashes={
            _IDX[0]: "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            _IDX[1]: "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            _IDX[2]: "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            _IDX[3]: "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        },
    ),
    "cifar10": Source(
        folder="cifar-10-batches-bin",
        files=(*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"),
        classes=tuple(_CIFAR_10.split()),
        flip=True,
        url="https://www.cs.toronto.edu/~kriz/",
        hashes={"cifar-10-binary.tar.gz": "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"},
        archive="cifar-10-binary.tar.gz",
    ),
    "cifar100": Source(
        folder="cifar-100-binary",
        files=("train.bin", "test.bin"),
        classes=tuple(_CIFAR_100.split()),
        flip=True,
        url="https://www.cs.toronto.edu/~kriz/",
        hashes={"cifar-100-binary.tar.gz": "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"},
        archive="cifar-100-binary.tar.gz",
        coarse_classes=20,
    ),
}
"""Benchmark sets by name. Only downloads are hashed: files that are already there may be compressed differently."""


def data_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """The folder of benchmark sets: `folder`, else `ORTHOFRAME_DATA`, else one in the user's cache."""
    chosen = folder or os.environ.get("ORTHOFRAME_DATA")
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("orthoframe"))


def fetch(name: str, source: Source, folder: Path, allowed: bool, progress: Progress) -> None:
    """Download the missing files of a data set if that is allowed, or unpack them from an archive that is there.

    Only one process does it; others wait, and find the files.
    """
    if not allowed and not (source.archive and (folder / source.archive).is_file()):
        raise DataError(_advice(name, source, folder, "download=False"))
    try:
        with _claimed(folder / source.folder):
            missing = source.missing(folder)
            if source.archive is None:
                for file in missing:
                    download(source.url + file, source.hashes[file], folder / source.folder / file, progress)
            elif missing:
                _fetch_archive(source, folder / source.archive, missing, progress)
    except OSError as error:
        raise DataError(_advice(name, source, folder, str(error))) from error


@contextmanager
def _claimed(folder: Path) -> Iterator[None]:
    """A folder for one process at a time; in the end its lock is removed, and new folders that are still empty."""
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    lock = folder.with_name(f".{folder.name}.lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with held(lock, seconds=-1):
            yield
    finally:
        with suppress(OSError):  # it is not empty, or another process was faster
            for path in new:
                path.rmdir()


def _fetch_archive(source: Source, archive: Path, files: list[str], progress: Progress) -> None:
    expected = source.hashes[archive.name]
    if not archive.is_file():
        download(source.url + archive.name, expected, archive, progress)
    elif (actual := _sha256(archive)) != expected:
        raise DataError(f"{archive}: it has the SHA-256 {actual}, and {expected} was expected; delete it")
    _unpack(archive, source.folder, files)
    archive.unlink()


def _unpack(archive: Path, inside: str, files: list[str]) -> None:
    """Write the regular files `inside/file` of a `.tar.gz` to the same place beside it, each whole or not at all.

    Paths in the archive are never written to: only the bytes of the expected files are read.
    """
    missing = {f"{inside}/{file}": archive.parent / inside / file for file in files}
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


def download(url: str, sha256: str, target: Path, progress: Progress = unreported) -> None:
    """Download a file, resuming an interrupted attempt.

    Bytes are collected in a file named like `target` with `.part` appended, which is renamed when its hash is right. A
    broken connection is retried as long as each attempt makes progress. If a resumed file has another hash (because its
    beginning is from another version, for example), it is downloaded again from the start.
    """
    part = target.with_name(f"{target.name}.part")
    while True:
        resumed = part.exists()
        if not (resumed and _sha256(part) == sha256):  # else an attempt ended just before renaming
            _receive_all(url, part, target.name, progress)
        actual = _sha256(part)
        if actual == sha256:
            os.replace(part, target)
            return
        part.unlink()
        if not resumed:
            raise DataError(f"{url} has the SHA-256 {actual}, and {sha256} was expected; nothing was kept")


def _receive_all(url: str, part: Path, name: str, progress: Progress) -> None:
    from requests import ConnectionError as NoConnection
    from requests import RequestException
    from urllib3.exceptions import HTTPError as BrokenConnection  # the body is read below requests

    host, furthest = urlsplit(url).netloc, _size(part)
    while True:
        try:
            return _receive(url, part, name, progress)
        except (RequestException, BrokenConnection) as error:
            have = _size(part)
            if have <= furthest:
                kept = f"; the first {have} bytes of {url} are kept, and the next attempt resumes there" if have else ""
                unreached = isinstance(error, NoConnection)  # a later failure is one of urllib3
                what = f"there is no connection to {host}" if unreached else f"the connection to {host} broke"
                raise ConnectionError(f"{what}{kept}") from error
            furthest = have


def _receive(url: str, part: Path, name: str, progress: Progress) -> None:
    import requests

    have = _size(part)
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
        partial = response.status_code == 206
        continues = partial and response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        if have and (response.status_code == 416 or (partial and not continues)):
            part.unlink()  # it is longer than the file, or the server sends another range: start over
            return _receive(url, part, name, progress)
        if response.status_code >= 400:
            answer = f"{response.status_code} {response.reason}"
            raise ConnectionError(f"{urlsplit(url).netloc} answered {answer} for {url}")
        done = have if continues else 0  # a server that ignores the range sends the whole file
        length = response.headers.get("Content-Length")
        total = done + int(length) if length is not None else None
        with open(part, "ab" if continues else "wb") as file:
            for piece in response.raw.stream(_PIECE, decode_content=False):
                file.write(piece)
                done += len(piece)
                progress(name, done, total)
            file.flush()
            os.fsync(file.fileno())
    return None


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
