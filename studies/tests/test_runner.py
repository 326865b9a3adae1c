"""What a study says when it has been run."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from studies.tests import study_results
from studies.tests.jobs import run_here
from studies.tests.small_study import STUDY, noted_study

import orthoframe
from orthoframe.errors import InputError
from orthoframe_studies import (
    FIRST_SEED,
    STUDIES,
    CellResult,
    Decision,
    JobOutcome,
    JobResult,
    Store,
    Study,
    StudyListener,
    _pool,
    catalogue,
    key,
    read_result,
    run_study,
    write_result,
)
from orthoframe_studies._store import source_commit


def filled(study, folder, result, seeds=2):
    """A store with a result for each job."""
    store = Store(folder)
    for (number, seed), job in study.jobs("smoke", seeds).items():
        if (made := result(number, seed)) is not None:
            store.put(key(job), job, JobOutcome(made, 2.0))
    return store


def result(number, seed):
    final = {
        "delta_of": 0.1 * (number + 1) + 0.01 * (seed - FIRST_SEED),
        "epochs_to_of": None if number == 0 else 2.0 + seed,
    }
    curve = {"epoch": [1, 2], "delta_of": [float("nan"), 0.5]}
    return JobResult(final, curve, [[1.0, float("nan")], [0.5, 1.0]])


def test_everything_is_in_the_json(tmp_path):
    """Written, read, and compared with the results that were put in."""
    plans = []
    store = filled(STUDY, tmp_path, lambda number, seed: result(min(number, 1), seed))
    listener = StudyListener(on_plan=lambda *plan: plans.append(plan))
    outcome = run_study(STUDY, "smoke", store, seeds=2, command="orthoframe study small-study", listener=listener)
    assert plans == [(4, 4)]  # the third cell has the job of the second
    write_result(outcome, tmp_path / "small-study.json")
    again = read_result(tmp_path / "small-study.json")
    write_result(again, tmp_path / "again.json")
    assert [finding.decision for finding in again.findings] == [finding.decision for finding in outcome.findings]
    data, written = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("again", "small-study"))
    assert data == written
    assert (data["study"], data["question"]) == (STUDY.name, STUDY.question)
    assert (data["scale"], data["seeds"], data["first_seed"]) == ("smoke", 2, 10)
    assert (data["runs"], data["reused"], data["missing"]) == (4, 4, 0)
    assert data["command"] == "orthoframe study small-study"
    assert data["version"] == orthoframe.__version__
    assert data["seconds"] == 8.0
    assert data["columns"] == list(STUDY.columns)
    assert data["panels"][0]["quantity"] == "delta_of"
    first, second, third = data["cells"]
    assert first["where"] == {"data": "digits", "ratio": 1}
    assert set(first["results"]) == set(third["results"]) == {"10", "11"}
    assert first["results"]["10"]["cosines"] == [[1.0, None], [0.5, 1.0]]
    assert first["results"]["11"] == {
        "final": {"delta_of": 0.11, "epochs_to_of": None},
        "curve": {"epoch": [1, 2], "delta_of": [None, 0.5]},
        "cosines": None,  # those of the first seed are enough
    }
    assert second["summary"]["delta_of"]["values"] == pytest.approx({"10": 0.2, "11": 0.21})
    assert second["summary"]["delta_of"]["kind"] == "median"
    assert [second["summary"]["delta_of"][name] for name in ("centre", "low", "high")] == [0.205, 0.2, 0.21]
    assert first["summary"]["epochs_to_of"] == {
        "centre": None,
        "low": 2.0,  # longer than the run
        "high": None,
        "values": {"10": None, "11": None},
        "kind": "median",
    }
    near, never, ratio, letters = data["findings"]
    assert [part["where"] for part in near["comparisons"]] == [cell["where"] for cell in data["cells"]]
    assert (near["claim"]["quantity"], near["claim"]["at_most"]) == ("delta_of", 0.001)
    assert near["decision"] == "not supported"
    (part,) = never["comparisons"][:1]
    assert part["interval"]["values"] == {"10": None, "11": None}  # the curve decides, and it does not get there
    assert ratio["comparisons"][0]["interval"]["values"] == pytest.approx({"10": 0.5, "11": 0.11 / 0.21})
    assert ratio["comparisons"][0]["tally"] == {"yes": 2, "no": 0, "untrained": 0, "unknown": 0, "missing": 0}
    assert ratio["decision"] == "inconclusive"  # two runs are too few
    assert letters["comparisons"] == []
    assert letters["decision"] == "inconclusive"
    assert again.findings[0].deciding.where == {"data": "digits", "ratio": 2}
    assert again.findings[3].deciding is None
    assert again.decision is Decision.NOT_SUPPORTED


def test_runs_that_failed_are_named_and_the_rest_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(_pool, "run_jobs", run_here)
    log = tmp_path / "log"
    study = noted_study(log, ("", "raise"))
    made = JobResult({"value": 1.0}, {})
    store = filled(study, tmp_path / "store", lambda number, seed: made if number == 0 else None)
    progress = []
    listener = StudyListener(on_done=lambda *done: progress.append(done))
    result = run_study(study, "smoke", store, seeds=2, listener=listener)
    assert [name for name, _ in progress] == ["number 1, seed 10", "number 1, seed 11"]
    assert [(failure.where, failure.seed) for failure in result.failures] == [({"number": 1}, 10), ({"number": 1}, 11)]
    assert {failure.sentence for failure in result.failures} == {"the moon is full"}
    assert [len(cell.results) for cell in result.cells] == [2, 0]
    assert result.findings[0].decision is Decision.NOT_RUN


def test_what_the_store_has_without_running(tmp_path):
    """Some seeds of one cell, none of the other: nothing fails, and what is missing is said."""
    study = noted_study(tmp_path / "log", ("", "raise"))
    store = filled(
        study, tmp_path / "store", lambda number, seed: JobResult({"value": 1.0}, {}) if number == 0 else None
    )
    result = run_study(study, "smoke", store, collect=True)
    assert (result.runs, result.missing, result.failures) == (4, 2, ())
    assert [(len(cell.results), cell.seeds) for cell in result.cells] == [(2, 2), (0, 2)]
    assert result.findings[0].decision is Decision.NOT_RUN
    assert not (tmp_path / "log").exists()


def test_fewer_seeds_do_not_change_the_design(tmp_path):
    store = filled(STUDY, tmp_path, lambda number, seed: result(min(number, 1), seed))
    outcome = run_study(STUDY, "smoke", store, seeds=1)
    assert (outcome.seeds, outcome.runs) == (2, 2)
    assert [(len(cell.results), cell.seeds) for cell in outcome.cells] == [(1, 2)] * 3
    assert outcome.findings[0].decision is Decision.NOT_RUN


def test_what_is_no_result_is_said(tmp_path):
    file = tmp_path / "x.json"
    for content, said in (("{", "x.json: not the result of a study"), ('{"study": 1}', "`str`, got `int`")):
        file.write_text(content)
        with pytest.raises(InputError, match=said):
            read_result(file)
    with pytest.raises(InputError, match="No such file"):
        read_result(tmp_path / "y.json")


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ({"ratio": [1]}, {"ratio": 2}, "coordinates of cells must be numbers or strings"),
        ({"ratio": {}}, {"ratio": 2}, "coordinates of cells must be numbers or strings"),
        ({"ratio": 1}, {"ratio": 1}, "two cells have the same coordinates"),
        ({"ratio": 1, "data": None}, {"ratio": 1.0}, "two cells have the same coordinates"),
    ],
)
def test_cells_that_pictures_cannot_tell_apart(tmp_path, first, second, said):
    result = study_results.study("x", [CellResult(where, {}, {}, 3) for where in (first, second)], [])
    write_result(result, tmp_path / "x.json")
    with pytest.raises(InputError, match=rf"x.json: not the result of a study \({said}"):
        read_result(tmp_path / "x.json")


def test_the_commit_is_that_of_the_source():
    commit, modified = source_commit()
    here = subprocess.run(["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True)
    if here.returncode != 0:
        assert (commit, modified) == (None, None)
    else:
        assert commit == here.stdout.strip()
        assert modified in (True, False)


def test_no_commit_outside_a_repository(tmp_path, monkeypatch):
    monkeypatch.setattr("orthoframe_studies._store.__file__", str(tmp_path / "_store.py"))
    source_commit.cache_clear()
    assert source_commit() == (None, None)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)  # somebody else's
    (tmp_path / "_store.py").touch()
    source_commit.cache_clear()
    assert source_commit() == (None, None)
    source_commit.cache_clear()


def test_the_catalogue():
    assert "paper-size" in STUDIES
    assert "paper_size" not in STUDIES
    assert len(STUDIES) == len(list(STUDIES))
    for study in STUDIES.values():
        assert isinstance(study, Study)
    with pytest.raises(KeyError):
        STUDIES["nothing"]


def test_a_study_is_a_file_in_the_catalogue(tmp_path, monkeypatch):
    """Nothing else names it."""
    (tmp_path / "one_more.py").write_text("from studies.tests.small_study import STUDY\n")
    monkeypatch.setattr(catalogue, "__path__", [*catalogue.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "orthoframe_studies.catalogue.one_more", raising=False)
    assert list(STUDIES)[-1] == "one-more"
    assert STUDIES["one-more"].question == STUDY.question


def test_runs_of_an_earlier_result_are_not_run_again_where_the_store_is_another(tmp_path, monkeypatch):
    monkeypatch.setattr(_pool, "run_jobs", run_here)
    log = tmp_path / "log"
    first = run_study(noted_study(log, ("", "")), "smoke", Store(tmp_path / "store"), seeds=2)
    write_result(first, tmp_path / "first.json")
    stored = read_result(tmp_path / "first.json")
    assert len(log.read_text().splitlines()) == len(stored.records) == 4
    # One cell more, and an empty store: only what is new is run.
    again = run_study(noted_study(log, ("", "", "")), "smoke", Store(tmp_path / "empty"), seeds=2, earlier=stored)
    assert len(log.read_text().splitlines()) == 6
    assert (again.reused, again.missing) == (4, 0)
    assert [dict(cell.results) for cell in again.cells[:2]] == [dict(cell.results) for cell in stored.cells]
    assert again.records.keys() > stored.records.keys()
    # What the records do not have a result for is run.
    broken = replace(stored, cells=stored.cells[:1])
    run_study(noted_study(log, ("", "")), "smoke", Store(tmp_path / "other"), seeds=2, earlier=broken)
    assert len(log.read_text().splitlines()) == 8
