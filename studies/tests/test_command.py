"""`orthoframe study` as a user runs it."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from studies.tests.jobs import run_here, until
from studies.tests.small_study import STUDY, noted_study
from tests.training.runs import command, json_of, started

import orthoframe_studies
from orthoframe.cli import main
from orthoframe.runs import RunFolder
from orthoframe_studies import _pool, read_result


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder of its own, and the small study in the place of the real ones."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ORTHOFRAME_STORE", str(tmp_path / "store"))
    monkeypatch.setattr(orthoframe_studies, "STUDIES", {"small-study": STUDY})
    return tmp_path


@pytest.fixture
def in_this_process(monkeypatch):
    monkeypatch.setattr(_pool, "run_jobs", run_here)


@pytest.mark.usefixtures("in_this_process")
def test_the_list(here, capsys):
    """Core-minutes are those of earlier runs; the other scales have none, nor a cell with the runs of another."""
    assert main(["study", "all", "--scale", "smoke", "--workers", "1", "--out", "results"]) == 0
    capsys.readouterr()
    assert main(["study", "--list", "--out", "results"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["study", "question", "smoke", "desk", "paper"]
    assert re.split(" {2,}", lines[1].strip()) == [
        "small-study",
        STUDY.question,
        "6 (1 + ? min)",
        "6 (? min)",
        "15 (? min)",
    ]
    assert lines[2] == "Runs, and core-minutes on one thread, estimated from earlier runs; ?: no estimate."
    assert read_result(here / "results" / "small-study.json").missing == 0


def test_the_library_knows_nothing_of_it():
    """The verb comes by an entry point; help lists it with the others."""
    shown = subprocess.run([Path(sys.executable).parent / "orthoframe", "--help"], capture_output=True, text=True)
    assert "Run a study: a grid of trainings" in " ".join(shown.stdout.split()), shown.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "which study? Choose one of small-study, all"),
        (["gravity"], "there is no study 'gravity'; choose one of small-study, all"),
        (["all", "--seeds", "0"], "--seeds must be at least 1, not 0"),
        (["all", "--workers", "-1"], "--workers must be at least 1, not -1"),
        (["all", "--store", "file"], "file: File exists; choose another --store"),
        (["all", "--out", "file/out"], "file/out: Not a directory; choose another --out"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_a_sentence_and_status_2(words, sentence, here, capsys):
    (here / "file").write_text("")
    assert main(["study", *words]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"orthoframe: {sentence}\n"


@pytest.mark.parametrize(("option", "allowed"), [("scale", ("smoke", "desk", "paper")), ("engine", ("local", "ray"))])
def test_a_choice_is_refused_with_the_list(option, allowed, here, capsys):
    with pytest.raises(SystemExit) as refused:
        main(["study", "all", f"--{option}", "steam"])
    assert refused.value.code == 2
    said = capsys.readouterr().err
    assert all(choice in said for choice in allowed)


def test_a_study_from_end_to_end(here, capsys):
    assert main(["study", "small_study", "--scale", "smoke", "--workers", "1", "--seeds", "2"]) == 0
    said = capsys.readouterr()
    data = json_of(here / "studies" / "small-study-smoke" / "small-study.json")
    assert data["command"] == "orthoframe study small-study --scale smoke --seeds 2"
    assert (data["runs"], data["reused"], data["failures"]) == (4, 0, [])
    assert set(data["cells"][0]["results"]["10"]["final"]) >= {"delta_of", "epochs_to_of", "balanced_accuracy"}
    lines = said.err.splitlines()
    assert lines[0] == "small-study: 4 runs, 0 of them in the store"
    assert re.fullmatch(r"small-study 1/4: data digits, ratio [12], seed 1[01]: \d+\.\d s; \d+ (s|min) left", lines[1])
    assert re.fullmatch(r"small-study 4/4: data digits, ratio [12], seed 1[01]: \d+\.\d s", lines[4])
    assert len(lines) == 5
    shown = said.out.splitlines()
    said_of = "medians of distances, times and counts, else means"
    assert shown[0] == f"Do [digits] come near a frame in three epochs? (smoke; {said_of})"
    assert shown[1].split() == ["data", "ratio", "again", "delta_of", "epochs_to_of", "balanced_accuracy", "seeds"]
    assert f"{data['cells'][0]['summary']['delta_of']['centre']:.3g} [" in shown[2]
    assert "not reached" in shown[2]
    assert shown[5] == "not supported: They come near it. (nobody)"
    assert shown[6].startswith("  rule: delta_of at most 0.001, on average; found: ")
    assert "no cell decides it" in said.out
    assert shown[-1] == "report: studies/small-study-smoke/report.html"
    written = {path.name for path in (here / "studies" / "small-study-smoke").iterdir()}
    pages = {"small-study.json", "small-study.md", "small-study.png", "claims.md", "decisions.md", "report.html"}
    assert written == pages

    # Again: nothing is run, and the numbers are the same.
    assert main(["study", "all", "--scale", "smoke", "--seeds", "2", "--out", "out"]) == 0
    assert capsys.readouterr().err == "small-study: 4 runs, 4 of them in the store\n"
    again = json_of(here / "out" / "small-study.json")
    assert {**again, "reused": 0} == data


def test_what_the_store_has(here, capsys):
    """Nothing is run: the pages say what is missing."""
    (here / "out" / "notes").mkdir(parents=True)
    (here / "out" / "notes" / "claims.md").write_text("In short: nothing yet.\n")
    assert main(["study", "all", "--collect", "--scale", "smoke", "--out", "out"]) == 0
    assert capsys.readouterr().err == "small-study: 4 runs, 0 of them in the store\n"
    assert "It has not been run yet." in (here / "out" / "small-study.md").read_text()
    claims = (here / "out" / "claims.md").read_text()
    assert "Of 4 runs 4 have not been run yet;" in claims
    assert "In short: nothing yet." in claims
    assert not (here / "out" / "small-study.png").exists()
    assert list((here / "store").iterdir()) == []


@pytest.mark.usefixtures("in_this_process")
def test_a_real_study(tmp_path, monkeypatch, capsys):
    """The command of the guide."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ORTHOFRAME_STORE", str(tmp_path / "store"))
    assert main(["study", "activations", "--scale", "smoke", "--seeds", "1", "--workers", "1"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Which activations of the features lead to the orthogonal frame? (smoke;")
    assert said.count("not run: ") == 7  # the design has another seed
    page = (tmp_path / "studies" / "activations-smoke" / "activations.md").read_text()
    assert "orthoframe study activations --scale smoke --seeds 1" in page


@pytest.mark.usefixtures("in_this_process")
def test_runs_that_fail(here, capsys, monkeypatch):
    """They are named with their reason, and the status is 1."""
    monkeypatch.setattr(orthoframe_studies, "STUDIES", {"small-study": noted_study(here / "log", ("", "raise"))})
    assert main(["study", "small-study", "--scale", "smoke", "--workers", "1", "--seeds", "1"]) == 1
    said = capsys.readouterr()
    assert "number 1, seed 10: failed: the moon is full" in said.err
    assert said.err.endswith("orthoframe: 1 run failed; the same command tries again\n")
    data = json_of(here / "studies" / "small-study-smoke" / "noted.json")
    assert data["failures"][0]["sentence"] == "the moon is full"
    assert [len(cell["results"]) for cell in data["cells"]] == [1, 0]


def test_a_local_ray_cluster(here, capsys, monkeypatch):
    pytest.importorskip("ray", reason="ray is not installed: pip install 'orthoframe-studies[ray]'")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert main(["study", "small-study", "--scale", "smoke", "--seeds", "1", "--engine", "ray", "--workers", "1"]) == 0
    data = json_of(here / "studies" / "small-study-smoke" / "small-study.json")
    assert [len(cell["results"]) for cell in data["cells"]] == [1, 1, 1]
    assert len(list((here / "store").glob("*/result.json"))) == 2
    assert capsys.readouterr().out.startswith("Do [digits]")


def studying(words, log):
    """The command on the small study, in a group of processes of its own as a terminal has."""
    os.setsid()
    # Tests that a shell has started in the background are deaf to Ctrl-C, and so is what they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.update(TERM="xterm-256color", COLUMNS="160")
    orthoframe_studies.STUDIES = {"small-study": STUDY}
    command(words, log)


def test_ctrl_c(here):
    """All processes of the terminal hear it: no traceback, no orphan, and the trainings are saved."""
    log, store = here / "log", here / "store"
    words = [
        "study",
        "small-study",
        "--scale",
        "paper",
        "--seeds",
        "1",
        "--store",
        str(store),
        "--out",
        str(here / "out"),
    ]
    with started(studying, [*words, "--workers", "1"], log) as process:
        until(lambda: list(store.glob("*/run/checkpoint.bin")), seconds=60)
        os.killpg(process.pid, signal.SIGINT)
        process.join(20)
    assert process.exitcode == 130
    assert log.read_text().splitlines()[1:] == ["orthoframe: interrupted; the same command continues where it was"]
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    (saved,) = store.glob("*/run/checkpoint.bin")
    checkpoint, _ = RunFolder(saved.parent).load_checkpoint()
    assert checkpoint.progress.state.epoch + checkpoint.progress.state.steps > 0
    assert not list(store.glob("*/result.json"))


def test_the_bar_on_a_terminal(here):
    ours, theirs = pty.openpty()
    words = ["study", "small-study", "--seeds", "1", "--workers", "1", "--store", str(here / "store")]
    with started(studying, [*words, "--out", str(here / "out")], os.ttyname(theirs)) as process:
        shown = b""
        while process.is_alive() or select.select([ours], [], [], 0)[0]:
            if select.select([ours], [], [], 0.1)[0]:
                shown += os.read(ours, 65536)
        process.join()
    os.close(theirs)
    os.close(ours)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    assert process.exitcode == 0, text
    assert re.search(r"small-study .*0/2 +running: data digits, ratio \d, seed 10", text), text
    assert re.search(r"small-study .*1/2 +running: data digits, ratio \d, seed 10; \d+ s left", text), text
    assert json.loads((here / "out" / "small-study.json").read_text())["runs"] == 2
