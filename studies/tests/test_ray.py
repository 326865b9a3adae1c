"""A Ray cluster of two nodes on this machine, of which one is killed."""

import os
import signal
import sys
import threading

import pytest
from studies.tests.jobs import Noted, by_key, notes, numbers, until

from orthoframe_studies import Store, StudyError, key
from orthoframe_studies._ray import run_jobs

ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'orthoframe-studies[ray]'")


@pytest.fixture
def cluster(monkeypatch):
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    local = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    monkeypatch.setenv("RAY_ADDRESS", local.address)
    yield local
    ray.shutdown()
    local.shutdown()


def test_a_node_that_is_killed(cluster, tmp_path, capsys):
    """Its job is run again, and every job has its result; one that raises and one that kills itself are named."""
    node = cluster.add_node(num_cpus=1)
    log, store = tmp_path / "log", Store(tmp_path / "store")
    waiting = [Noted(str(log), number, "wait") for number in range(2)]
    jobs = [*waiting, Noted(str(log), 2, "raise"), Noted(str(log), 3), Noted(str(log), 4, "kill")]

    def kill():
        until(lambda: numbers(log) == [0, 1], seconds=180)
        (raylet,) = node.all_processes["raylet"]
        (worker,) = [process for _, process, where in notes(log) if where == node.node_id]
        os.kill(raylet.process.pid, signal.SIGKILL)
        os.kill(worker, signal.SIGKILL)
        (tmp_path / "go").touch()

    killer = threading.Thread(target=kill)
    killer.start()
    began, ended = [], {}
    try:
        run_jobs(by_key(*jobs), store, None, None, ended.__setitem__, began.append)
    finally:
        (tmp_path / "go").touch()
        killer.join()
    assert began == list(by_key(*jobs))
    results = [ended[key(job)] for job in jobs]
    for number in (0, 1, 3):
        assert results[number].failure is None
        assert results[number].result.final["value"] == number
        assert results[number].result.final["threads"] == 1
        assert store.get(key(jobs[number])).result.final["value"] == number
    assert results[2].failure == "the moon is full"
    assert results[4].failure.startswith("its process died 4 times, or Ray lost it: ")
    assert results[4].failure.count("\n") == 0
    ran = {number: [where for other, _, where in notes(log) if other == number] for number in range(5)}
    lost = next(number for number in range(2) if len(ran[number]) > 1)
    assert ran[lost][0] == node.node_id
    assert node.node_id not in ran[lost][1:]
    assert len(ran[2]) == 1
    assert len(ran[4]) == 4
    assert capsys.readouterr().out == ""


def test_a_cluster_that_does_not_answer(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "nonsense")
    with pytest.raises(StudyError, match="the Ray cluster at RAY_ADDRESS=nonsense cannot be reached") as refused:
        run_jobs(by_key(Noted("log", 0)), Store(tmp_path), None, None, print, print)
    assert "\n" not in str(refused.value)


def test_without_ray(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(StudyError, match=r"needs the package ray: pip install 'orthoframe-studies\[ray\]'"):
        run_jobs(by_key(Noted("log", 0)), Store(tmp_path), None, None, print, print)
