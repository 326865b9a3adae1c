"""Processes for tests: started in no time, and several gloo ranks of which each returns something."""

import json
import multiprocessing
import time
import traceback

import torch
import torch.distributed as dist


def forked():
    """Where processes come from: forks of one that has imported everything, which takes seconds."""
    context = multiprocessing.get_context("forkserver")
    others = ["sklearn.datasets", "matplotlib.backends.backend_agg", "matplotlib.figure", "filelock", "tyro", "jinja2"]
    context.set_forkserver_preload(["tests.training.runs", "orthoframe.cli", "orthoframe.reporting", *others])
    return context


def start(worker, ranks, folder, *arguments, seconds=120):
    """What `worker(rank, *arguments)` returned on each rank, as JSON gives it back; fails if a rank fails or hangs."""
    context = forked()
    processes = [
        context.Process(target=_run, args=(worker, rank, ranks, str(folder), *arguments)) for rank in range(ranks)
    ]
    for process in processes:
        process.start()
    deadline = time.monotonic() + seconds
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
    hung = [rank for rank, process in enumerate(processes) if process.is_alive()]
    for process in processes:
        process.kill()
    assert not hung, f"ranks {hung} did not end"
    results = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(ranks)]
    for result in results:
        assert "error" not in result, result["error"]
    return [result["value"] for result in results]


def _run(worker, rank, ranks, folder, *arguments):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=ranks)
    dist.barrier()  # A rank that has left before the other has connected to it makes that one fail.
    try:
        result = {"value": worker(rank, *arguments)}
    except Exception:
        result = {"error": traceback.format_exc()}
    with open(f"{folder}/{rank}.json", "w") as file:
        json.dump(result, file)
    dist.destroy_process_group()
