"""Files that no mutation reaches: bombs, lengths that are only promised, nesting, width, and too much of anything.

They are numbered: the first `COUNT` cases are all of them.
"""

import contextlib
import io
import json
import struct
import zipfile
import zlib
from functools import partial

import numpy as np
from tests.fuzz.mutations import Target
from tests.fuzz.network_files import prepare_classifier
from tests.fuzz.run_files import small_run

from orthoframe.batches import read_batches
from orthoframe.cli import main
from orthoframe.cli.measure import open_features, read_labels
from orthoframe.data import Preparation, load_data
from orthoframe.embedding import read_embedding
from orthoframe.errors import DataError, InputError, TrainingError
from orthoframe.runs import load_encoder, read_run
from orthoframe.sklearn import FrameClassifier
from orthoframe.training import RunListener, resume

_LARGEST_JSON = 2**22  # bytes, as docs/reliability.md says
_TEXTS = {
    "deep": "[" * 10**6,
    "wide": "[" + "[]," * (15 * 10**6) + "[]]",  # as objects of Python, twenty times as much memory
    "just small enough": "[" + "[]," * (_LARGEST_JSON // 3 - 2) + "[]]",
    "many digits": "9" * 5000,
}
_RUN_FILES = ("config.json", "verdict.json", "certificate.json", "run.json", "geometry.jsonl")
_BLOCK = bytes(10**7)


def _write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def _json(reader, text, folder, files):
    """A text in place of a file in JSON, or of the metadata of a safetensors file."""
    if reader in _RUN_FILES or reader == "resume":
        for name, content in files.items():
            _write(folder / "run" / name, content)
        _write(folder / "run" / ("config.json" if reader == "resume" else reader), text)
        return lambda: resume(folder / "run", RunListener()) if reader == "resume" else read_run(folder / "run")
    if reader in ("encoder", "classifier"):
        data = files[f"{reader}.safetensors"]
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length]) | {"__metadata__": {"orthoframe": text}}
        packed = json.dumps(header).encode()
        path = _write(folder / f"{reader}.safetensors", struct.pack("<Q", len(packed)) + packed + data[8 + length :])
        return partial(load_encoder if reader == "encoder" else FrameClassifier.load, path)
    path = _write(folder / "manifest.json", text)
    return lambda: list(read_batches(path, 3)) if reader == "batches" else read_embedding(folder)


def _bomb(shape, folder, files):
    """An array of 800 MB that is a few kilobytes in its archive, and a header that says less, or more."""
    array = io.BytesIO()
    np.lib.format.write_array_header_1_0(array, {"descr": "|u1", "fortran_order": False, "shape": shape})
    packer = zlib.compressobj(1, wbits=-15)
    stream = packer.compress(array.getvalue()) + packer.flush(zlib.Z_FULL_FLUSH)
    stream += (packer.compress(_BLOCK) + packer.flush(zlib.Z_FULL_FLUSH)) * 80 + b"\x03\x00"
    path = folder / "bomb.npz"
    with zipfile.ZipFile(path, "w") as archive:
        entry = zipfile.ZipInfo("x.npy")
        archive.writestr(entry, stream)
        entry.compress_type, entry.file_size = zipfile.ZIP_DEFLATED, len(array.getvalue()) + 80 * len(_BLOCK)
        np.save(array := io.BytesIO(), np.zeros(1, np.int64))
        archive.writestr("y.npy", array.getvalue())
    return lambda: load_data(f"npz:{path}")


def _odd_archive(offset, value, reader, folder, files):
    """An archive whose directory says that its first entry is encrypted, packed in another way, or of another size."""
    path = folder / "odd.npz"
    np.savez(path, x=np.zeros((1, 8, 8), np.uint8), y=np.zeros(1, np.int64), labels=np.zeros(1, np.int64))
    if reader == "labels":
        np.savez(path, labels=np.zeros(1, np.int64))
    content = bytearray(path.read_bytes())
    place = content.index(b"PK\x01\x02")
    content[place + offset : place + offset + len(value)] = value
    path.write_bytes(content)
    return partial(read_labels, path, None) if reader == "labels" else lambda: load_data(f"npz:{path}")


def _chunk(kind, data, length=None):
    return (
        struct.pack(">I", len(data) if length is None else length)
        + kind
        + data
        + struct.pack(">I", zlib.crc32(kind + data))
    )


def _promise(kind, length, folder, files):
    """A PNG image with a chunk whose length is promised to be gigabytes."""
    start = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", struct.pack(">2I5B", 8, 8, 8, 2, 0, 0, 0))
    pixels = zlib.compress(bytes(8 * 25))[:6]
    if kind != b"IDAT":
        start += _chunk(kind, bytes(30), length)
    path = _write(folder / "class" / "a.png", start + _chunk(b"IDAT", pixels, length if kind == b"IDAT" else None))
    return lambda: Preparation((3, 8, 8))(path)


def _large_image(width, height, whole, folder, files):
    head = _chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0))
    content = b"\x89PNG\r\n\x1a\n" + head + _chunk(b"IDAT", zlib.compress(bytes(100))) + _chunk(b"IEND", b"")
    path = _write(folder / "images" / "class" / "a.png", content)
    return partial(Preparation((3, 4096, 4096)), path) if whole else lambda: load_data(f"folder:{folder / 'images'}")


def _text(name, content, folder, files):
    path = _write(folder / name, content)
    return (lambda: list(open_features(path, None).parts())) if "features" in name else partial(read_labels, path, None)


def _command(words, folder, files):
    """The command on hostile files: status 2 and one line."""
    _write(folder / "labels.txt", "0\n1\n")
    _write(folder / "hostile.jsonl", _TEXTS["deep"])
    _write(folder / "hostile.npy", b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b" " * 99)
    _write(folder / "run" / "config.json", _TEXTS["deep"])

    def run():
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            status = main([word.replace("HERE", str(folder)) for word in words.split()])
        said = errors.getvalue()
        assert (status, said.count("\n"), said[:12], "unexpected" in said) == (2, 1, "orthoframe: ", False), said
        raise InputError(said.strip())

    return run


def _batch(folder, files):
    path = _write(folder / "batches.json", "[" + "0," * (2 * 10**7) + "0]")
    return lambda: sum(map(len, read_batches(path)))


def _lines(count, ending=""):
    return "".join(f"{number}{ending}\n" for number in range(count))


_REFUSED = [
    *(
        partial(_json, reader, text)
        for reader in ("batches", "embedding", "encoder", "classifier", "resume", *_RUN_FILES)
        for text in _TEXTS.values()
    ),
    *(partial(_bomb, shape) for shape in ((1, 8, 8), (1, 30_000, 30_000))),
    *(
        partial(_odd_archive, offset, value, reader)
        for offset, value in ((8, b"\x01"), (10, b"\x0c"), (10, b"\x63"), (24, b"\xfe\xff\xff\xff"))
        for reader in ("labels", "data")
    ),
    *(partial(_promise, kind, length) for kind in (b"IDAT", b"iCCP", b"eXIf") for length in (2**31 - 1, 2**29 + 63)),
    *(
        partial(_large_image, *sizes, whole)
        for sizes in ((100_000, 100_000), (11_000, 11_000), (5793, 5793), (5792, 5792))
        for whole in (True, False)
    ),
    partial(_text, "labels.txt", "a\n" * 10**6 + "b" * 10**6 + "\n"),
    partial(_text, "labels.txt", "\U0001f600" + "b" * 10**8),  # four bytes for each character in memory
    *(partial(_text, "labels.txt", _lines(2 * 10**6, ending)) for ending in ("", "x")),
    partial(_text, "labels.csv", ",".join(f"column{number}" for number in range(10**4)) + "\n"),
    partial(_text, "labels.csv", "a\n" + "b" * 10**6),
    *(partial(_text, f"{kind}.csv", '"' + '\n","' * 10**7 + '"\n') for kind in ("labels", "features")),  # one row
    *(
        partial(_command, words)
        for words in (
            "measure HERE/hostile.npy HERE/labels.txt",
            "certify HERE/labels.txt HERE/hostile.jsonl",
            "predict HERE/hostile.npy HERE/labels.txt",
            "report HERE/run",
            "train --data npz:HERE/hostile.npy --out HERE/never",
        )
    ),
]
_READ = [
    _batch,
    partial(_text, "labels.txt", _lines(10**6, "x")),
    partial(_text, "labels.txt", "one\n" * 10**6),
]
COUNT = len(_REFUSED) + len(_READ)


def prepare(folder):
    files = {path.name: path.read_bytes() for path in small_run(folder).iterdir() if path.is_file()}
    return files | {"classifier.safetensors": prepare_classifier(folder)[0]}


def make(number, files, folder):
    number %= COUNT
    return (*_REFUSED, *_READ)[number](folder, files), number < len(_REFUSED)


def read(hostile):
    reader, refused = hostile
    reader()
    assert not refused, "it was read"


TARGETS = {
    "extremes": Target((DataError, InputError, TrainingError, ValueError), 0.01, prepare, make, read, numbered=True)
}
