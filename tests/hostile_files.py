"""Reads files that lie, each with a function of this package, under a memory limit; prints what came of each as JSON.

Run as a program by `test_untrusted.py`: the limit is for the whole process.
"""

import contextlib
import io
import json
import os
import re
import resource
import struct
import sys
import time
import zipfile
import zlib
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save

from orthoframe.batches import read_batches
from orthoframe.cli import main
from orthoframe.cli._files import open_features, read_labels
from orthoframe.data import Preparation, load_data
from orthoframe.data._readers import read_idx
from orthoframe.encoders import make_frame_encoder
from orthoframe.errors import InputError
from orthoframe.runs import RunFolder, load_encoder, read_run
from orthoframe.sklearn import FrameClassifier
from orthoframe.studies import Store, read_result

ALLOWED = 512 * 2**20  # bytes, in addition to what the process has before it reads
TEN_MILLION_ZEROS = b"\0" * 10**7
DEEP = ("[" * 3000, "[" * 10**6, '{"a":' * 10**6)
WIDE = "[" + "[]," * (15 * 10**6) + "[]]"  # as objects of Python, twenty times as much
HEADERS = (
    "",
    "(" * 3000,
    "{'descr': '|u1', 'fortran_order': False, 'shape': (3",  # tokenize.TokenError
    "'''",
    "{'descr': '|u1', 'fortran_order': False, 'shape': (-1,), }",
    "{'descr': '|u1', 'fortran_order': False, 'shape': (-1, -1), }",
    "{'descr': '|u1', 'fortran_order': False, 'shape': (0, 4611686018427387904), }",
    "{'descr': '|u1', 'fortran_order': False, 'shape': (1000000000000,), }",
    "{'descr': '|u1', 'fortran_order': False, 'shape': (1" + "0" * 4000 + ",), }",
    "{'descr': '|u1', 'fortran_order': False, 'shape': (1" + "0" * 9000 + ",), }",
    "{'descr': '|u1', 'fortran_order': False, 'shape': (" + "2," * 70 + "), }",
    "{'descr': '|u1', 'fortran_order': False, 'shape': (True, 8, 8), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (100000000, 5000), }",
    "{'descr': '<U500000000', 'fortran_order': False, 'shape': (2,), }",
    "{'descr': '<U500000000', 'fortran_order': False, 'shape': (0,), }",
    "{'descr': '<U99999999999', 'fortran_order': False, 'shape': (2,), }",
    "{'descr': '|O', 'fortran_order': False, 'shape': (8,), }",
    "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (16,), }",
    "{'descr': '|V64', 'fortran_order': False, 'shape': (1,), }",
    "{'descr': 'nothing', 'fortran_order': False, 'shape': (2,), }",
    "{'descr': 7, 'fortran_order': False, 'shape': (2,), }",
    "{'descr': '|u1', 'fortran_order': 2, 'shape': (64,), }",
    "{'descr': '|u1', 'fortran_order': False, 'shape': (64,), 'allow_pickle': True}",
    "{'descr': '|u1', 'fortran_order': False, 'shape': ('64',), }",
    "\0\0\0",
)


def npy(header, version=b"\x01\x00", data=b"\0" * 64):
    text = header.encode("latin1")
    return b"\x93NUMPY" + version + struct.pack("<H" if version == b"\x01\x00" else "<I", len(text)) + text + data


def plain(shape, descr="|u1"):
    return f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"


def zeros(count):
    """A deflated stream of about as many zeros, made at once from equal blocks."""
    packer = zlib.compressobj(1, wbits=-15)
    block = packer.compress(TEN_MILLION_ZEROS) + packer.flush(zlib.Z_FULL_FLUSH)
    return block * (count // 10**7) + b"\x03\x00"


def archive(path, **changes):
    """An .npz file; `changes` are those of the entry of x.npy in its directory."""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x.npy", npy(plain("(1, 8, 8)")))
        file.writestr("y.npy", npy(plain("(1,)"), data=b"\0"))
    content = bytearray(path.read_bytes())
    entry = content.index(b"PK\x01\x02")
    places = {"flags": (8, "<H"), "method": (10, "<H"), "packed": (20, "<I"), "size": (24, "<I")}
    for name, value in changes.items():
        offset, form = places[name]
        struct.pack_into(form, content, entry + offset, value)
    path.write_bytes(content)


def tensors_of(encoder):
    return {f"encoder.{name}": value for name, value in encoder.state_dict().items()}


def idx_files(folder):
    path = folder / "images.gz"
    for shape in [(1, 28, 28), (2**32 - 1,) * 3, (0, 2**32 - 1, 2**32 - 1)]:
        head = bytes([0, 0, 8, 3]) + struct.pack(">3I", *shape)
        packer = zlib.compressobj(1, wbits=-15)
        start = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
        count = 10**9 if shape == (1, 28, 28) else 0
        path.write_bytes(b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + start + zeros(count) + b"\0" * 8)
        yield f"idx {shape}", "DataError", lambda: read_idx(path, 3)


def array_files(folder):
    versions = (b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x09")
    contents = [npy(header, version) for header in HEADERS for version in versions[:2]]
    contents += [npy(plain("(64,)"), version) for version in versions[2:]]
    contents += [
        b"",
        b"\x93NUMPY",
        npy(plain("(65,)")),
        npy(plain("(63,)")),
        *(npy(plain("(8, 2)", "<U1"), data=struct.pack("<I", point) * 16) for point in (0x110000, 0xD800)),
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b" " * 99,
    ]
    for number, content in enumerate(contents):
        for name in ("labels.npy", "features.npy", "labels.npz", "features.npz", "data.npz"):
            path = folder / name
            path.write_bytes(content)
            if name.endswith(".npz"):
                with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
                    file.writestr("x.npy", content)
                    file.writestr("y.npy", npy(plain("(1,)"), data=b"\0"))
                    file.writestr("labels.npy", content)
                    file.writestr("features.npy", content)
            label = f"{name} {number}: {content[10:60]!r}"
            if name == "data.npz":
                yield label, "DataError", lambda path=path: load_data(f"npz:{path}")
            elif name.startswith("labels"):
                yield label, "InputError", lambda path=path: read_labels(path, None)
            else:
                yield label, "InputError", lambda path=path: list(open_features(path, None).parts())


def archives(folder):
    path = folder / "x.npz"

    def read_all():
        for read in (lambda: read_labels(path, None), lambda: list(open_features(path, "x").parts())):
            with contextlib.suppress(InputError):
                read()
                raise AssertionError(f"{path} was read")
        load_data(f"npz:{path}")

    for changes in ({"flags": 1}, {"method": 12}, {"method": 14}, {"method": 99}, {"size": 2**32 - 2}):
        archive(path, **changes)
        yield f"archive {changes}", "DataError", read_all
    for header in (plain("(1, 8, 8)"), plain("(1, 30000, 30000)")):  # less than follows, and more
        start = npy(header, data=b"")
        packed = zlib.compressobj(1, wbits=-15)
        stream = packed.compress(start) + packed.flush(zlib.Z_FULL_FLUSH) + zeros(8 * 10**8)
        archive(path)
        with zipfile.ZipFile(path, "w") as file:
            entry = zipfile.ZipInfo("x.npy")
            file.writestr(entry, stream)
            entry.compress_type, entry.file_size = zipfile.ZIP_DEFLATED, len(start) + 8 * 10**8
            file.writestr("y.npy", npy(plain("(1,)"), data=b"\0"))
        yield f"deflated {header}", "DataError", lambda: load_data(f"npz:{path}")
    with zipfile.ZipFile(path, "w") as file:
        for name in ("X.NPY", "Y.NPY"):
            file.writestr(name, npy(plain("(64,)")))
    yield "upper case", "DataError", lambda: load_data(f"npz:{path}")
    yield "upper case", "InputError", lambda: read_labels(path, None)


def image_files(folder):
    def png(width, height):
        def chunk(kind, data):
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

        head = chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0))
        return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")

    contents = {
        "large": png(100_000, 100_000),
        "rather large": png(11_000, 11_000),
        "too large": png(5793, 5793),
        "truncated": png(5792, 5792),
        "postscript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n",
    }
    for name, content in contents.items():
        path = folder / "class" / "a.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        yield f"image {name}", "DataError", lambda path=path: Preparation((3, 4096, 4096))(path)
        yield f"folder {name}", "DataError", lambda: load_data(f"folder:{folder}")


def promising_images(folder):
    """Chunks whose length is promised to be gigabytes, before, in and after the pixels."""
    path = folder / "a.png"

    def chunk(kind, data, length=None):
        size = struct.pack(">I", len(data) if length is None else length)
        return size + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", 8, 8, 8, 2, 0, 0, 0))
    pixels = zlib.compress(bytes(8 * 25))
    for kind in (b"IDAT", b"iCCP", b"zTXt", b"tEXt", b"eXIf"):
        for length in (2**31 - 1, 2**30, 2**29 + 63):
            broken = b"" if kind == b"IDAT" else chunk(kind, bytes(30), length)
            last = chunk(b"IDAT", pixels[:6], length if kind == b"IDAT" else None)
            path.write_bytes(head + broken + last)
            yield f"{kind} of {length}", "DataError", lambda: Preparation((3, 8, 8))(path)


def encoder_files(folder):
    about = {
        "model": "mlp",
        "width": 4,
        "head": "linear",
        "features": 5,
        "activation": "relu",
        "image_shape": [1, 8, 8],
    }
    about |= {"classes": ["a", "b", "c"], "mean": [0.5], "std": [0.5]}
    encoder = make_frame_encoder("mlp", (1, 8, 8), width=4, features=5)
    tensors = tensors_of(encoder) | {"class_means": torch.ones(3, 5, dtype=torch.float64)}
    path = folder / "encoder.safetensors"

    def written(text, tensors=tensors):
        path.write_bytes(save(tensors, metadata=None if text is None else {"orthoframe": text}))

    written(json.dumps(about))
    again = load_encoder(path).encoder
    images = torch.rand(3, 1, 8, 8)
    if not torch.equal(again(images), encoder.eval()(images)) or not all(p.requires_grad for p in again.parameters()):
        raise SystemExit("the weights differ")
    changes = [
        *({"features": value} for value in (10**8, 10**18, 10**30, -1, "5", True)),
        *({"width": value} for value in (30_000, 10**6, 10**12, 0, 4.0)),
        *({"model": value} for value in ("vit", "resnet34", "none", None)),
        *({"image_shape": value} for value in ([1, 10**9, 10**9], [1, -1, 8], [2, 8, 8], [1, 8], [1, 8, 16], None)),
        *({"classes": value} for value in (["a", "b"], ["a", "b", "c", "d"], [], [1, 2, 3], "abc")),
        *({"mean": value} for value in ([], [0.5, 0.5, 0.5], [float("nan")], ["x"])),
        *({"std": value} for value in ([0.0], [-1.0], [float("inf")])),
        *({"head": "none"}, {"activation": "tanh"}),
    ]
    for change in changes:
        written(json.dumps(about | change))
        yield f"encoder {change}", "TrainingError", lambda: load_encoder(path)
    for text in (*DEEP, None, "", "[]", "{}", "9" * 5000, WIDE):
        written(text)
        yield f"encoder {text and text[:9]}", "TrainingError", lambda: load_encoder(path)
    others = {
        "extra": tensors | {"encoder.more": torch.zeros(1)},
        "missing": {name: value for name, value in tensors.items() if not name.endswith("bias")},
        "half": {name: value.half() for name, value in tensors.items()},
        "flat": tensors | {"class_means": torch.ones(15, dtype=torch.float64)},
        "integers": tensors | {"class_means": torch.ones(3, 5, dtype=torch.int64)},
        "no centres": tensors_of(encoder),
    }
    for name, other in others.items():
        written(json.dumps(about), other)
        yield f"encoder {name}", "TrainingError", lambda: load_encoder(path)


def classifier_files(folder):
    rows = np.random.default_rng(0).random((12, 4))
    path = folder / "classifier.safetensors"
    FrameClassifier(hidden=(6, 5), epochs=1, random_state=0).fit(rows, ["a", "b", "c"] * 4).save(path)
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        about = json.loads(file.metadata()["orthoframe"])
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118

    def written(text, tensors=tensors):
        path.write_bytes(save(tensors, metadata={"orthoframe": text}))

    written(json.dumps(about))
    FrameClassifier.load(path).predict(rows)
    network, fitted, classes = about["network"], about["fitted"], about["classes"]
    changes = [
        *(
            {"network": network | {"hidden": value}}
            for value in ([30_000, 30_000], [1] * 10**6, [], [-1, 5], ["6", 5], [5])
        ),
        *({"fitted": fitted | {"n_features_in_": value}} for value in (10**8, 10**30, 0, -1, "4")),
        *({"classes": classes | {"dtype": value}} for value in ("<U500000000", "|V9", "<f8", "what", "O,O")),
        *(
            {"classes": classes | {"labels": value}}
            for value in (["a", "b"], ["a"] * 3, list("abcd"), [["a"]] * 3, "abc")
        ),
        *({"options": about["options"] | value} for value in ({"hidden": 5}, {"hidden": None}, {"unknown": 1})),
        *({"plan": about["plan"] | value} for value in ({"seed": -1}, {"batch_size": 0}, {"binding": "none of these"})),
        *({"stopped": "never"}, {"format": "other"}, {"accuracy": None}, {"dead_rows": "0"}, {"columns": 4}),
    ]
    for change in changes:
        written(json.dumps(about | change))
        yield f"classifier {str(change)[:60]}", "ValueError", lambda: FrameClassifier.load(path)
    for text in (*DEEP, "", "[]", "{}", WIDE):
        written(text)
        yield f"classifier {text[:9]}", "ValueError", lambda: FrameClassifier.load(path)
    others = {
        "labels": torch.full((12,), -1, dtype=torch.int32),
        "labels ": torch.full((12,), 2**31 - 1, dtype=torch.int32),
        "spreads": torch.zeros(2, dtype=torch.float64),
        "centres_": torch.zeros(3, 4, dtype=torch.float64),
        "mean_": torch.zeros(4, dtype=torch.float32),
        "scale_": torch.zeros(4, 1, dtype=torch.float64),
    }
    for name, other in others.items():
        written(json.dumps(about), tensors | {name.strip(): other})
        yield f"classifier {name}", "ValueError", lambda: FrameClassifier.load(path)
    # A long name and many rows: together they would be 4 TB of names.
    long = about | {"classes": {"dtype": "<U1000000", "labels": ["a", "b", "c" * 10**6]}}
    written(json.dumps(long), tensors | {"labels": torch.arange(10**6, dtype=torch.int32) % 3})
    yield "classifier long name", None, lambda: FrameClassifier.load(path)


def json_files(folder):
    run, path = folder / "run", folder / "some.json"
    run.mkdir()
    (run / "metrics.csv").write_text("epoch,seconds,lr,temperature,loss\n1,1,1,1,1\n")
    (run / "geometry.jsonl").write_text("")
    for text in (*DEEP, "null", "\xff", '{"a": "\ud800"}', "9" * 5000, "1e999", "[" + "[]," * 10**5 + "[]]"):
        path.write_bytes(text.encode("utf-8", "surrogatepass") if text != "\xff" else b"\xff")
        yield f"batches {text[:9]}", "InputError", lambda: list(read_batches(path))
        yield f"result {text[:9]}", "InputError", lambda: read_result(path)
        (folder / "key").mkdir(exist_ok=True)
        (folder / "key" / "result.json").write_bytes(path.read_bytes())
        yield f"store {text[:9]}", None, lambda: Store(folder).get("key")
        for name in ("config.json", "verdict.json", "certificate.json", "run.json", "geometry.jsonl"):
            (run / "config.json").write_text("{}")
            before = (run / name).read_bytes() if (run / name).exists() else None
            (run / name).write_bytes(path.read_bytes())
            yield f"{name} {text[:9]}", "InputError", lambda: read_run(run)
            (run / name).unlink() if before is None else (run / name).write_bytes(before)
    path.write_text("[" + "0," * (2 * 10**7) + "0]")
    yield "a wide batch", None, lambda: sum(len(batch) for batch in read_batches(path))
    path.write_text(WIDE)
    yield "wide result", "InputError", lambda: read_result(path)
    (folder / "key" / "result.json").write_text(WIDE)
    yield "wide store", None, lambda: Store(folder).get("key")
    for name in ("geometry.jsonl", "certificate.json"):
        before = (run / name).read_bytes() if (run / name).exists() else None
        (run / name).write_text(WIDE)
        yield f"wide {name}", "InputError", lambda: read_run(run)
        (run / name).unlink() if before is None else (run / name).write_bytes(before)
    epochs = "".join(f"{number},1,1,1,1\n" for number in range(1, 10**6))
    (run / "metrics.csv").write_text(f"epoch,seconds,lr,temperature,loss\n{epochs}")
    yield "many epochs", "InputError", lambda: read_run(run)
    (run / "metrics.csv").write_text("epoch," * 10**6 + "loss\n")
    yield "many columns of a run", "InputError", lambda: read_run(run)
    (run / "config.json").write_text(WIDE)
    yield "wide settings", "TrainingError", lambda: RunFolder(run).settings()
    yield "wide settings of a report", "InputError", lambda: read_run(run)
    path.write_text("[" + "9" * 4000 + "]")
    yield "a long index", "InputError", lambda: list(read_batches(path, 3))


def text_files(folder):
    path, features = folder / "labels.txt", folder / "features.csv"
    path.write_text("a\n" * 10**6 + "b" * 10**6 + "\n")
    yield "a long label", "InputError", lambda: read_labels(path, None)
    path.write_bytes("\U0001f600".encode() + b"b" * 10**8)  # four bytes for each character in memory
    yield "a very long label", "InputError", lambda: read_labels(path, None)
    for ending in ("", "x"):
        path.write_text("".join(f"{number}{ending}\n" for number in range(2 * 10**6)))
        yield "many different labels", "InputError", lambda: read_labels(path, None)
        path.write_text("".join(f"{number}{ending}\n" for number in range(10**6)))
        yield "a million different labels", None, lambda: read_labels(path, None)
    path.write_text("one label\n" * 10**6)
    yield "many labels", None, lambda: read_labels(path, None)
    header = folder / "labels.csv"
    header.write_text(",".join(f"column{number}" for number in range(10**4)) + "\n")
    yield "many columns", "InputError", lambda: read_labels(header, None)
    header.write_text("a\n" + "b" * 10**6)
    yield "a long field", "InputError", lambda: read_labels(header, None)
    for table, read in (
        (header, lambda: read_labels(header, None)),
        (features, lambda: list(open_features(features, None).parts())),
    ):
        table.write_text('"' + '\n","' * 10**7 + '"\n')  # one row, whose lines are short
        yield f"a long row of {table.name}", "InputError", read
    features.write_text("1,2\n3," + "x\n" * 1 + "y" * 10**5)
    yield "long words", "InputError", lambda: list(open_features(features, None).parts())


def commands(folder):
    """The command on some of the same files: status 2 and one line."""
    (folder / "labels.txt").write_text("0\n1\n")
    (folder / "bad.npy").write_bytes(npy(plain("(1000000000000, 4)", "<f4")))
    (folder / "deep.jsonl").write_text("[" * 10**6)
    encoder = tensors_of(make_frame_encoder("mlp", (1, 8, 8), width=4, features=5))
    (folder / "deep.safetensors").write_bytes(save(encoder, metadata={"orthoframe": "[" * 3000}))
    (folder / "run").mkdir(exist_ok=True)
    (folder / "run" / "config.json").write_text("[" * 10**6)
    for words in (
        ["measure", f"{folder}/bad.npy", f"{folder}/labels.txt"],
        ["certify", f"{folder}/labels.txt", f"{folder}/deep.jsonl"],
        ["predict", f"{folder}/deep.safetensors", f"{folder}/bad.npy"],
        ["report", f"{folder}/run"],
        ["train", "--data", f"npz:{folder}/bad.npy", "--out", f"{folder}/never"],
    ):
        yield f"command {words}", "status 2", lambda words=words: said(words)


def said(words):
    with contextlib.redirect_stderr(io.StringIO()) as err:
        status = main(words)
    text = err.getvalue()
    if status == 2 and text.startswith("orthoframe: ") and text.count("\n") == 1 and "unexpected" not in text:
        raise type("status 2", (Exception,), {})(text.strip())
    raise AssertionError(f"{words}: {status} {text}")


def memory(what):
    """In bytes, of this process."""
    return int(re.search(rf"{what}:\s+(\d+) kB", Path("/proc/self/status").read_text()).group(1)) * 1024


def tried(name, expected, read):
    start = time.process_time()
    try:
        read()
        kind, text = None, ""
    except Exception as error:
        kind, text = type(error).__name__, str(error)
    return {"name": name, "expected": expected, "kind": kind, "text": text, "seconds": time.process_time() - start}


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    before = memory("VmRSS")
    resource.setrlimit(resource.RLIMIT_DATA, (memory("VmData") + ALLOWED,) * 2)
    found = []
    for cases in (
        *(idx_files, array_files, archives, image_files, promising_images, encoder_files),
        *(classifier_files, json_files, text_files, commands),
    ):
        folder = Path(cases.__name__)
        folder.mkdir()
        found += [tried(*case) | {"peak": memory("VmHWM") - before} for case in cases(folder)]
    print(json.dumps(found))
