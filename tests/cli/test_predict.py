"""`orthoframe predict` as a user runs it."""

import csv
import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from orthoframe import explain
from orthoframe.cli import main
from orthoframe.data import load_data
from orthoframe.training import load_encoder


@pytest.fixture
def images(tmp_path, monkeypatch):
    """Twenty test images as files, with their pixels."""
    monkeypatch.chdir(tmp_path)
    pixels = load_data("digits").test.pixels[:20]
    names = [f"digit {number}.png" for number in range(20)]
    for name, image in zip(names, pixels, strict=True):
        Image.fromarray(image[0].numpy()).save(name)
    return names, pixels


def predicted(capsys, *words):
    assert main(["predict", *map(str, words)]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    return said.out


def test_csv(finished_run, images, capsys):
    names, pixels = images
    header, *rows = csv.reader(io.StringIO(predicted(capsys, finished_run, *names)))
    assert header == ["image", "class", *"0123456789"]
    trained = load_encoder(finished_run)
    cosines, winners = trained.classify(trained.features(pixels))
    assert [row[0] for row in rows] == names
    assert [row[1] for row in rows] == [str(int(winner)) for winner in winners]
    scores = torch.tensor([[float(value) for value in row[2:]] for row in rows], dtype=torch.float64)
    assert torch.allclose(scores, cosines, rtol=0, atol=1e-6)  # six digits, and float32 in batches of another size
    assert scores.min() >= 0
    assert scores.max() <= 1 + 1e-6


def test_json(finished_run, images, capsys):
    names, _ = images
    table = list(csv.reader(io.StringIO(predicted(capsys, finished_run, *names))))[1:]
    lines = [json.loads(line) for line in predicted(capsys, finished_run, *names, "--json").splitlines()]
    assert [[line["image"], line["class"]] for line in lines] == [row[:2] for row in table]
    for line, row in zip(lines, table, strict=True):
        assert list(line["scores"]) == list("0123456789")
        assert [str(score) for score in line["scores"].values()] == row[2:]


def test_explained(finished_run, images, capsys):
    names, pixels = images
    plain = list(csv.reader(io.StringIO(predicted(capsys, finished_run, *names))))
    rows = list(csv.reader(io.StringIO(predicted(capsys, finished_run, *names, "--explain"))))
    assert [row[:12] for row in rows] == plain
    blocks = ["block 1", "share 1", "block 2", "share 2", "block 3", "share 3"]
    assert rows[0][12:] == ["outside", *blocks, "unowned"]
    lines = [json.loads(line) for line in predicted(capsys, finished_run, *names, "--explain", "--json").splitlines()]
    trained = load_encoder(finished_run)
    found = explain(trained.features(pixels), trained.centres)
    for line, row, shares, outside in zip(lines, rows[1:], found.shares, found.outside, strict=True):
        assert line["outside"] == pytest.approx(float(outside), abs=1e-6)
        assert line["outside"] == pytest.approx(1 - line["blocks"][line["class"]], abs=1e-6)
        assert sum(line["blocks"].values()) + line["unowned"] == pytest.approx(1, abs=1e-5)
        assert sorted(line["blocks"].values(), reverse=True) == list(line["blocks"].values())
        assert [line["blocks"][name] for name in trained.classes] == pytest.approx(shares.tolist(), abs=1e-6)
        largest = [str(cell) for block in list(line["blocks"].items())[:3] for cell in block]
        assert row[12:] == [str(line["outside"]), *largest, str(line["unowned"])]


def test_the_file_alone_is_enough(finished_run, images, capsys, tmp_path):
    """Elsewhere, without its folder."""
    names, _ = images
    shutil.copy(finished_run / "encoder.safetensors", "handed-out.safetensors")
    assert predicted(capsys, "handed-out.safetensors", *names) == predicted(capsys, finished_run, *names)


def test_more_images_than_are_read_together(finished_run, images, capsys):
    names, _ = images
    many = names * 26
    rows = list(csv.reader(io.StringIO(predicted(capsys, finished_run, *many))))
    assert len(rows) == 1 + len(many)
    assert [row[1] for row in rows[1:]] == [row[1] for row in rows[1:21]] * 26


def test_other_modes_of_the_same_image(finished_run, images, capsys):
    names, _ = images
    with Image.open(names[0]) as image:
        for mode in ("RGB", "RGBA", "P", "LA"):
            image.convert(mode).save(f"{mode}.png")
    rows = list(csv.reader(io.StringIO(predicted(capsys, finished_run, names[0], "RGB.png", "RGBA.png", "LA.png"))))
    assert len({tuple(row[1:]) for row in rows[1:]}) == 1
    predicted(capsys, finished_run, "P.png")


@pytest.mark.parametrize(
    ("image", "sentence"),
    [
        ("large.png", "large.png: 16 x 9 pixels, and 8 x 8 are expected; resize it"),
        ("text.png", "text.png: the image is broken"),
        ("torn.png", "torn.png: the image is broken"),
        ("deep.png", "deep.png: more than 8 bits per channel"),
        ("missing.png", "missing.png: No such file or directory"),
        (".", ".: Is a directory"),
    ],
)
def test_images_that_cannot_be(image, sentence, finished_run, images, capsys):
    names, _ = images
    Image.new("L", (16, 9)).save("large.png")
    Path("text.png").write_text("no image")
    Path("torn.png").write_bytes(Path(names[0]).read_bytes()[:60])
    Image.fromarray(np.zeros((8, 8), np.uint16)).save("deep.png")
    assert main(["predict", str(finished_run), names[0], image]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"orthoframe: {sentence}")
    assert said.err.count("\n") == 1


def test_encoders_that_cannot_be(finished_run, images, capsys):
    names, _ = images
    whole = (finished_run / "encoder.safetensors").read_bytes()
    Path("torn.safetensors").write_bytes(whole[:-50])
    Path("text.safetensors").write_text("no encoder")
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(1)}, "other.safetensors")
    save_file({"a": torch.zeros(1)}, "odd.safetensors", metadata={"orthoframe": '{"model": "mlp"}'})
    save_file({"a": torch.zeros(1)}, "list.safetensors", metadata={"orthoframe": "[1]"})
    Path("empty").mkdir()
    for run in (
        "torn.safetensors",
        "text.safetensors",
        "other.safetensors",
        "odd.safetensors",
        "list.safetensors",
        "empty",
        "missing",
    ):
        assert main(["predict", run, names[0]]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith(f"orthoframe: {run}")
        assert ": not an encoder that orthoframe trained (" in said.err
        assert said.err.count("\n") == 1


def test_without_images(finished_run, capsys):
    try:
        status = main(["predict", str(finished_run)])
    except SystemExit as ended:
        status = ended.code
    assert status == 2
    assert capsys.readouterr().out == ""


def test_most_test_images_of_a_trained_run_are_right(finished_run, images, capsys):
    """Four short epochs: better than one in ten."""
    labels = load_data("digits").test.labels[:20]
    names, _ = images
    rows = list(csv.reader(io.StringIO(predicted(capsys, finished_run, *names))))[1:]
    assert np.mean([row[1] == str(int(label)) for row, label in zip(rows, labels, strict=True)]) > 0.15
