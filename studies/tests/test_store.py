"""Results are kept whole, once."""

import errno
import fcntl
import json
import math
import os
import signal

import pytest
from studies.tests.jobs import Noted, by_key, numbers, until
from tests.training.runs import interrupt, small, started

from orthoframe.training import Loop
from orthoframe_studies import JobOutcome, JobResult, Store, StudyError, Training, _store, compute, key, store_folder


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


def test_a_training_goes_on_from_its_checkpoint(store, monkeypatch):
    job = Training(small(seed=3))
    interrupt(job.settings, store.folder(key(job)) / "run", epoch=1, steps=2)
    loaded = []
    restore = Loop.restore

    def noted(loop, checkpoint):
        loaded.append((checkpoint.progress.state.epoch, checkpoint.progress.state.steps))
        restore(loop, checkpoint)

    monkeypatch.setattr(Loop, "restore", noted)
    done = compute(key(job), job, store, None)
    assert loaded == [(1, 2)]
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
    assert done.result.final["loss"] == whole.result.final["loss"]


def test_a_run_that_cannot_go_on_is_begun_anew(store):
    job = Training(small(seed=3))
    run = store.folder(key(job)) / "run"
    interrupt(job.settings, run, epoch=1, steps=2)
    for checkpoint in run.glob("checkpoint*"):
        checkpoint.write_bytes(b"broken")
    done = compute(key(job), job, store, None)
    assert done.failure is None
    assert not run.exists()


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
