"""`orthoframe predict` as a user runs it."""

import csv
import gc
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.training.runs import interrupt, small

from orthoframe import explain
from orthoframe.cli import main
from orthoframe.data import load_data
from orthoframe.runs import load_encoder

COLOURS = {"red": (200, 40, 40), "green": (40, 200, 40), "blue": (40, 40, 200)}
WITHOUT = "orthoframe: no confidences: the encoder was trained without validation images, which would calibrate them\n"


@pytest.fixture
def images(tmp_path, monkeypatch):
    """Twenty test images as files, with their pixels."""
    monkeypatch.chdir(tmp_path)
    pixels = load_data("digits").test.pixels[:20]
    names = [f"digit {number}.png" for number in range(20)]
    for name, image in zip(names, pixels, strict=True):
        Image.fromarray(image[0].numpy()).save(name)
    return names, pixels


def scan(path, colour, seed, size=(20, 14)):
    """A noisy image of one colour."""
    noise = np.random.default_rng(seed).integers(-40, 40, (*size, 3))
    Image.fromarray((np.array(COLOURS[colour]) + noise).clip(0, 255).astype(np.uint8)).save(path)


@pytest.fixture(scope="session")
def calibrated_run(tmp_path_factory):
    """A run on a folder of images of several sizes, a part of which is held out for validation."""
    root = tmp_path_factory.mktemp("colours")
    for colour in COLOURS:
        (root / "images" / colour).mkdir(parents=True)
        for number in range(30):
            scan(root / "images" / colour / f"{number}.png", colour, number, (16 + number, 24))
    words = ["--data", f"folder:{root / 'images'}", "--size", "8x8", "--model", "mlp", "--width", "16"]
    words += ["--validation", "0.2", "--epochs", "4", "--batch-size", "16", "--out", str(root / "run")]
    assert main(["train", *words]) == 0
    assert load_encoder(root / "run").calibration is not None
    return root / "run"


def predicted(capsys, *words, err=WITHOUT, status=0):
    assert main(["predict", *map(str, words)]) == status
    said = capsys.readouterr()
    assert said.err == err
    return said.out


def table(text):
    return list(csv.reader(io.StringIO(text)))


def test_csv(finished_run, images, capsys):
    names, pixels = images
    assert table(predicted(capsys, finished_run, *names))[0] == ["image", "class"]
    header, *rows = table(predicted(capsys, finished_run, *names, "--scores"))
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
    rows = table(predicted(capsys, finished_run, *names, "--scores"))[1:]
    lines = [json.loads(line) for line in predicted(capsys, finished_run, *names, "--json", "--scores").splitlines()]
    assert [[line["image"], line["class"]] for line in lines] == [row[:2] for row in rows]
    plain = [json.loads(line) for line in predicted(capsys, finished_run, *names, "--json").splitlines()]
    assert [{**line, "scores": full["scores"]} for line, full in zip(plain, lines, strict=True)] == lines
    for line, row in zip(lines, rows, strict=True):
        best = sorted(line["scores"].items(), key=lambda pair: -pair[1])[:5]
        assert [entry["score"] for entry in line["top"]] == [score for _, score in best]
        assert line["top"][0]["class"] == line["class"]
        assert list(line["scores"]) == list("0123456789")
        assert [str(score) for score in line["scores"].values()] == row[2:]
        assert "confidence" not in line


@pytest.mark.parametrize("run", ["finished_run", "calibrated_run"])  # by centres, and by a linear classifier
def test_mirror_images(run, request, capsys, tmp_path):
    folder = request.getfixturevalue(run)
    trained = load_encoder(str(folder))
    shape = trained.image_shape
    pixels = torch.randint(0, 256, (5, *shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    plain, mirrored = trained.features(pixels), trained.features(pixels.flip(-1))
    both = trained.features(pixels, mirror=True)
    expected = (plain + mirrored) / 2
    if trained.classifier is None:
        expected = expected / expected.norm(dim=1, keepdim=True)
    torch.testing.assert_close(both, expected)
    torch.testing.assert_close(both, trained.features(pixels.flip(-1), mirror=True))
    assert not torch.allclose(both, plain, atol=1e-3)
    # Of a single channel or three, as PIL takes them.
    for number, image in enumerate(pixels):
        array = image[0].numpy() if len(image) == 1 else image.permute(1, 2, 0).numpy()
        Image.fromarray(array).save(tmp_path / f"{number}.png")
    names = [str(tmp_path / f"{number}.png") for number in range(5)]
    capsys.readouterr()  # what the training said, if it was not there yet
    assert main(["predict", str(folder), *names, "--mirror", "--json", "--scores"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    scores = trained.classify(both)[0].tolist()
    for line, row in zip(lines, scores, strict=True):
        assert list(line["scores"].values()) == pytest.approx(row, abs=1e-5)


def test_explained(finished_run, images, capsys):
    names, pixels = images
    plain = table(predicted(capsys, finished_run, *names))
    rows = table(predicted(capsys, finished_run, *names, "--explain"))
    assert [row[:2] for row in rows] == plain
    blocks = ["block 1", "share 1", "block 2", "share 2", "block 3", "share 3"]
    assert rows[0][2:] == ["outside", *blocks, "unowned"]
    lines = [json.loads(line) for line in predicted(capsys, finished_run, *names, "--explain", "--json").splitlines()]
    trained = load_encoder(finished_run)
    explanation = explain(trained.features(pixels), trained.centres)
    for line, row, shares, outside in zip(lines, rows[1:], explanation.shares, explanation.outside, strict=True):
        assert line["outside"] == pytest.approx(float(outside), abs=1e-6)
        assert line["outside"] == pytest.approx(1 - line["blocks"][line["class"]], abs=1e-6)
        assert sum(line["blocks"].values()) + line["unowned"] == pytest.approx(1, abs=1e-5)
        assert sorted(line["blocks"].values(), reverse=True) == list(line["blocks"].values())
        assert [line["blocks"][name] for name in trained.classes] == pytest.approx(shares.tolist(), abs=1e-6)
        largest = [str(cell) for block in list(line["blocks"].items())[:3] for cell in block]
        assert row[2:] == [str(line["outside"]), *largest, str(line["unowned"])]


def test_a_frame_explains_beside_the_classifier_that_predicts(calibrated_run, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scan("new.png", "red", 100)
    trained = load_encoder(calibrated_run)
    assert trained.classifier is not None  # as the recipe for one's own images has it
    line = json.loads(predicted(capsys, calibrated_run, "new.png", "--explain", "--json", err=""))
    unit = trained.encoder(trained.normaliser(trained.preparation(Path("new.png"))[None]))
    explanation = explain(unit.detach(), trained.centres)
    assert [line["blocks"][name] for name in trained.classes] == pytest.approx(explanation.shares[0].tolist(), abs=1e-6)
    assert line["outside"] == pytest.approx(1 - line["blocks"][line["class"]], abs=1e-6)


def test_confidences_are_those_of_the_calibration(calibrated_run, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number, colour in enumerate(COLOURS):
        scan(f"{colour}.png", colour, 100 + number)
    names = [f"{colour}.png" for colour in COLOURS]
    header, *rows = table(predicted(capsys, calibrated_run, *names, err=""))
    assert header == ["image", "class", "confidence"]
    header = table(predicted(capsys, calibrated_run, *names, "--scores", err=""))[0]
    assert header == ["image", "class", "confidence", "blue", "green", "red"]
    trained = load_encoder(calibrated_run)
    cosines, winners = trained.classify(trained.features(torch.stack([trained.preparation(Path(n)) for n in names])))
    sure = (cosines / trained.calibration.temperature).softmax(1)
    assert [row[1] for row in rows] == [trained.classes[c] for c in winners]
    assert [float(row[2]) for row in rows] == pytest.approx(sure.amax(1).tolist(), abs=1e-6)
    header, *best = table(predicted(capsys, calibrated_run, *names, "--top", "2", err=""))
    assert header == ["image", "class", "confidence", "score 1", "class 2", "confidence 2", "score 2"]
    assert [row[:3] for row in best] == [row[:3] for row in rows]
    assert all(float(row[2]) >= float(row[5]) and row[1] != row[4] for row in best)
    noted = "orthoframe: --top 9 is more than the 3 classes\n"
    for line in predicted(capsys, calibrated_run, *names, "--top", "9", "--json", err=noted).splitlines():
        output = json.loads(line)
        assert sum(entry["confidence"] for entry in output["top"]) == pytest.approx(1, abs=1e-5)
        assert {entry["class"] for entry in output["top"]} == set(COLOURS)
        assert (output["top"][0]["class"], output["top"][0]["confidence"]) == (output["class"], output["confidence"])
        assert "scores" not in output


def test_what_is_unlike_every_class_is_refused(calibrated_run, tmp_path, capsys, monkeypatch):
    """By the threshold of validation images; a refused image has no class, and the column says so."""
    monkeypatch.chdir(tmp_path)
    trained = load_encoder(calibrated_run)
    for number, colour in enumerate(COLOURS):
        scan(f"{colour}.png", colour, 100 + number)
    Image.fromarray((np.indices((16, 16)).sum(0) % 2 * 255).astype(np.uint8)).save("chess.png")
    names = [*(f"{colour}.png" for colour in COLOURS), "chess.png"]
    rows = trained.rows_before_head(torch.stack([trained.preparation(Path(name)) for name in names]))
    n = len(trained.familiarity.held_out)
    for error in (0.3, 0.9):
        threshold = trained.familiarity.held_out.sort().values[int(error * (n + 1)) - 1]
        refused = (trained.familiarity.of(rows) < threshold).tolist()
        header, *printed = table(predicted(capsys, calibrated_run, *names, "--reject", error, err=""))
        assert header == ["image", "class", "confidence", "unknown"]
        plain = table(predicted(capsys, calibrated_run, *names, err=""))[1:]
        for row, whole, unknown in zip(printed, plain, refused, strict=True):
            assert row == ([whole[0], "", "", "yes"] if unknown else [*whole, "no"])
        words = (*names, "--reject", error, "--json", "--top", "2")
        lines = [json.loads(line) for line in predicted(capsys, calibrated_run, *words, err="").splitlines()]
        assert [line["unknown"] for line in lines] == refused
        for line, whole in zip(lines, plain, strict=True):
            assert (line["class"] is None) == (line["confidence"] is None) == line["unknown"]
            assert line["top"][0]["class"] == whole[1]
    header = table(predicted(capsys, calibrated_run, *names, "--reject", "0.9", "--top", "2", err=""))[0]
    assert header[4:] == [f"{name} {place}" for place in (1, 2) for name in ("class", "confidence", "score")]
    assert any(refused)


def test_refusals_that_are_refused(finished_run, calibrated_run, images, capsys):
    names, _ = images
    n = len(load_encoder(calibrated_run).familiarity.held_out)
    for run, words, sentence in (
        (finished_run, ["0.1"], "--reject needs validation images, and the run had none; train again with them"),
        (calibrated_run, ["0.001"], f"--reject must be at least 0.0{1000 // (n + 1) + 1} with {n} validation images"),
        (calibrated_run, ["1"], "--reject must be positive and below 1, not 1.0"),
        (calibrated_run, ["0.1", "--mirror"], "--reject was fitted to images without their mirror images; leave it or"),
    ):
        assert main(["predict", str(run), names[0], "--reject", *words]) == 2
        assert sentence in capsys.readouterr().err


def test_the_best_classes_without_confidences(finished_run, images, capsys):
    names, _ = images
    rows = table(predicted(capsys, finished_run, *names, "--scores"))
    best = table(predicted(capsys, finished_run, *names, "--top", "3"))
    assert best[0] == ["image", "class", "score 1", "class 2", "score 2", "class 3", "score 3"]
    for row, top in zip(rows[1:], best[1:], strict=True):
        assert top[2::2] == sorted(row[2:], key=float, reverse=True)[:3]
        assert [row[2 + int(name)] for name in top[1::2]] == top[2::2]


def test_files_folders_and_patterns_in_their_order(finished_run, images, capsys):
    names, _ = images
    for number, place in enumerate(["b/2.png", "b/10.png", "b/a/1.PNG", "a/z.png", ".hidden/1.png", "b/.1.png"]):
        Path(place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(names[number], place)
    Path("b/notes.txt").write_text("not an image")
    os.symlink("..", "b/up")  # would lead in circles
    shutil.copy(names[0], "odd[1].png")
    words = ["b", names[3], "*/z.png", "[ab]/a/1.P*", "odd[1].png"]
    rows = table(predicted(capsys, finished_run, *words))
    names_in_order = ["b/10.png", "b/2.png", "b/a/1.PNG", names[3], "a/z.png", "b/a/1.PNG", "odd[1].png"]
    assert [row[0] for row in rows[1:]] == names_in_order
    assert rows[3][1:] == rows[6][1:]


def test_the_file_alone_is_enough(finished_run, images, capsys, tmp_path):
    """Elsewhere, without its folder."""
    names, _ = images
    shutil.copy(finished_run / "encoder.safetensors", "handed-out.safetensors")
    assert predicted(capsys, "handed-out.safetensors", *names) == predicted(capsys, finished_run, *names)


@pytest.mark.parametrize("workers", [0, 2])
def test_many_images_keep_their_order_and_broken_ones_are_named_at_the_end(workers, finished_run, images, capsys):
    names, _ = images
    many = names * 26
    Path("torn.png").write_bytes(Path(names[0]).read_bytes()[:60])
    for place in (519, 300, 3):
        many.insert(place, "torn.png")
    assert main(["predict", str(finished_run), *many, "missing.png", "--workers", str(workers)]) == 1
    said = capsys.readouterr()
    rows = table(said.out)
    assert [row[0] for row in rows[1:]] == names * 26
    assert [row[1] for row in rows[1:]] == [row[1] for row in rows[1:21]] * 26
    complaints = said.err.removeprefix(WITHOUT).splitlines()
    assert len(complaints) == 4
    assert all(line.startswith("orthoframe: torn.png: the image is broken (") for line in complaints[:3])
    assert complaints[3] == "orthoframe: missing.png: No such file or directory"


def test_other_modes_and_sizes(finished_run, images, capsys):
    names, _ = images
    with Image.open(names[0]) as image:
        for mode in ("RGB", "RGBA", "P", "LA"):
            image.convert(mode).save(f"{mode}.png")
        image.resize((70, 31)).save("large.jpg")
    rows = table(predicted(capsys, finished_run, names[0], "RGB.png", "RGBA.png", "LA.png"))
    assert len({tuple(row[1:]) for row in rows[1:]}) == 1
    predicted(capsys, finished_run, "P.png", "large.jpg")


@pytest.mark.parametrize(
    ("image", "sentence"),
    [
        ("text.png", "text.png: the image is broken"),
        ("torn.png", "torn.png: the image is broken"),
        ("deep.tif", "deep.tif: more than 16 bits per channel"),
        ("missing.png", "missing.png: No such file or directory"),
        ("*.webp", "*.webp: no file matches"),
        ("empty", "empty: there are no images in this folder"),
        ("a" * 300, "aaaa"),
    ],
)
def test_images_that_cannot_be(image, sentence, finished_run, images, capsys):
    """Beside others they are named at the end; alone, nothing is classified."""
    names, _ = images
    Path("text.png").write_text("no image")
    Path("torn.png").write_bytes(Path(names[0]).read_bytes()[:60])
    Image.fromarray(np.zeros((8, 8), np.int32)).save("deep.tif")
    Path("empty").mkdir()
    assert main(["predict", str(finished_run), image, names[0]]) == 1
    said = capsys.readouterr()
    assert [row[0] for row in table(said.out)] == ["image", names[0]]
    assert said.err.removeprefix(WITHOUT).startswith(f"orthoframe: {sentence}")
    assert said.err.removeprefix(WITHOUT).count("\n") == 1
    assert main(["predict", str(finished_run), image]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.removeprefix(WITHOUT).startswith(f"orthoframe: {sentence}")


def test_a_name_that_is_no_text(finished_run, images, capfdbinary):
    names, _ = images
    shutil.copy(names[0].encode(), b"caf\xe9.png")
    assert main(["predict", str(finished_run), os.fsdecode(b"caf\xe9.png")]) == 0
    assert b"\ncaf\xe9.png," in capfdbinary.readouterr().out


@pytest.mark.parametrize("verb", ["predict", "export"])
def test_a_run_that_has_not_finished(verb, images, capsys):
    names, _ = images
    interrupt(small(epochs=4), Path("a run"), 2, 1)
    words = ["predict", "a run", names[0]] if verb == "predict" else ["export", "a run", "--onnx", "out.onnx"]
    said = "orthoframe: a run: Not finished: after epoch 2 of 4 the run was interrupted, or is still running"
    again = "; resume it with: orthoframe train --resume 'a run'\n"
    assert main(words) == 2
    assert capsys.readouterr().err == said + again
    Path("a run/nan-batch.json").write_text("{}")
    assert main(words) == 2
    assert "the loss was not finite; nan-batch.json has the batch; start a new one" in capsys.readouterr().err
    Path("a run/metrics.csv").unlink()
    assert main(words) == 2
    assert capsys.readouterr().err == f"orthoframe: a run: the run has not finished its first epoch{again}"


def test_garbage_is_collected_again_after_the_start(finished_run, images, capsys):
    names, _ = images
    for run, status in ((finished_run, 0), ("nowhere", 2)):
        assert main(["predict", str(run), names[0]]) == status
        assert gc.isenabled()


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
    rows = table(predicted(capsys, finished_run, *names))[1:]
    assert np.mean([row[1] == str(int(label)) for row, label in zip(rows, labels, strict=True)]) > 0.15


def test_names_that_a_terminal_or_a_spreadsheet_would_run(finished_run, images, capsys):
    """Control characters have backslashes, and what a spreadsheet takes for a formula gets a quote."""
    names, _ = images
    odd = {"=cmd().png": "'=cmd().png", "@x.png": "'@x.png", "\x1b[31m.png": r"\x1b[31m.png", "=\n.png": r"'=\n.png"}
    for name in odd:
        shutil.copy(names[0], name)
    printed = predicted(capsys, finished_run, *odd)
    assert [row[0] for row in table(printed)[1:]] == list(odd.values())
    assert "\x1b" not in printed


@pytest.mark.parametrize(
    ("where", "variables", "sentence"),
    [
        ("/dev/full", {}, "standard output: No space left on device"),
        ("/dev/full", {"PYTHONUNBUFFERED": "1"}, "standard output: No space left on device"),
        (
            "/dev/null",
            {"PYTHONIOENCODING": "ascii"},
            r"standard output cannot show '\xf6\xdf' in ascii",
        ),
    ],
)
def test_a_standard_output_that_takes_nothing(where, variables, sentence, finished_run, images):
    names, _ = images
    shutil.copy(names[0], "größe.png")
    code = "import sys; from orthoframe.cli import main; sys.exit(main())"
    for words in (["predict", str(finished_run), "größe.png"], ["--version"], ["predict", "--help"]):
        with open(where, "wb") as file:
            command = [sys.executable, "-c", code, *words]
            done = subprocess.run(command, env={**os.environ, **variables}, stdout=file, stderr=subprocess.PIPE)
        said = done.stderr.decode().removeprefix(WITHOUT)
        if where == "/dev/full" or words[-1] == "größe.png":
            assert done.returncode == 2
            assert said.startswith(f"orthoframe: {sentence}")
            assert said.count("\n") == 1
        else:
            assert (done.returncode, said) == (0, "")
