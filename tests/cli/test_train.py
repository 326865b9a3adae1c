"""`orthoframe train` as a user runs it."""

import os
import pty
import re
import select
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.training.runs import arguments, command, json_of, recomputed, rows_of, small, started

from orthoframe.cli import main
from orthoframe.cli._training import training_bar
from orthoframe.cli.train import with_recipe
from orthoframe.reporting import read_run
from orthoframe.training import RECIPES


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
    assert lines[0] == ("digits: 180 images of 10 classes (24 to 12); mlp, 16 features, activation relu, precision 32")
    assert lines[1].startswith("Certified: with non-negative features of at least 10 dimensions")
    assert lines[1].endswith("(1 epoch of batches)")
    row = rows_of(here / "run")
    assert lines[2] == f"The floor of the loss is {row[0]['floor']:.6f}."
    assert lines[3] == json_of(here / "run" / "verdict.json")["verdict"]
    assert lines[-1] == "report: run/report.html"
    table = said.out.split(lines[3])[1]
    for name in ("Delta_GM", "beta_NC", "loss, floor, gap", "balanced test accuracy", "worst class", "live dimensions"):
        assert name in table
    assert f"{row[-1]['delta_of']:.4g}" in table
    assert f"{row[-1]['test_balanced_accuracy']:.4f}" in table

    left = {path.name for path in (here / "run").iterdir() if not path.name.startswith(".")}
    assert left == {
        "config.json",
        "metrics.csv",
        "geometry.jsonl",
        "certificate.json",
        "verdict.json",
        "checkpoint.pt",
        "checkpoint.previous.pt",
        "encoder.safetensors",
        "report.html",
        "figures",
    }
    assert (here / "run" / "figures" / "training.png").read_bytes().startswith(b"\x89PNG")
    assert "<html" in (here / "run" / "report.html").read_text()[:200]
    assert read_run(here / "run").verdict.words == lines[3]
    recomputed(here / "run")


def test_what_cannot_go_right_is_said_before(here, capsys):
    assert (
        main(["train", *arguments(epochs=2), "--activation", "none", "--scheme", "partition", "--binding", "none"]) == 0
    )
    out = capsys.readouterr().out
    assert "Not certified: class " in out
    assert ", which features that may be negative can go below." in out
    assert "  Why: features may be negative (--activation none)" in out
    assert "  Try: --activation relu, abs or square" in out
    assert main(["train", *arguments(epochs=2), "--loss", "cross-entropy"]) == 0
    out = capsys.readouterr().out
    assert "ertified" not in out.splitlines()[1]
    assert "floor" not in out
    assert "  Why: cross-entropy does not lead to an orthogonal frame" in out
    # Without --out: a folder with a name that tells them apart, and a number if it is taken.
    assert main(["train", *arguments(epochs=2), "--loss", "cross-entropy"]) == 0
    assert sorted(path.name for path in Path("runs").iterdir()) == [
        "digits-step2-mlp-none-seed0",
        "digits-step2-mlp-relu-seed0",
        "digits-step2-mlp-relu-seed0-2",
    ]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--model", "vgg"], "--model must be one of resnet18, resnet34, densenet40, mlp, vit, not 'vgg'"),
        (["--epochs", "0"], "--epochs must be at least 1, not 0"),
        (["--temperature", "hot"], "or a schedule such as '0.1->0.5' (with the quotes) or 0.1:0.5, not 'hot'"),
        (["--temperature", "0.1-"], "a shell takes > for itself unless it is in quotes"),
        (["--seed", "1" * 23], "--seed must be at least 0 and below 2^63"),
        (["--ratio", "inf"], "--ratio must be a number from 1 (balanced), not inf"),
        (["--data", "letters"], "there is no data 'letters'; choose one of digits"),
        (["--majority", "1000"], "class 0 has 134 samples, and 1000 were asked for"),
        (["--features", "5"], "needs at least one dimension per class; use --features 10 or more"),
        (["--head", "none", "--features", "64"], "--features needs --head linear"),
        (["--recipe", "best"], "--recipe must be one of quick, paper, fast, not 'best'"),
        (["--recipe=best"], "--recipe must be one of quick, paper, fast, not 'best'"),
        (["--resume", "run", "--out", "other"], "--resume names the folder already; leave --out out"),
        (["--resume", "run", "--lr", "0.2"], "--resume takes the settings from its folder; leave the others out"),
        (["--resume", "run", "--recipe", "paper"], "--resume takes the settings from its folder"),
        (["--resume", "run", "--epochs", "60"], "it is another run; start anew with --epochs 60 --out FOLDER"),
        (["--resume", "nowhere"], "nowhere/config.json: there is no run to go on with"),
        (["--data", "mnist", "--data-dir", "empty"], "mnist is not complete under "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_a_sentence_and_status_2(words, sentence, here, capsys, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # no network, whatever the machine has
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    try:
        status = main(["train", *words])
    except SystemExit as ended:
        status = ended.code
    said = capsys.readouterr()
    assert status == 2
    assert said.out == ""
    assert said.err.startswith("orthoframe: ")
    assert sentence in said.err
    assert said.err.count("\n") == 1
    assert not list(here.rglob("*"))


def test_names_with_square_brackets(here, capsys):
    """They look like markup of what draws the table."""
    pixels = np.random.default_rng(0).integers(0, 255, (40, 8, 8)).astype(np.uint8)
    np.savez("odd.npz", x=pixels, y=np.repeat(["[/a]", "[bold]:smile:"], 20))
    words = ["--data", "npz:odd.npz", "--imbalance", "none", "--width", "16", "--epochs", "2", "--precision", "32"]
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


def test_a_ratio_that_is_not_reached_is_noted(here, capsys):
    assert main(["train", *arguments(epochs=1, ratio=1e9), "--out", "run"]) == 0
    assert capsys.readouterr().err == (
        "orthoframe: --ratio 1e+09 is not reached: the smallest class has 1 image and the largest 24, which is a ratio "
        "of 24\n"
    )


@pytest.mark.parametrize("words", [["--epochs", "ten"], ["--epoch"], ["--unknown", "1"], ["--lr"]], ids=" ".join)
def test_words_that_are_no_options(words, here, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["train", *words])
    assert ended.value.code == 2
    assert not list(here.iterdir())


def test_recipes_give_defaults_and_options_change_them():
    assert with_recipe(["train"]).model == "mlp"
    for words in (["train", "--recipe", "paper"], ["train", "--recipe=paper", "--lr", "0.2"]):
        chosen = with_recipe(words)
        assert chosen.recipe == "paper"
        assert {name: getattr(chosen, name) for name in RECIPES["paper"]} == RECIPES["paper"]


def test_a_recipe_runs_with_options(here, capsys):
    """The paper's setting, made small: on digits, narrow, two epochs."""
    words = arguments(data="digits", width=4, majority=12, epochs=2)
    assert main(["train", "--recipe", "paper", *words, "--out", "run"]) == 0
    found = json_of(here / "run" / "config.json")
    assert (found["model"], found["head"], found["decay"], found["settle"]) == ("resnet18", "none", "thirds", 0.0)
    assert (found["data"], found["width"], found["epochs"]) == ("digits", 4, 2)


@pytest.mark.parametrize("chosen", ["32", "bf16-mixed"])
def test_the_precision_that_was_chosen_is_kept(chosen, here, monkeypatch, capsys):
    """A timing may come out otherwise the next time."""
    if torch.cuda.is_available():
        pytest.skip("a GPU leaves nothing to choose")
    words = ["train", *arguments(epochs=1, precision="auto"), "--out", "run"]
    monkeypatch.setattr("orthoframe.training._precision._has_units", lambda: True)
    seconds = {"32": 1.0, "bf16-mixed": 1.0, chosen: 0.5}
    timed = lambda task, images, half: seconds["bf16-mixed" if half else "32"]  # noqa: E731
    monkeypatch.setattr("orthoframe.training._precision._timed", timed)
    assert main(words) == 0
    assert json_of(here / "run" / "config.json")["precision"] == chosen
    seconds |= {"32": 0.5, "bf16-mixed": 0.5, chosen: 1.0}
    assert main(["train", "--resume", "run"]) == 0
    assert json_of(here / "run" / "config.json")["precision"] == chosen
    assert capsys.readouterr().out.count(f"precision {chosen}\n") == 2


def test_the_precision_is_timed_with_every_gradient():
    """Forward and backward, and nothing of it is left."""
    from orthoframe.training._precision import _timed
    from orthoframe.training._setup import set_up

    task = set_up(small(model="resnet18", width=4))
    asked = []
    with pytest.MonkeyPatch.context() as patch:
        grad = torch.autograd.grad
        patch.setattr(torch.autograd, "grad", lambda of, to: asked.append(grad(of, to)))
        assert _timed(task, task.normaliser(task.train.pixels[:8]), half=True) > 0
    (gradients,) = asked
    parameters = list(task.encoder.parameters())
    assert [gradient.shape for gradient in gradients] == [parameter.shape for parameter in parameters]
    assert all(parameter.grad is None for parameter in parameters)


def test_help_names_every_choice(capsys):
    from orthoframe.training._settings import _choices

    with pytest.raises(SystemExit) as ended:
        main(["train", "--help"])
    assert ended.value.code == 0
    text = re.sub(r"[\s│]+", " ", capsys.readouterr().out)
    for name, allowed in _choices().items():
        assert f"--{name.replace('_', '-')} " in text
        for value in allowed:
            assert value in text
    assert "default: None" not in text


def on_terminal(words, terminal):
    os.environ.update(TERM="xterm-256color", COLUMNS="140")
    command(words, terminal)


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
        r"epochs .*\d+/60 +loss \d\.\d{4}  gap -?\d\.\de[-+]\d\d  Delta_GM \d\.\d{4} +\d:\d\d:\d\d", text
    ), text
