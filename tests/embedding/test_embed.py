"""Images to shards of features: the same bytes however often they are stopped and however many processes write."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.training.runs import command, finished, started

from orthoframe.data import Normaliser, Preparation
from orthoframe.embedding import FeatureExtractor, ImageList, LaunchedProcess, embed, list_images, read_embedding
from orthoframe.errors import DataError

CLASSES = {"green": 20, "red": 9, "yellow": 4}
COMMAND = [sys.executable, "-c", "import sys; from orthoframe.cli import main; sys.exit(main())"]
EMBED = ["embed", "folder:photos", "--backbone", "slow_network:Network", "--batch-size", "2"]
SLOW = """
import time
from torch import nn

class Network(nn.Module):
    image_size = 8

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(192, 4)

    def forward(self, images):
        time.sleep(SECONDS)
        return self.linear(images.flatten(1))
"""


@pytest.fixture
def photos(tmp_path):
    """A folder for each class, of images of several sizes."""
    rng = np.random.default_rng(0)
    for name, number in CLASSES.items():
        (tmp_path / "photos" / name).mkdir(parents=True)
        for place in range(number):
            pixels = rng.integers(0, 255, (8 + place % 3, 10, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{place:02d}.png")
    return tmp_path / "photos"


def small(seed=0, name="small", mean=0.5):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 5), torch.nn.BatchNorm1d(5))
    return extractor(network, name, 5, mean, 0.25)


def extractor(network, name="", dim=3, mean=0.0, std=1.0):
    return FeatureExtractor(
        name=name, network=network, image_shape=(3, 8, 8), dim=dim, mean=(mean,) * 3, std=(std,) * 3
    )


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_features_are_those_of_the_network(photos, tmp_path):
    images, made = list_images([f"folder:{photos}"]), small()
    result = embed(images, made, tmp_path / "out", batch_size=4, shard_size=10)
    assert (result.rows, result.dim, result.shards, result.written, result.missing) == (33, 5, 4, 4, 0)
    assert result.failed == ()
    embedding = read_embedding(tmp_path / "out")
    assert embedding.classes == tuple(CLASSES)
    assert np.bincount(embedding.labels).tolist() == list(CLASSES.values())
    assert embedding.paths[0] == "green/00.png"
    assert embedding.splits is None
    pixels = torch.stack([Preparation((3, 8, 8), "crop")(photos / path) for path in embedding.paths])
    with torch.no_grad():
        expected = made.network(Normaliser(made.mean, made.std)(pixels))
    assert np.allclose(embedding.features, expected.numpy(), atol=1e-6)


def test_many_images_are_decoded_by_workers(photos, tmp_path):
    images = list_images([f"folder:{photos}"])
    times = 20
    names = tuple(f"{turn}/{name}" for turn in range(times) for name in images.names)
    many = ImageList(source="many", paths=images.paths * times, names=names)
    for workers in (0, 2):
        embed(many, small(), tmp_path / str(workers), shard_size=300, workers=workers)
    assert contents(tmp_path / "0") == contents(tmp_path / "2")
    embedding = read_embedding(tmp_path / "2")
    assert len(embedding.features) == 660
    assert embedding.labels is None


def test_any_number_of_processes_write_the_same(photos, tmp_path):
    images = list_images([f"folder:{photos}"])
    embed(images, small(), tmp_path / "one", shard_size=10)
    for place, missing in ((1, 3), (0, 1), (2, 0)):
        result = embed(images, small(), tmp_path / "three", shard_size=10, process=LaunchedProcess(place, 3))
        assert result.missing == missing
    assert contents(tmp_path / "three") == contents(tmp_path / "one")


def test_what_is_there_stays(photos, tmp_path):
    images, out = list_images([f"folder:{photos}"]), tmp_path / "out"
    embed(images, small(), out, shard_size=10)
    before = contents(out)
    (out / "features-00002.npz").unlink()
    (out / ".orthoframe.half").write_bytes(b"PK")
    times = {path: path.stat().st_mtime_ns for path in out.glob("*.npz")}
    assert embed(images, small(), out, shard_size=10).written == 1
    assert contents(out) == before
    assert {path: path.stat().st_mtime_ns for path in times} == times


def test_others_are_refused_by_name(photos, tmp_path):
    images, out = list_images([f"folder:{photos}"]), tmp_path / "out"
    embed(images, small(), out)
    before = contents(out)
    embed(images, small(name="the same under another name"), out)
    refused = [
        (r"has features of small, and other is another backbone; choose another out", images, small(1, "other"), {}),
        (r"has features of small, and it has changed since", images, small(1), {}),
        (r"has features of small, and it has changed since", images, small(mean=0.4), {}),
        (r"of the images folder:.*photos, and .*photos has other ones", list_images([str(photos)]), small(), {}),
        (r"it was made with fit='crop', not fit='pad'", images, small(), {"fit": "pad"}),
        (r"it was made with shard_size=4096, not shard_size=9", images, small(), {"shard_size": 9}),
    ]
    for sentence, others, network, options in refused:
        with pytest.raises(DataError, match=sentence):
            embed(others, network, out, **options)
    Image.new("RGB", (30, 30)).save(photos / "red" / "00.png")
    with pytest.raises(DataError, match="and these have changed since"):
        embed(list_images([f"folder:{photos}"]), small(), out)
    assert contents(out) == before
    (out / "manifest.json").unlink()
    with pytest.raises(DataError, match=r"it has features and no manifest.json"):
        embed(images, small(), out)


def test_networks_without_weights_are_told_apart():
    def digest(network):
        return extractor(network).digest()

    assert digest(torch.nn.Flatten()) != digest(torch.nn.Flatten(2))
    assert digest(torch.nn.Flatten()) == digest(torch.nn.Flatten())


def test_bad_images_are_left_out_and_named(photos, tmp_path):
    (photos / "green" / "03.png").write_bytes(b"no image")
    for path in (photos / "yellow").iterdir():
        path.write_bytes(path.read_bytes()[:60])
    images, out = list_images([f"folder:{photos}"]), tmp_path / "out"
    for written in (9, 0):  # told again when nothing is left to do
        result = embed(images, small(), out, batch_size=2, shard_size=4)
        assert result.written == written
        assert len(result.failed) == 5
        assert result.failed[0].startswith(f"{photos / 'green' / '03.png'}: the image is broken")
    embedding = read_embedding(out)
    assert embedding.features.shape == (28, 5)
    assert "green/03.png" not in embedding.paths
    assert np.bincount(embedding.labels).tolist() == [19, 9]


def test_labels_and_splits_of_a_table(photos, tmp_path):
    from orthoframe.data import Columns

    rows = ["file,kind,part", "photos/red/00.png,warm,train", "photos/green/01.png,cold,train"]
    rows += ["photos/red/02.png,warm,test", f"{photos}/green/00.png,cold,dev"]
    (tmp_path / "table.csv").write_text("\n".join(rows) + "\n")
    embed(list_images([f"csv:{tmp_path / 'table.csv'}"], Columns("file", "kind", "part")), small(), tmp_path / "out")
    embedding = read_embedding(tmp_path / "out")
    assert embedding.classes == ("cold", "warm")
    assert embedding.labels.tolist() == [1, 0, 1, 0]
    assert embedding.splits.tolist() == ["train", "train", "test", "validation"]
    assert embedding.paths.tolist()[0] == "photos/red/00.png"


def test_splits_of_folders(photos, tmp_path):
    for part in ("train", "test"):
        shutil.copytree(photos, tmp_path / "divided" / part)
    images = list_images([f"folder:{tmp_path / 'divided'}"])
    assert images.splits.tolist() == ["train"] * 33 + ["test"] * 33
    assert images.names[33] == "test/green/00.png"


def test_images_without_labels(photos, tmp_path):
    images = list_images([str(photos)])
    assert len(images) == 33
    assert images.labels is None
    assert images.names[0] == "green/00.png"
    files = [str(photos / "red" / "01.png"), str(photos / "green")]
    assert list_images(files).names[0] == files[0]
    assert len(list_images(files)) == 21


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "which images"),
        (["nowhere"], "nowhere: no such file or folder"),
        (["folder:nowhere"], "nowhere: no such folder"),
        (["folder:a", "b"], "folder:a must be given alone, without b"),
        (["."], "there are no images in this folder"),
    ],
)
def test_images_that_are_not_there(arguments, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=sentence):
        list_images(arguments)


def test_folders_that_are_not_whole(photos, tmp_path):
    images, out = list_images([f"folder:{photos}"]), tmp_path / "out"
    embed(images, small(), out, shard_size=10)
    whole = (out / "features-00001.npz").read_bytes()
    (out / "features-00001.npz").unlink()
    with pytest.raises(DataError, match="1 of 4 shards are missing; run embed again to go on"):
        read_embedding(out)
    (out / "features-00001.npz").write_bytes(whole[:200])
    with pytest.raises(DataError, match=r"features-00001.npz: not a shard that embed wrote"):
        read_embedding(out)
    np.savez(out / "features-00001.npz", features=np.zeros((2, 9), np.float32), paths=["a", "b"], labels=[0, 1])
    with pytest.raises(DataError, match="not a shard of this folder"):
        read_embedding(out)
    (out / "manifest.json").write_text("{}")
    with pytest.raises(DataError, match=r"manifest.json: not what embed wrote"):
        read_embedding(out)
    with pytest.raises(DataError, match=r"manifest.json: No such file"):
        read_embedding(tmp_path)


def embedding(folder, out):
    """The command in a folder, in a process of its own."""
    os.chdir(folder)
    command([*EMBED, "--shard-size", "4", "--out", out], f"{out}.log")


def test_a_killed_command_goes_on(photos, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("slow_network.py").write_text(SLOW.replace("SECONDS", "0.2"))
    with started(embedding, tmp_path, "out") as process:
        deadline = time.monotonic() + 60
        while not Path("out/features-00001.npz").exists():
            assert process.is_alive()
            assert time.monotonic() < deadline
            time.sleep(0.02)
    there = sorted(Path("out").glob("features-*.npz"))
    assert 2 <= len(there) < 9
    assert finished(embedding, tmp_path, "out") == 0
    assert f"{9 - len(there)} of 9 shards written now" in Path("out.log").read_text()
    assert finished(embedding, tmp_path, "whole") == 0
    assert contents(Path("out")) == contents(Path("whole"))


def test_torchrun_and_a_broken_image(photos, tmp_path, monkeypatch):
    """The process that ends first must not fail, or torchrun would end the other."""
    monkeypatch.chdir(tmp_path)
    Path("slow_network.py").write_text(SLOW.replace("SECONDS", "0.2"))
    (photos / "green" / "00.png").write_bytes(b"no image")
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]
    source = os.pathsep.join([str(Path(__file__).parents[2] / "src"), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [*launcher, *COMMAND, *EMBED, "--shard-size", "12", "--out", "out"],
        env={**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    output, complaints = process.communicate(timeout=120)
    assert process.returncode == 1, complaints
    assert "left out: photos/green/00.png: the image is broken" in complaints
    assert "process 0 of 2: 2 of 3 shards written now" in output
    assert len(read_embedding(Path("out")).features) == 32


def replaced(path):
    """Another image in a file of the same size; it takes as long as the clock of the file system needs to tell."""
    size, before = path.stat().st_size, path.stat().st_mtime_ns
    while path.stat().st_mtime_ns == before:
        path.write_bytes(path.read_bytes()[:54] + bytes(size - 54))
    assert path.stat().st_size == size


@pytest.fixture
def bitmaps(tmp_path):
    """Twelve images without compression."""
    (tmp_path / "bitmaps").mkdir()
    pixels = np.random.default_rng(0).integers(0, 255, (12, 8, 8, 3), dtype=np.uint8)
    for place, image in enumerate(pixels):
        Image.fromarray(image).save(tmp_path / "bitmaps" / f"{place:02d}.bmp")
    return tmp_path / "bitmaps"


def test_images_that_are_replaced_in_between_are_noticed(bitmaps, tmp_path):
    """Features of the old and of the new ones are never in one folder, also if the sizes of the files are the same."""
    out = tmp_path / "out"
    embed(list_images([str(bitmaps)]), small(), out, shard_size=3, process=LaunchedProcess(0, 2))
    for path in bitmaps.iterdir():
        replaced(path)
    before = contents(out)
    with pytest.raises(DataError, match="and these have changed since; choose another out"):
        embed(list_images([str(bitmaps)]), small(), out, shard_size=3)
    assert contents(out) == before


def test_an_image_that_is_replaced_meanwhile_is_left_out(bitmaps, tmp_path):
    images, out = list_images([str(bitmaps)]), tmp_path / "out"
    names = iter([bitmaps / "11.bmp"])
    result = embed(
        images, small(), out, batch_size=3, workers=0, progress=lambda *_: [replaced(path) for path in names]
    )
    assert result.failed == (f"{bitmaps / '11.bmp'}: it has changed since it was listed; start again",)
    assert "11.bmp" not in read_embedding(out).paths


def test_a_second_one_at_once_ends_with_a_sentence(bitmaps, tmp_path):
    """And the first is not disturbed."""
    images, out, turns = list_images([str(bitmaps)]), tmp_path / "out", iter([1])

    def again(*_):
        for _ in turns:
            with pytest.raises(DataError, match="out: another process is writing to it; wait, or choose another out"):
                embed(images, small(), out, batch_size=3)

    assert embed(images, small(), out, batch_size=3, progress=again).written == 1
    assert next(turns, None) is None
    assert sorted(contents(out)) == ["features-00000.npz", "manifest.json"]
