"""What a study says when it has been run."""

import json
import math
import subprocess
from pathlib import Path

import pytest
from tests.studies.small_study import STUDY, noted_study

import orthoframe
from orthoframe.reporting._study_words import deciding
from orthoframe.studies import _runner
from orthoframe.studies._catalogue import _MODULES, STUDIES, _Catalogue
from orthoframe.studies._jobs import key
from orthoframe.studies._outcome import as_json
from orthoframe.studies._runner import Watcher, run_study
from orthoframe.studies._source import source_commit
from orthoframe.studies._store import Done, Store
from orthoframe.studies._study import Study
from orthoframe.studies._work import compute


def filled(study, folder, result, seeds=2):
    """A store with a result for each job."""
    store = Store(folder)
    for (number, seed), job in study.jobs("smoke", seeds).items():
        if (made := result(number, seed)) is not None:
            store.put(key(job), job, Done(made, 2.0))
    return store


def result(number, seed):
    final = {"delta_of": 0.1 * (number + 1) + 0.01 * seed, "epochs_to_of": None if number == 0 else 2.0 + seed}
    curve = {"epoch": [1, 2], "delta_of": [float("nan"), 0.5]}
    return {"final": final, "curve": curve, "cosines": [[1.0, float("nan")], [0.5, 1.0]]}


def test_everything_is_in_the_json(tmp_path):
    """Written, read, and compared with the results that were put in."""
    plans = []
    store = filled(STUDY, tmp_path, lambda number, seed: result(min(number, 1), seed))
    outcome = run_study(STUDY, "smoke", 2, "local", store, None, 1, Watcher(on_plan=lambda *plan: plans.append(plan)))
    assert plans == [(4, 4)]  # the third cell has the job of the second
    data = json.loads(as_json(outcome.to_dict("orthoframe study small-study")))
    assert data == outcome.to_dict("orthoframe study small-study")
    assert (data["study"], data["question"]) == (STUDY.name, STUDY.question)
    assert (data["scale"], data["seeds"], data["runs"], data["reused"]) == ("smoke", 2, 4, 4)
    assert data["command"] == "orthoframe study small-study"
    assert data["version"] == orthoframe.__version__
    assert data["seconds"] == 8.0
    assert data["columns"] == list(STUDY.columns)
    assert data["panels"][0]["quantity"] == "delta_of"
    first, second, third = data["cells"]
    assert first["where"] == {"data": "digits", "ratio": 1}
    assert set(first["results"]) == {"0", "1"}
    assert set(third["results"]) == {"0"}
    assert first["results"]["1"] == {
        "final": {"delta_of": 0.11, "epochs_to_of": None},
        "curve": {"epoch": [1, 2], "delta_of": [None, 0.5]},
        "cosines": [[1.0, None], [0.5, 1.0]],
    }
    assert second["summary"]["delta_of"]["values"] == pytest.approx({"0": 0.2, "1": 0.21})
    assert second["summary"]["delta_of"]["mean"] == pytest.approx(math.sqrt(0.2 * 0.21))
    assert first["summary"]["epochs_to_of"] == {
        "mean": None,
        "low": 2.0,  # longer than the run
        "high": None,
        "values": {"0": None, "1": None},
    }
    near, never, ratio, letters = data["claims"]
    assert [part["where"] for part in near["comparisons"]] == [cell["where"] for cell in data["cells"]]
    assert near["rule"] == "delta_of at most 0.001"
    assert near["decision"] == "not supported"
    assert never["comparisons"][0]["values"] == {"0": None, "1": None}  # the curve decides, and it does not get there
    assert ratio["comparisons"][0]["values"] == pytest.approx({"0": 0.5, "1": 0.11 / 0.21})
    assert ratio["decision"] == "supported"
    assert letters["comparisons"] == []
    assert letters["decision"] == "inconclusive"
    assert deciding(near)["where"] == {"data": "digits", "ratio": 2}
    assert deciding(letters) is None


def here(jobs, store, data_dir, workers, on_done, on_start):
    """An engine without processes."""
    for name, job in jobs.items():
        on_start(name)
        on_done(name, compute(name, job, store, data_dir))


def test_runs_that_failed_are_named_and_the_rest_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(_runner, "_engine", lambda name: here)
    log = tmp_path / "log"
    study = noted_study(log, ("", "raise"))
    made = {"final": {"value": 1.0}, "curve": {}, "cosines": None}
    store = filled(study, tmp_path / "store", lambda number, seed: made if number == 0 else None)
    told = []
    outcome = run_study(study, "smoke", 2, "local", store, None, 1, Watcher(on_done=lambda *done: told.append(done)))
    assert [name for name, _ in told] == ["number 1, seed 0", "number 1, seed 1"]
    data = outcome.to_dict("")
    assert [(failure["where"], failure["seed"]) for failure in data["failures"]] == [
        ({"number": 1}, 0),
        ({"number": 1}, 1),
    ]
    assert {failure["sentence"] for failure in data["failures"]} == {"the moon is full"}
    assert [len(cell["results"]) for cell in data["cells"]] == [2, 0]
    assert data["claims"][0]["decision"] == "inconclusive"


def test_the_commit_is_that_of_the_source():
    found, modified = source_commit()
    here = subprocess.run(["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True)
    if here.returncode != 0:
        assert (found, modified) == (None, None)
    else:
        assert found == here.stdout.strip()
        assert modified in (True, False)


def test_no_commit_outside_a_repository(tmp_path, monkeypatch):
    monkeypatch.setattr("orthoframe.studies._source.__file__", str(tmp_path / "_source.py"))
    source_commit.cache_clear()
    assert source_commit() == (None, None)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)  # somebody else's
    (tmp_path / "_source.py").touch()
    source_commit.cache_clear()
    assert source_commit() == (None, None)
    source_commit.cache_clear()


def test_the_catalogue():
    assert isinstance(STUDIES, _Catalogue)
    assert [name for name in _MODULES if name.replace("_", "-") in STUDIES] == [
        name.replace("-", "_") for name in STUDIES
    ]
    assert len(STUDIES) == len(list(STUDIES))
    for study in STUDIES.values():
        assert isinstance(study, Study)
    with pytest.raises(KeyError):
        STUDIES["nothing"]
