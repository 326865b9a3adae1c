"""Jobs on the cores of this machine: one that dies takes nothing with it, and nothing is left behind."""

import os
import signal
from multiprocessing import resource_tracker

import pytest
from studies.tests.jobs import Noted, by_key, is_alive, notes, numbers, until
from studies.tests.small_study import noted_study
from tests.training.runs import started

from orthoframe_studies import Store, key, run_study
from orthoframe_studies._pool import _death, run_jobs


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def test_jobs_that_fail_fail_alone(store, tmp_path):
    log = tmp_path / "log"
    jobs = [Noted(str(log), number, {1: "raise", 2: "kill"}.get(number, "")) for number in range(6)]
    began, ended = [], {}
    before = os.environ.get("OMP_NUM_THREADS")
    run_jobs(by_key(*jobs), store, None, 1, ended.__setitem__, began.append)
    assert os.environ.get("OMP_NUM_THREADS") == before
    assert began == list(ended) == list(by_key(*jobs))
    results = [ended[key(job)] for job in jobs]
    assert results[1].failure == "the moon is full"
    assert "killed" in results[2].failure
    for number in (0, 3, 4, 5):
        assert results[number].failure is None
        assert results[number].result.final["value"] == number
        assert results[number].result.final["threads"] == 1
        assert store.get(key(jobs[number])) is not None
    assert numbers(log) == [0, 1, 2, 3, 4, 5]  # a job that fails is not repeated
    # A process stays for the next job, and only the one that died is replaced.
    processes = [process for _, process, _ in notes(log)]
    assert processes[0] == processes[1] == processes[2] != processes[3] == processes[4] == processes[5]
    assert not any(map(is_alive, processes))


def test_how_a_death_is_told():
    assert _death(-signal.SIGSEGV) == "its process was ended by SIGSEGV"
    assert _death(3) == "its process ended with status 3"


def test_a_system_without_sigkill_and_masks(store, tmp_path, monkeypatch):
    """Such as Windows, which starts no resource tracker either."""
    resource_tracker.ensure_running()
    (job,), ended = [Noted(str(tmp_path / "log"), 0, "")], {}
    with monkeypatch.context() as poor:
        poor.delattr(signal, "pthread_sigmask")
        run_jobs(by_key(job), store, None, 1, ended.__setitem__, lambda _: None)
    assert ended[key(job)].failure is None
    monkeypatch.delattr(signal, "SIGKILL")
    assert "killed" in _death(-9)


def studying(log, acts, folder, seeds=1, workers=2):
    run_study(noted_study(log, acts), "smoke", Store(folder), seeds=seeds, workers=workers)


def test_kill_9_of_a_study_and_again(store, tmp_path):
    """What had ended is not run again, no process stays behind, and another seed runs only that seed."""
    log, acts = tmp_path / "log", ("", "", "wait", "")
    with started(studying, log, acts, store.path) as process:
        until(lambda: 2 in numbers(log) and len(list(store.path.glob("*/result.json"))) == 3)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    until(lambda: not any(is_alive(worker) for _, worker, _ in notes(log)), seconds=10)
    assert numbers(log) == [0, 1, 2, 3]
    (tmp_path / "go").touch()
    result = run_study(noted_study(log, acts), "smoke", store, seeds=2, workers=1)
    assert numbers(log) == [0, 1, 2, 2, 3, 10, 11, 12, 13]
    assert (result.runs, result.reused, result.failures) == (8, 3, ())
    assert [list(cell.results) for cell in result.cells] == [[10, 11]] * 4
    assert result.findings[0].decision == "inconclusive"  # two runs per cell are too few


def test_two_studies_at_once_share_the_work(store, tmp_path):
    log = tmp_path / "log"
    acts = ("", "wait", "", "")
    with started(studying, log, acts, store.path, 1, 1) as process:
        until(lambda: 1 in numbers(log))
        with started(studying, log, acts, store.path, 1, 1) as other:
            until(lambda: numbers(log) == [0, 1, 2, 3])  # the second goes on with what nobody has
            (tmp_path / "go").touch()
            process.join(30)
            other.join(30)
    assert process.exitcode == other.exitcode == 0
    assert numbers(log) == [0, 1, 2, 3]
