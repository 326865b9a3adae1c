"""`orthoframe report` as a user runs it."""

import shutil
from pathlib import Path

import pytest

from orthoframe.cli import main
from run_folders import write_run


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_one_run(here, finished_run, capsys):
    shutil.copytree(finished_run, "run")
    written = Path("run/report.html").read_bytes()
    Path("run/report.html").unlink()
    assert main(["report", "run"]) == 0
    assert capsys.readouterr().out == "run/report.html\n"
    assert len(Path("run/report.html").read_bytes()) == pytest.approx(len(written), rel=0.01)
    assert main(["report", "run", "--out", "elsewhere.html"]) == 0
    assert "The frame is not reached" in Path("elsewhere.html").read_text()


def test_several_runs(here, finished_run, capsys):
    write_run(here / "other", epochs=6)
    assert main(["report", str(finished_run), "other"]) == 0
    assert capsys.readouterr().out == "comparison.html\n"
    text = Path("comparison.html").read_text()
    assert finished_run.name in text
    assert "other" in text
    assert not Path("other/report.html").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["missing"], "missing: there is no such folder"),
        (["empty"], "a run folder has config.json, metrics.csv, geometry.jsonl"),
        (["run", "missing"], "missing: there is no such folder"),
        (["broken"], "metrics.csv"),
        (["run", "--out", "report.pdf"], "--out must end in .html, not report.pdf"),
        (["run", "--out", "no/where.html"], "cannot be written"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_a_sentence_and_status_2(words, sentence, here, capsys):
    Path("empty").mkdir()
    for name in ("run", "broken"):
        write_run(here / name, epochs=2)
    Path("broken/metrics.csv").write_text("epoch,loss\n1\n")
    assert main(["report", *words]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("orthoframe: ")
    assert sentence in said.err
    assert said.err.count("\n") == 1
    assert not list(here.rglob("*.html")) + list(here.rglob("*.pdf"))


@pytest.mark.parametrize("epochs", [0, 2])
def test_a_run_that_is_not_finished(epochs, here, capsys):
    """Interrupted in the first epoch, or later."""
    write_run(here / "run", epochs=2)
    Path("run/verdict.json").unlink()
    if not epochs:
        Path("run/metrics.csv").write_text(Path("run/metrics.csv").read_text().splitlines()[0] + "\n")
        Path("run/geometry.jsonl").write_text("")
    write_run(here / "other", epochs=3)
    assert main(["report", "run"]) == 0
    text = Path("run/report.html").read_text()
    assert f"after epoch {epochs} of 2" in text
    assert "resume the run in run" in text
    assert main(["report", "run", "other"]) == 0


def test_without_runs(here, capsys):
    try:
        status = main(["report"])
    except SystemExit as ended:
        status = ended.code
    assert status == 2
    assert capsys.readouterr().out == ""
