"""Data by name: embedded, found, fetched, or a sentence that says what to put where."""

import gzip
import hashlib
import io
import os
import re
import tarfile
from dataclasses import replace
from threading import Thread

import numpy as np
import pytest
import torch
from tests.data.reference_data import cifar_bytes, idx_bytes, write_idx

from orthoframe.data import (
    READERS,
    Columns,
    DataParts,
    LabelledImages,
    Normaliser,
    data_folder,
    list_files,
    load_data,
)
from orthoframe.data._sources import SOURCES
from orthoframe.errors import DataError, Option, OptionError
from orthoframe.options import DATA_KINDS, DataKind, data_kind

RANDOM = np.random.default_rng(0)
COLOUR = RANDOM.integers(0, 256, (12, 3, 32, 32), dtype=np.uint8)
GREY = RANDOM.integers(0, 256, (10, 28, 28), dtype=np.uint8)
DIGITS = np.arange(10, dtype=np.uint8)
IDX = dict(zip(SOURCES["mnist"].files, (GREY, DIGITS, GREY[:4], DIGITS[:4]), strict=True))

MD5 = {  # of the four files, unpacked
    "mnist": [
        "6bbc9ace898e44ae57da46a324031adb",
        "a25bea736e30d166cdddb491f175f624",
        "2646ac647ad5339dbf082846283269ea",
        "27ae3e4e09519cfbb04c329615203637",
    ],
    "fashion-mnist": [
        "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        "9018921c3c673c538a1fc5bad174d6f9",
        "8181f5470baa50b63fa0f6fddb340f0a",
        "15d484375f8d13e6eb1aabb0c3f46965",
    ],
}


def archive(*members):
    """A .tar.gz of names with contents, or whole members."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in members:
            member = tarfile.TarInfo(name) if isinstance(name, str) else name
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def cifar10_members():
    source = SOURCES["cifar10"]
    return [
        (f"{source.folder}/{file}", cifar_bytes(COLOUR[2 * i : 2 * i + 2], [i, 9 - i]))
        for i, file in enumerate(source.files)
    ]


@pytest.fixture
def serve(server, monkeypatch):
    """Make a data set come from the server on this machine, with the hashes of what that hands out."""

    def change(name, contents):
        server.files = {f"/{file}": content for file, content in contents.items()}
        hashes = {file: hashlib.sha256(content).hexdigest() for file, content in contents.items()}
        monkeypatch.setitem(SOURCES, name, replace(SOURCES[name], url=server.url, hashes=hashes))
        return server

    return change


def tree(folder):
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"
    )


@pytest.mark.parametrize("installed", [True, False], ids=["file", "import"])
def test_digits_are_those_of_scikit_learn(installed, monkeypatch):
    """Whether its file is where it is today, or not."""
    from sklearn.datasets import load_digits

    if not installed:
        monkeypatch.setattr("orthoframe.data._readers.find_spec", lambda _: None)
    data, expected = load_data("digits"), load_digits()
    pixels = torch.cat([data.train.pixels, data.test.pixels]).flatten(1)
    labels = torch.cat([data.train.labels, data.test.labels])
    ours = sorted(zip(labels.tolist(), (pixels * (16 / 255)).round().int().tolist(), strict=True))
    assert ours == sorted(zip(expected.target.tolist(), expected.data.astype(int).tolist(), strict=True))


def test_digits_are_embedded_and_split_by_seed():
    data = load_data("digits", seed=0)
    assert data.train.pixels.max() == 255
    assert data.train.pixels.min() == 0
    counts, tests = (torch.bincount(part.labels) for part in (data.train, data.test))
    assert counts.min() >= 130
    assert ((tests / (counts + tests) - 0.25).abs() < 0.003).all()
    assert torch.equal(load_data("digits", seed=0).test.pixels, data.test.pixels)
    other = load_data("digits", seed=1)
    assert not torch.equal(other.test.pixels, data.test.pixels)
    # Together they are the same images, whatever the seed.
    for part in ("pixels", "labels"):
        sums = [torch.cat([getattr(d.train, part), getattr(d.test, part)]).long().sum() for d in (data, other)]
        assert sums[0] == sums[1]


@pytest.mark.parametrize("real_data", ["mnist", "fashion-mnist"], indirect=True)
def test_real_files(real_data):
    name, folder = real_data
    data = load_data(name, folder, download=False)
    assert data.train.pixels.shape == (60_000, 1, 28, 28)
    assert data.test.pixels.shape == (10_000, 1, 28, 28)
    parts = (data.train.pixels[:, 0], data.train.labels, data.test.pixels[:, 0], data.test.labels)
    written = [idx_bytes(part.numpy().astype(np.uint8)) for part in parts]
    assert [hashlib.md5(content).hexdigest() for content in written] == MD5[name]  # the same bytes, packed again
    mean, std = {"mnist": (0.1307, 0.3081), "fashion-mnist": (0.2860, 0.3530)}[name]
    normaliser = Normaliser.of(data.train)
    assert normaliser.mean == pytest.approx((mean,), abs=5e-5)
    assert normaliser.std == pytest.approx((std,), abs=5e-5)


@pytest.mark.parametrize("real_data", ["cifar-10-batches-bin"], indirect=True)
def test_real_files_of_cifar10(real_data):
    data = load_data("cifar10", real_data[1], download=False)
    assert data.test.pixels.shape == (10_000, 3, 32, 32)
    assert torch.bincount(data.train.labels).tolist() == [5000] * 10
    normaliser = Normaliser.of(data.train)
    assert normaliser.mean == pytest.approx((0.4914, 0.4822, 0.4465), abs=5e-5)
    assert normaliser.std == pytest.approx((0.2470, 0.2435, 0.2616), abs=5e-5)


def test_missing_files_are_downloaded_and_found_again(serve, tmp_path):
    server = serve("mnist", {file: gzip.compress(idx_bytes(array)) for file, array in IDX.items()})
    write_idx(tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz", DIGITS[:4])
    seen = []
    data = load_data("mnist", tmp_path, progress=lambda *report: seen.append(report))
    assert np.array_equal(data.train.pixels[:, 0].numpy(), GREY)
    assert data.test.labels.tolist() == [0, 1, 2, 3]
    assert [path for path, _ in server.asked] == [f"/{file}" for file in SOURCES["mnist"].files[:3]]
    assert {name for name, _, _ in seen} == set(SOURCES["mnist"].files[:3])
    assert tree(tmp_path) == sorted(f"mnist/{file}" for file in SOURCES["mnist"].files)
    load_data("mnist", tmp_path)
    assert len(server.asked) == 3


def test_an_archive_is_downloaded_and_only_what_is_expected_is_unpacked(serve, tmp_path):
    link = tarfile.TarInfo("cifar-10-batches-bin/batches.meta.txt")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    members = [("../evil", b"x"), ("/tmp/evil", b"x"), (link, b""), *cifar10_members(), ("cifar-10-batches-bin/a", b"")]
    serve("cifar10", {"cifar-10-binary.tar.gz": archive(*members)})
    folder = tmp_path / "data"
    data = load_data("cifar10", folder)
    assert np.array_equal(data.train.pixels.numpy(), COLOUR[:10])
    assert np.array_equal(data.test.pixels.numpy(), COLOUR[10:])
    assert data.test.labels.tolist() == [5, 4]
    assert data.train.classes[0] == "airplane"
    assert tree(tmp_path) == sorted(f"data/cifar-10-batches-bin/{file}" for file in SOURCES["cifar10"].files)


def test_cifar100_has_its_fine_labels(serve, tmp_path):
    members = [
        ("cifar-100-binary/train.bin", cifar_bytes(COLOUR[:2], [19, 0], [99, 0])),
        ("cifar-100-binary/test.bin", cifar_bytes(COLOUR[2:3], [5], [50])),
    ]
    serve("cifar100", {"cifar-100-binary.tar.gz": archive(*members)})
    data = load_data("cifar100", tmp_path)
    assert len(data.train.classes) == len(set(data.train.classes)) == 100
    assert [data.train.classes[i] for i in data.train.labels] == ["worm", "apple"]
    assert [data.test.classes[i] for i in data.test.labels] == ["mouse"]


def test_an_archive_that_the_user_put_there_needs_no_download(serve, tmp_path):
    content = archive(*cifar10_members())
    server = serve("cifar10", {"cifar-10-binary.tar.gz": content})
    path = tmp_path / "cifar-10-binary.tar.gz"
    path.write_bytes(content[:-1])
    with pytest.raises(DataError, match=r"cifar-10-binary\.tar\.gz: it has the SHA-256 .* was expected; delete it"):
        load_data("cifar10", tmp_path, download=False)
    path.write_bytes(content)
    assert len(load_data("cifar10", tmp_path, download=False).train) == 10
    assert server.asked == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (archive(*cifar10_members()[1:]), "it lacks cifar-10-batches-bin/data_batch_1.bin; delete it"),
        (archive(*cifar10_members())[:-2000], "not a whole .tar.gz file"),
        (b"not an archive", "not a whole .tar.gz file"),
    ],
)
def test_a_malformed_archive_is_refused_by_name(serve, tmp_path, content, message):
    serve("cifar10", {"cifar-10-binary.tar.gz": content})
    with pytest.raises(DataError, match=r"cifar-10-binary\.tar\.gz: " + re.escape(message)):
        load_data("cifar10", tmp_path)
    assert all(path.endswith((".bin", ".tar.gz")) for path in tree(tmp_path))


def test_a_link_instead_of_a_file_is_not_followed(serve, tmp_path):
    link = tarfile.TarInfo("cifar-10-batches-bin/data_batch_1.bin")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    serve("cifar10", {"cifar-10-binary.tar.gz": archive((link, b""), *cifar10_members()[1:])})
    with pytest.raises(DataError, match=r"it lacks cifar-10-batches-bin/data_batch_1\.bin"):
        load_data("cifar10", tmp_path)


def test_two_at_once_download_once(serve, tmp_path):
    server = serve("mnist", {file: gzip.compress(idx_bytes(array)) for file, array in IDX.items()})
    downloads = []
    threads = [Thread(target=lambda: downloads.append(load_data("mnist", tmp_path))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(data.train) for data in downloads] == [10] * 3
    assert len(server.asked) == 4


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mnist", "put t10k-images-idx3-ubyte.gz, t10k-labels-idx1-ubyte.gz into {folder}/mnist (from https://ossci"),
        ("cifar100", "put train.bin, test.bin into {folder}/cifar-100-binary, or https://www.cs.toronto.edu/~kriz/"),
    ],
)
def test_without_download_a_sentence_says_what_to_put_where(tmp_path, name, message):
    for file in SOURCES["mnist"].files[:2]:
        write_idx(tmp_path / "mnist" / file, IDX[file])
    before = tree(tmp_path)
    with pytest.raises(DataError, match=re.escape(message.format(folder=tmp_path))) as caught:
        load_data(name, tmp_path, download=False)
    assert str(caught.value).startswith(
        f"{name} is not complete under {tmp_path} and was not downloaded: download=False;"
    )
    assert "\n" not in str(caught.value)
    assert tree(tmp_path) == before


def test_without_a_network_too(serve, tmp_path):
    server = serve("fashion-mnist", dict.fromkeys(SOURCES["fashion-mnist"].files, b""))
    server.files.clear()
    with pytest.raises(DataError, match=r"answered 404 Not Found for .*; put train-images-idx3-ubyte\.gz, .* into"):
        load_data("fashion-mnist", tmp_path)
    assert len(server.asked) == 1
    with pytest.raises(DataError, match="answered 404"):
        load_data("fashion-mnist", tmp_path / "not" / "there")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="every folder can be written to")
def test_a_folder_that_cannot_be_written_to(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(DataError, match=r"was not downloaded: .*Permission denied"):
        load_data("mnist", tmp_path)


def test_a_file_where_the_folder_should_be(tmp_path):
    (tmp_path / "mnist").write_text("")
    with pytest.raises(DataError, match=r"was not downloaded: .*File exists"):
        load_data("mnist", tmp_path)


def test_where_files_are_looked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("ORTHOFRAME_DATA", str(tmp_path / "set"))
    assert data_folder() == tmp_path / "set"
    assert data_folder(tmp_path) == tmp_path
    monkeypatch.delenv("ORTHOFRAME_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_folder().name == "orthoframe"
    assert data_folder("~/data") == data_folder("~").expanduser() / "data"


@pytest.mark.parametrize("name", ["cifar", "", "folder:", "npz:", "MNIST", "zip:x"])
def test_an_unknown_name(name):
    with pytest.raises(DataError, match=r"choose one of digits, mnist, .*cifar100, folder:PATH, csv:FILE or npz:FILE"):
        load_data(name)
    with pytest.raises(ValueError, match="seed must be at least 0, not -1"):
        load_data("digits", seed=-1)


@pytest.mark.parametrize(
    ("name", "options", "kinds"),
    [
        ("folder:x", {"columns": Columns(label="kind")}, "csv:FILE"),
        ("npz:x", {"channels": 1}, "folder:PATH and csv:FILE"),
        ("mnist", {"fit": "crop"}, "folder:PATH and csv:FILE"),
        ("cifar10", {"size": (8, 8)}, "folder:PATH and csv:FILE"),
        ("digits", {"memory": 1}, "folder:PATH and csv:FILE"),
        ("npz:x", {"workers": 1}, "folder:PATH and csv:FILE"),
        ("digits", {"folder": "data"}, "mnist, fashion-mnist, cifar10 and cifar100"),
    ],
)
def test_an_argument_without_effect_is_refused(name, options, kinds):
    with pytest.raises(OptionError) as refused:
        load_data(name, **options)
    assert refused.value.args == (Option(*options), f" is for {kinds}, not for ", Option("data", name))


def test_a_kind_of_data_takes_the_arguments_of_its_entry(monkeypatch):
    def read(request):
        pixels = torch.full((10, 1, *request.size), len(str(request.path)), dtype=torch.uint8)
        return DataParts(parts={"train": LabelledImages(pixels, torch.arange(10) % 2, ("a", "b"))}, test_fraction=0.4)

    monkeypatch.setitem(READERS, "toy", read)
    monkeypatch.setitem(DATA_KINDS, "toy", DataKind(path="PATH", is_own=True, takes=("size",)))
    data = load_data("toy:four", size=(2, 3))
    assert (len(data.train), len(data.test), data.train.image_shape) == (6, 4, (1, 2, 3))
    assert data.train.pixels.unique().tolist() == [4]
    assert data_kind("toy:four") is DATA_KINDS["toy"]
    with pytest.raises(OptionError):
        load_data("toy:four", channels=3)
    with pytest.raises(DataError, match="its images are not in files of their own"):
        list_files("digits")
