"""Results are kept whole, once."""

import errno
import fcntl
import json
import math
import os
import shutil
import signal
from dataclasses import replace

import pytest
from studies.tests.jobs import Noted, by_key, numbers, until
from tests.training.runs import interrupt, small, started

from orthoframe.runs import RunFolder
from orthoframe.training import Interrupted, Loop, Stopped, train
from orthoframe_studies import JobOutcome, JobResult, Store, StudyError, Training, _store, compute, key, store_folder
from orthoframe_studies.command import listening


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


@pytest.fixture
def job(tmp_path):
    return Noted(str(tmp_path / "log"), 7)


def test_a_result_is_the_same_before_and_after(store, job, tmp_path):
    first, second = (compute(key(job), job, store, None) for _ in range(2))
    assert numbers(tmp_path / "log") == [7]
    assert first.failure is second.failure is None
    assert first.result.final["value"] == second.result.final["value"] == 7
    assert math.isnan(second.result.final["lost"])
    assert first.seconds == second.seconds > 0
    data = json.loads((store.folder(key(job)) / "result.json").read_text())
    assert data["job"] == job.to_dict()
    assert set(data) == {"job", "result", "seconds", "commit"}


@pytest.mark.parametrize(
    "content",
    [b"", b'{"result": {"fin', b"[]", b"\xff\xfe", b'{"result": {}}', b'{"result": [], "seconds": 1}', b"null"],
    ids=str,
)
def test_a_broken_result_is_computed_again(content, store, job, tmp_path):
    compute(key(job), job, store, None)
    (store.folder(key(job)) / "result.json").write_bytes(content)
    assert store.get(key(job)) is None
    assert compute(key(job), job, store, None).result.final["value"] == 7
    assert numbers(tmp_path / "log") == [7, 7]
    assert store.get(key(job)).result.final["value"] == 7


def test_what_a_killed_process_left_is_removed(store, job):
    leftover = store.folder(key(job)) / ".orthoframe.half"
    leftover.parent.mkdir(parents=True)
    leftover.write_text("half")
    compute(key(job), job, store, None)
    assert {path.name for path in leftover.parent.iterdir()} <= {"result.json", ".lock"}


def test_a_failure_is_not_kept(store, tmp_path):
    job = Noted(str(tmp_path / "log"), 1, "raise")
    for _ in range(2):
        assert compute(key(job), job, store, None).failure == "the moon is full"
    assert numbers(tmp_path / "log") == [1, 1]


def test_a_disk_that_is_full_is_a_failure(store, job, monkeypatch):
    def full(path, write):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("orthoframe_studies._store.write_atomic", full)
    done = compute(key(job), job, store, None)
    assert done.failure == f"{store.folder(key(job)) / 'result.json'}: No space left on device"


def left_by(job, store, monkeypatch):
    """The folder of a run that a killed process left, in the second epoch."""

    def stops(settings, run, plan=None):
        interrupt(settings, run, epoch=1, steps=2)
        raise Interrupted

    with monkeypatch.context() as patched:
        patched.setattr("orthoframe_studies._training_job.train", stops)
        done = compute(key(job), job, store, None)
    assert done.failure == "unexpected Interrupted"
    return store.folder(key(job)) / "run"


def test_a_training_goes_on_from_its_checkpoint(store, monkeypatch):
    job = Training(small(seed=3))
    left_by(job, store, monkeypatch)
    loaded = []
    restore = Loop.restore

    def noted(loop, checkpoint, records):
        loaded.append((checkpoint.progress.state.epoch, checkpoint.progress.state.steps))
        restore(loop, checkpoint, records)

    monkeypatch.setattr(Loop, "restore", noted)
    done = compute(key(job), job, store, None)
    assert loaded == [(1, 2)]
    assert done.note is None
    whole = compute(key(job), job, Store(store.path / "other"), None)
    for part in (done, whole):
        assert part.failure is None
        del part.result.final["seconds"]
    assert done.result == whole.result


def test_a_run_of_another_job_that_lies_in_the_folder_is_not_taken(store):
    """A copied folder has another seed: its numbers would be stored under this key."""
    job, other = Training(small(seed=3)), Training(small(seed=4))
    interrupt(other.settings, store.folder(key(job)) / "run", epoch=1, steps=2)
    done = compute(key(job), job, store, None)
    whole = compute(key(job), job, Store(store.path / "other"), None)
    assert done.failure is None
    assert done.note.endswith("run has the run of another job")
    assert done.result.final["loss"] == whole.result.final["loss"]


def test_a_run_of_the_same_settings_without_the_key_is_not_taken(store):
    """Somebody's own, which is over and whose weights are others: they would be stored under this key."""
    job = Training(small(seed=3))
    run = store.folder(key(job)) / "run"
    train(job.settings, run)
    checkpoint, _ = RunFolder(run).load_checkpoint()
    weights = {name: value * 1.5 for name, value in checkpoint.weights.items()}
    RunFolder(run).save_checkpoint(replace(checkpoint, weights=weights))
    done = compute(key(job), job, store, None)
    whole = compute(key(job), job, Store(store.path / "other"), None)
    assert done.note.endswith("run has the run of another job")
    assert done.result.final["delta_of"] == whole.result.final["delta_of"]


def test_files_of_another_run_over_those_of_this_one(store, monkeypatch, tmp_path):
    """They leave the key where it is."""
    job, other = Training(small(seed=3)), Training(small(seed=4))
    run = left_by(job, store, monkeypatch)
    interrupt(other.settings, tmp_path / "other", epoch=1, steps=2)
    shutil.copytree(tmp_path / "other", run, dirs_exist_ok=True)
    done = compute(key(job), job, store, None)
    assert done.note.endswith("run has the run of another job")
    assert done.result.final["loss"] == compute(key(job), job, Store(tmp_path / "whole"), None).result.final["loss"]


def test_a_run_that_cannot_go_on_is_begun_anew(store, monkeypatch):
    """Once, and it says so."""
    job = Training(small(seed=3))
    run = left_by(job, store, monkeypatch)
    for checkpoint in run.glob("checkpoint*"):
        checkpoint.write_bytes(b"broken")
    begun = []

    def counted(*arguments, **named):
        begun.append(arguments)
        return train(*arguments, **named)

    monkeypatch.setattr("orthoframe_studies._training_job.train", counted)
    done = compute(key(job), job, store, None)
    assert done.failure is None
    assert len(begun) == 1
    assert done.note.startswith("begun anew, because its run cannot go on: ")
    assert "no checkpoint is left to resume from" in done.note
    assert not run.exists()
    assert compute(key(job), job, store, None).note is None  # it has its result


def test_what_stops_a_run_on_its_way_does_not_cost_it(store, monkeypatch):
    """A full disk, or too little memory: it may go on another time."""
    job = Training(small(seed=3))
    run = left_by(job, store, monkeypatch)

    def stopped(*_, **__):
        raise Stopped("no space left")

    with monkeypatch.context() as patched:
        patched.setattr("orthoframe_studies._training_job.resume", stopped)
        assert compute(key(job), job, store, None).failure == "no space left"
    assert (run / "checkpoint.bin").exists()
    assert compute(key(job), job, store, None).note is None


def test_where_it_is(tmp_path, monkeypatch):
    monkeypatch.delenv("ORTHOFRAME_STORE", raising=False)
    assert store_folder().name == "studies"
    assert store_folder().parent.name == "orthoframe"
    monkeypatch.setenv("ORTHOFRAME_STORE", str(tmp_path))
    assert store_folder() == tmp_path
    assert store_folder("other").name == "other"
    (tmp_path / "file").write_text("")
    with pytest.raises(StudyError, match="Not a directory; choose another store"):
        Store(tmp_path / "file" / "store").check()


def computing(job, folder, out):
    done = None
    while done is None:
        done = compute(key(job), job, Store(folder), None)
    with open(out, "w") as file:
        json.dump(done.result.final["value"], file)


def test_two_processes_that_want_the_same_job(store, tmp_path):
    """The second takes the result of the first."""
    job = Noted(str(tmp_path / "log"), 7, "wait")
    with (
        started(computing, job, store.path, tmp_path / "a") as first,
        started(computing, job, store.path, tmp_path / "b") as second,
    ):
        until(lambda: numbers(tmp_path / "log") == [7])
        (tmp_path / "go").touch()
        first.join(30)
        second.join(30)
    assert first.exitcode == second.exitcode == 0
    assert (tmp_path / "a").read_text() == (tmp_path / "b").read_text() == "7.0"
    assert numbers(tmp_path / "log") == [7]


def test_a_process_that_dies_lets_go(store, tmp_path, monkeypatch):
    monkeypatch.setattr(_store, "_WAIT_SECONDS", 0.0)
    job = Noted(str(tmp_path / "log"), 7, "wait")
    with started(computing, job, store.path, tmp_path / "a") as first:
        until(lambda: numbers(tmp_path / "log") == [7])
        assert compute(key(job), job, store, None) is None  # another has it
        os.kill(first.pid, signal.SIGKILL)
        first.join()
    (tmp_path / "go").touch()
    assert compute(key(job), job, store, None).result.final["value"] == 7
    assert numbers(tmp_path / "log") == [7, 7]


def test_keys_are_folders(store, job):
    (name,) = by_key(job)
    store.put(name, job, JobOutcome(JobResult({}, {}), 1.0))
    assert [path.name for path in store.path.iterdir()] == [name]


def test_jobs_on_a_file_system_without_locks(store, job, tmp_path, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    first, second = (compute(key(job), job, store, None) for _ in range(2))
    assert first.failure is second.failure is None
    assert numbers(tmp_path / "log") == [7]
    with store.claimed(key(job)) as ours:
        assert ours
        assert compute(key(job), job, store, None) is None  # another process has it


def test_what_is_to_be_known_of_a_job_is_printed(capsys):
    with listening("frames") as listener:
        listener.on_plan(1, 0)
        listener.on_done("seed 1", JobOutcome(None, 1.0, note="begun anew, because its run cannot go on"))
    assert "seed 1: 1.0 s (begun anew, because its run cannot go on)" in capsys.readouterr().err
