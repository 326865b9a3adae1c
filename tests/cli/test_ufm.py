"""`orthoframe ufm` as a user runs it."""

import json
from pathlib import Path

import pytest
from PIL import Image

from orthoframe.cli import main


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(capsys, *arguments):
    status = main(["ufm", *arguments])
    done = capsys.readouterr()
    return status, done.out, done.err


def test_a_failing_plan_and_its_repairs(capsys):
    plan = [
        "--counts",
        "50x5,5x5",
        "--dim",
        "32",
        "--temperature",
        "0.1",
        "--scheme",
        "partition",
        "--batch-size",
        "64",
    ]
    status, out, err = run(capsys, *plan)
    assert (status, err) == (0, "")
    assert "The loss is at its floor" in out
    assert "Not certified" in out
    assert "neither an orthogonal frame" in out
    for mend in (["--binding", "fixed"], ["--repair"], ["--prototypes"]):
        status, out, _ = run(capsys, *plan, *mend, "--json")
        data = json.loads(out)
        assert status == 0
        assert data["certificate"]["holds"]
        # The bound is on 1 - cos: rows may be off by an angle of sqrt(2 bound), and so may cosines of class means.
        assert data["geometry"]["delta_of"] < (2 * data["bound"]) ** 0.5 < 1e-4
        assert data["gap"] < 1e-12


def test_without_relu_it_compares_with_the_prediction(capsys):
    status, out, _ = run(capsys, "--counts", "50x5,5x5", "--no-relu", "--json")
    data = json.loads(out)
    assert status == 0
    assert data["predicted"]["largest_difference"] < 1e-7
    assert data["predicted"]["distance"] < 1e-7
    status, out, _ = run(
        capsys, "--counts", "6,6,2", "--no-relu", "--scheme", "partition", "--batch-size", "7", "--temperature", "1"
    )
    assert status == 0
    assert "unknown" in out
    assert "distance to prediction for one batch" in out


def test_a_picture(capsys):
    status, _, _ = run(capsys, "--counts", "6x2,3", "--dim", "3", "--plot", "a.png")
    assert status == 0
    with Image.open("a.png") as image:
        assert image.width > 1000
    assert [path.name for path in Path().iterdir()] == ["a.png"]


def test_a_single_class_has_no_bound(capsys):
    status, out, _ = run(capsys, "--counts", "5", "--json")
    assert status == 0
    assert json.loads(out)["bound"] is None


def test_an_unreached_floor_is_status_1(capsys):
    status, out, err = run(capsys, "--counts", "5x6", "--dim", "3", "--starts", "1")
    assert status == 1
    assert "the floor may need 6 dimensions" in out
    assert "warning: 3 dimensions are too few for 6 classes" in err


def test_a_margin_and_the_frame_term(capsys):
    status, out, _ = run(capsys, "--counts", "20x2,5", "--margin", "0.5")
    assert status == 0
    assert "loss (mean over anchors)" in out
    plan = ["--counts", "20x2,5", "--scheme", "partition", "--batch-size", "9", "--frame", "--supcon", "0"]
    status, out, _ = run(capsys, *plan)
    assert status == 0
    assert "Certified: with non-negative features of at least 3 dimensions, the frame term has a unique optimum" in out
    assert "deviation from a frame, any row" in out
    status, out, _ = run(capsys, "--counts", "4x2", "--frame", "--no-relu", "--starts", "1")
    assert "unknown" in out
    assert "What the batches would guarantee with a ReLU" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--counts", "5x3", "--supcon", "0"], "--supcon 0 leaves nothing to minimise without --frame"),
        (["--counts", "5x3", "--dim", "2", "--frame"], "--frame needs one dimension per class"),
        (["--counts", "5x3", "--margin", "1", "--denominator", "negatives"], "would only add a constant"),
        (["--counts", "50x"], "'50x' is not ROWS or ROWSxCLASSES"),
        (["--counts", "5x0"], "'5x0' is not"),
        (["--counts", "-5"], "'-5' is not"),
        (["--counts", "5,,5"], "'' is not"),
        (["--counts", "1x2x3"], "'1x2x3' is not"),
        (["--counts", "1000000x2"], "more than 100,000 rows"),
        (["--counts", "5" * 5000], "is not ROWS"),
        (["--counts", "2x12000"], "are too many"),
        (["--counts", "5x3", "--dim", "99999999999"], "are too many"),
        (["--counts", "5x3", "--temperature", "1e-300"], "temperature must be from 0.001 to 1e+06, not 1e-300"),
        (["--counts", "1,1"], "the loss is 0 everywhere"),
        (["--counts", "5x3", "--dim", "0"], "--dim must be at least 1"),
        (["--counts", "5x3", "--temperature", "0"], "--temperature must be from 0.001"),
        (
            ["--counts", "5x3", "--batch-size", "4"],
            "leave out --batch-size, or choose another --scheme",
        ),
        (["--counts", "5x3", "--scheme", "partition"], "--scheme partition needs a --batch-size"),
        (["--counts", "5x3", "--epochs", "0"], "--epochs must be at least 1"),
        (["--counts", "5x3", "--starts", "0"], "--starts must be at least 1"),
        (["--counts", "5x3", "--seed", "-1"], "--seed must be at least 0"),
        (
            ["--counts", "5x3", "--denominator", "sincere", "--repair"],
            "--repair guarantees nothing",
        ),
        (
            ["--counts", "5x3", "--dim", "2", "--prototypes"],
            "use --dim 3 or more",
        ),
        (["--counts", "5x3", "--plot", "a.jpg"], "--plot must end in"),
        (["--counts", "5x3", "--plot", "missing/a.png"], "cannot be written"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_a_sentence_and_status_2(arguments, message, capsys):
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert err.startswith("orthoframe: ")
    assert err.count("\n") == 1
    assert not list(Path().iterdir())


@pytest.mark.parametrize("option", ["--denominator", "--scheme", "--binding"])
def test_a_choice_that_there_is_not(option, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["ufm", "--counts", "5x3", option, "odd"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert option in said
    assert "'odd'" in said
    assert {"--denominator": "sincere", "--scheme": "rare-hub", "--binding": "redrawn"}[option] in said
