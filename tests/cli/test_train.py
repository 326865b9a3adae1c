"""`orthoframe train` as a user runs it."""

import os
import pty
import re
import select
from contextlib import suppress
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from PIL import Image
from tests.training.runs import arguments, command, json_of, recomputed, rows_of, started

from orthoframe.cli import main, parse
from orthoframe.cli._terminal import flag
from orthoframe.cli._training import training_bar
from orthoframe.errors import Option, OrthoframeError, spelled
from orthoframe.runs import Cause, read_run
from orthoframe.training import (
    RECIPES,
    FrameTerm,
    LikelyCause,
    Settings,
    option_groups,
    option_names,
    train,
    type_hints,
)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_curves_for_tensorboard(here):
    """Read back with TensorBoard's own reader, they are the numbers of metrics.csv."""
    reading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    assert main(["train", *arguments(), "--out", "run", "--tensorboard"]) == 0
    events = reading.EventAccumulator(str(here / "run" / "tensorboard"))
    events.Reload()
    rows = rows_of(here / "run")
    for name in ("loss", "gap", "delta_of"):
        assert [event.value for event in events.Scalars(name)] == pytest.approx([row[name] for row in rows], rel=1e-6)


def test_what_a_run_says_and_leaves(here, capsys):
    assert main(["train", *arguments(), "--out", "run"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    lines = said.out.splitlines()
    assert lines[0] == (
        "digits: 180 of 1,347 images of 8 x 8 pixels, 10 classes (24 to 12); mlp, 16 features, activation relu, "
        "precision 32"
    )
    assert lines[1].startswith("Certified: with non-negative features of at least 10 dimensions")
    assert lines[1].endswith("(1 epoch checked)")
    row = rows_of(here / "run")
    assert lines[2] == f"The floor of the loss is {row[0]['floor']:.6f}."
    assert lines[3].startswith("Delta_GM is the distance to the frame (0: class means form an orthogonal frame)")
    epochs = [line for line in lines if line.startswith("epoch ")]
    measured = [entry for entry in row if "delta_of" in entry]
    for line, entry in zip(epochs, measured, strict=True):
        assert line.startswith(f"epoch {entry['epoch']:.0f} of 3: loss {entry['loss']:.4f}  gap ")
        assert line.endswith(f"Delta_GM {entry['delta_of']:.4f}  test accuracy {entry['test_balanced_accuracy']:.3f}")
    verdict = json_of(here / "run" / "verdict.json")
    assert lines[4 + len(epochs)] == verdict["sentence"]
    assert lines[-1] == "report: run/report.html"
    table = said.out.split(verdict["sentence"])[1]
    for name in ("Delta_GM", "beta_NC", "loss, floor, gap", "balanced test accuracy", "worst class", "live dimensions"):
        assert name in table
    assert f"{row[-1]['delta_of']:.4g}" in table
    assert f"{row[-1]['test_balanced_accuracy']:.4f}" in table
    test = verdict["test"]
    assert test["accuracy"]["balanced"] == row[-1]["test_balanced_accuracy"]
    for name, rate, count in zip(range(10), test["accuracy"]["by_class"], test["confusion"]["rows"], strict=True):
        assert re.search(rf"^  {name} +{rate:.3f} +{count} images", table, re.MULTILINE)
    a, b, n = test["confusion"]["cells"][0]
    assert f"largest confusions:\n  {a} as {b}: {n} of {test['confusion']['rows'][a]}\n" in table
    assert "calibration" not in table  # there are no validation images

    left = {path.name for path in (here / "run").iterdir() if not path.name.startswith(".")}
    assert left == {
        "config.json",
        "run.json",
        "metrics.csv",
        "geometry.jsonl",
        "certificate.json",
        "verdict.json",
        "checkpoint.bin",
        "checkpoint.previous.bin",
        "encoder.safetensors",
        "report.html",
        "figures",
    }
    assert (here / "run" / "figures" / "training.png").read_bytes().startswith(b"\x89PNG")
    assert "<html" in (here / "run" / "report.html").read_text()[:200]
    assert read_run(here / "run").verdict.sentence == verdict["sentence"]
    recomputed(here / "run")


def test_what_cannot_go_right_is_said_before(here, capsys):
    assert (
        main(["train", *arguments(epochs=2), "--activation", "none", "--scheme", "partition", "--binding", "none"]) == 0
    )
    out = capsys.readouterr().out
    assert "Not certified: class " in out
    assert "features that may be negative can go below it" in out
    assert "  Why: features may be negative (--activation none)" in out
    assert "  Try: --activation relu, abs or square" in out
    assert main(["train", *arguments(epochs=2), "--loss", "cross-entropy"]) == 0
    out = capsys.readouterr().out
    assert "ertified" not in out.splitlines()[1]
    assert "floor" not in out
    assert "  Why: a linear classifier leaves the lengths of features free" in out
    # Without --out: a folder with a name that tells them apart, and a number if it is taken.
    assert main(["train", *arguments(epochs=2), "--loss", "cross-entropy"]) == 0
    assert sorted(path.name for path in Path("runs").iterdir()) == [
        "digits-step2-mlp-none-seed0",
        "digits-step2-mlp-relu-cross-entropy-seed0",
        "digits-step2-mlp-relu-cross-entropy-seed0-2",
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"epochs": 0},
        {"data": "letters"},
        {"head": "none", "features": 64},
        {"loss": "cross-entropy", "temperature": 0.2},
        {"majority": 1000},
        {"ratio": 5.0, "imbalance": "none"},
        {"loss": "frame", "denominator": "sincere"},
        {"devices": 4000},
    ],
    ids=str,
)
def test_refusals_have_the_same_words_in_python_and_on_the_command_line(options, here, capsys):
    with pytest.raises(OrthoframeError) as refused:
        train(Settings.of(**options), here / "run")
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    assert main(["train", *words]) == 2
    assert capsys.readouterr().err == f"orthoframe: {refused.value.spelled(flag)}\n"


def test_names_with_square_brackets(here, capsys):
    """They look like markup of what draws the table."""
    pixels = np.random.default_rng(0).integers(0, 255, (40, 8, 8)).astype(np.uint8)
    np.savez("odd.npz", x=pixels, y=np.repeat(["[/a]", "[bold]:smile:"], 20))
    words = ["--data", "npz:odd.npz", "--imbalance", "none", "--width", "16", "--epochs", "2"]
    assert main(["train", *words, "--out", "[/run]"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"worst class +\d\.\d{4} \((\[/a\]|\[bold\]:smile:)\)", out), out
    with training_bar() as bar:
        bar.add_task("[/a]", words="[/b]")
        for column in bar.columns:
            column(bar.tasks[0])
    # The data is found from elsewhere too.
    Path("elsewhere").mkdir()
    Path("[/run]/verdict.json").unlink()
    os.chdir("elsewhere")
    assert main(["train", "--resume", "../[/run]"]) == 0


def test_weighted_draws_state_their_shares_and_chances(here, capsys):
    """Ten to one, and the square root of it: five of the shares are sqrt(10) times the others."""
    words = ["train", "--scheme", "weighted", "--binding", "none", "--majority", "40", "--epochs", "1", "--out", "run"]
    assert main(words) == 0
    share = 10**0.5 / (5 * 10**0.5 + 5)
    sentence = (
        "Rows are sampled in proportion to class size^0.5: "
        f"each class gets {100 * (0.2 - share):.3g} to {100 * share:.3g} % of the rows"
    )
    assert sentence in re.sub(r"\s+", " ", capsys.readouterr().out)


def test_an_adjustment_is_fit_or_a_number(here, capsys):
    with pytest.raises(SystemExit):
        main(["train", "--adjust", "foo"])
    said = capsys.readouterr()
    assert "must be fit, or a number such as 0.25, not 'foo'" in re.sub(r"[\s│]+", " ", said.out + said.err)
    assert list(here.iterdir()) == []


def test_a_ratio_that_is_not_reached_is_noted(here, capsys):
    assert main(["train", *arguments(epochs=1, ratio=1e9), "--out", "run"]) == 0
    said = capsys.readouterr().err
    assert said.startswith("orthoframe: --ratio 1000000000.0 is not reached: the classes have 1 to 24 images")
    assert said.count("\n") == 1


WRONG = [
    ["--model", "vgg"],
    ["--precision", "auto"],
    *(["--temperature", words] for words in ("hot", "0.1-", "0.1:", "0.1:0.2:0.3", "0.1->0.5")),
]


@pytest.mark.parametrize(
    "words",
    [["--epochs", "ten"], ["--epoch"], ["--unknown", "1"], ["--lr"], ["--recipe", "best"], ["--recipe=best"], *WRONG],
    ids=" ".join,
)
def test_words_that_are_no_options(words, here, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["train", *words])
    assert ended.value.code == 2
    assert not list(here.iterdir())


def test_recipes_give_defaults_and_options_change_them():
    assert parse("train", []).settings() == Settings()
    for words in (["--recipe", "paper"], ["--lr", "0.2", "--recipe=paper"], ["--recipe", "fast", "--lr", "0.2"]):
        settings = parse("train", words).settings()
        assert settings.recipe in " ".join(words)
        expected = RECIPES[settings.recipe].values | ({"lr": 0.2} if "--lr" in words else {})
        assert {name: settings.usual_options()[name] for name in expected} == expected


@pytest.mark.parametrize("words", [["--probe"], ["--backbone-lr", "0"]])
def test_what_predicts_instead_of_the_classifier_of_the_recipe(words):
    settings = parse("train", ["--data", "folder:photos", *words]).settings()
    assert isinstance(settings.objective, FrameTerm)
    assert not settings.usual_options()["classifier"].largest


def test_a_recipe_runs_with_options(here, capsys):
    """The paper's setting, made small: on digits, narrow, two epochs."""
    words = ["--data", "digits", "--width", "4", "--majority", "12", "--ratio", "2", "--epochs", "2"]
    assert main(["train", "--recipe", "paper", *words, "--out", "run"]) == 0
    config = json_of(here / "run" / "config.json")
    assert (config["model"], config["head"], config["lr_schedule"], config["clean_fraction"]) == (
        "resnet18",
        "none",
        "step",
        0,
    )
    assert (config["data"], config["width"], config["epochs"]) == ("digits", 4, 2)


@pytest.mark.parametrize(("words", "kept"), [("0.2", 0.2), ("0.1:0.5", [0.1, 0.5])])
def test_a_temperature_schedule(words, kept, here):
    assert main(["train", *arguments(epochs=2), "--temperature", words, "--out", "run"]) == 0
    assert json_of(here / "run" / "config.json")["temperature"] == kept
    first, last = np.broadcast_to(kept, 2)
    assert [row["temperature"] for row in rows_of(here / "run")] == pytest.approx([first, last])


def test_advice_is_spelled_as_options(here, capsys):
    assert main(["train", *arguments(epochs=1), "--lr", "30", "--out", "run"]) == 0
    out = capsys.readouterr().out
    assert "  Why: --lr 30.0 is large" in out
    assert "  Try: a smaller learning rate, such as --lr 0.1" in out
    assert "--" not in json_of(here / "run" / "verdict.json")["causes"][0]["sentence"]
    likely = LikelyCause(Cause.TOO_COLD, (Option("temperature", (0.1, 0.5)),), {"temperature": 0.1, "fastest": 0.4})
    assert spelled(likely.advice, flag) == "--temperature 0.1:0.5"


@pytest.fixture
def help_of_train(monkeypatch, capsys):
    """What `train --help` prints, as a function of other words and the width of the terminal."""

    def printed(*words, columns=80):
        monkeypatch.setenv("COLUMNS", str(columns))
        with pytest.raises(SystemExit) as ended:
            main(["train", *words, "--help"])
        assert ended.value.code == 0
        return capsys.readouterr().out

    return printed


def test_help_names_every_choice(help_of_train):
    text = re.sub(r"[\s│]+", " ", help_of_train())
    assert {f"--{name.replace('_', '-')}" for name in option_names()} <= set(re.findall("--[a-z-]+", text))
    for kind in (kind for kinds in option_groups().values() for kind in kinds):
        for hint in type_hints(kind).values():
            choices = {value for part in (hint, *get_args(hint)) for value in get_args(part) if isinstance(value, str)}
            assert all(value in text for value in choices)
    assert "START:END" in text
    assert "default: None" not in text


def test_help_has_a_panel_for_each_group_and_ten_options_first(help_of_train):
    text = help_of_train()
    titles = re.findall(r"^ *((?:\w+ )?options) *$", text, re.MULTILINE)
    groups = ("image", "encoder", "loss", "batch", "schedule", "evaluation", "machine")
    assert titles == ["options", *(f"{group} options" for group in groups)]
    first = re.findall(r"^ *--([a-z][a-z-]+)", text.split("image options")[0], re.MULTILINE)
    assert first == ["data", "recipe", "goal", "loss", "model", "epochs", "minutes", "seed", "out", "resume"]
    assert len(text.splitlines()) > len(help_of_train(columns=120).splitlines())


def test_help_shows_the_defaults_of_the_recipe(help_of_train):
    defaults = dict.fromkeys(("data", "loss", "scheme", "seed"))
    for words, expected in (
        ((), {"data": "digits", "loss": "supcon", "scheme": "balanced", "seed": "0"}),
        (("--recipe", "fast"), {"data": "fashion-mnist", "loss": "frame", "scheme": "balanced", "seed": "0"}),
    ):
        text = re.sub(r"[\s│]+", " ", help_of_train(*words))
        assert {name: re.search(rf" --{name} [^ ].*?\(default: (\S+)\)", text)[1] for name in defaults} == expected


def on_terminal(words, terminal):
    os.environ.update(TERM="xterm-256color", COLUMNS="140")
    command(words, terminal)


def test_many_classes_with_some_that_have_no_test_images(here, capsys):
    """Only the worst are listed; and it is said over how many classes accuracies are."""
    random = np.random.default_rng(0)
    labels = np.arange(25).repeat(4)
    pixels = random.integers(0, 256, (100, 8, 8), dtype=np.uint8)
    some = labels < 23
    np.savez("many.npz", x_train=pixels, y_train=labels, x_test=pixels[some], y_test=labels[some])
    words = ["--data", "npz:many.npz", "--model", "mlp", "--epochs", "2", "--validation", "0.25", "--out", "run"]
    assert main(["train", *words]) == 0
    said = capsys.readouterr().out
    assert "validation accuracy 0." in said
    assert re.search(r"balanced test accuracy +\d\.\d{4} \(over 23 of 25 classes\)", said)
    assert re.search(r"expected calibration error +\d\.\d{4} \(0: perfectly calibrated\)", said)
    worst = said.split("test accuracy of the 5 worst of 25 classes:\n")[1].split("largest confusions")[0]
    assert worst.count(" images") == 5
    report = (here / "run" / "report.html").read_text()
    assert "test set, linear classifier (over 23 of 25 classes)" in report
    assert "Calibration error" in report


def test_the_bar_on_a_terminal(here):
    """Loss, gap, distance and the time left, on a real terminal."""
    ours, theirs = pty.openpty()
    with started(
        on_terminal, ["train", *arguments(epochs=60), "--out", str(here / "run")], os.ttyname(theirs)
    ) as process:
        shown = b""
        while process.is_alive() or select.select([ours], [], [], 0)[0]:
            if select.select([ours], [], [], 0.1)[0]:
                shown += os.read(ours, 65536)
        process.join()
    os.close(theirs)
    os.close(ours)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    assert process.exitcode == 0, text
    assert re.search(
        r"epochs .*\d+/60 +loss \d\.\d{4}  gap -?\d\.\de[-+]\d\d  Delta_GM \d\.\d{4}  test accuracy \d\.\d{3}", text
    ), text
    words = json_of(here / "run" / "verdict.json")["sentence"].split()
    lines = re.search(r"\s+".join(map(re.escape, words)), text)[0].splitlines()  # wrapped, and between words
    assert len(lines) > 1
    assert max(map(len, lines)) <= 140


def status(words):
    """Of the command, also if the parser of options ends it."""
    with suppress(SystemExit):
        return main(words)
    return 2


def test_a_folder_of_pictures(here, capsys):
    random = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (here / "pets" / name).mkdir(parents=True)
        for i in range(20):
            shape = (20 + i % 3, 24, 3)
            Image.fromarray(random.integers(0, 256, shape, dtype=np.uint8)).save(here / "pets" / name / f"{i}.png")
    words = ["train", "--data", "folder:pets", "--width", "2", "--epochs", "1"]
    assert main([*words, "--size", "16x24", "--fit", "crop"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    before, first, parts = said.out.splitlines()[:3]
    assert before == "reading 40 images (0.0 MiB as pixels)"
    assert first.startswith(
        f"folder:{here / 'pets'}: 28 images of 16 x 24 pixels, 2 classes (14 to 14); conv6-quarters, "
    )
    assert parts == "4 more images for validation, and 8 for the test at the end."
    assert (here / "runs" / "pets-frame-seed0" / "report.html").exists()
    assert main([*words[:3], "--minutes", "0.05", "--out", "timed"]) == 0
    lines = capsys.readouterr().out.splitlines()
    choose = "--minutes M, --epochs N, --steps N choose another length."
    assert lines[0] == f"This takes 0.05 minutes in all; {choose}"
    assert any(re.match(r"In 0.05 minutes there is time for about [\d,]+ steps of \d+ images", line) for line in lines)
    for more, words_of_error in (
        (
            ["--size", "big"],
            "Error parsing --size: must be a number of pixels, or height and width such as 48x64, not 'big'",
        ),
        (["--data", "folder:."], "did you mean folder:"),
        (["--group-column", "video"], "--group-column needs --data csv:FILE"),
        (["--minutes", "1"], "--minutes decides the number of epochs; leave --epochs out"),
    ):
        assert status([*words, *more]) == 2
        assert words_of_error.replace(" ", "") in re.sub(r"[\s│]", "", capsys.readouterr().err)
    assert len(list((here / "runs").iterdir())) == 1
