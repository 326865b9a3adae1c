"""Start runs that several processes share, again and again, and count the processes that do not end with status 0.

Each start is a whole training of 180 digits in processes as torchrun would start them, which end as Python ends: an
abort on the way out counts. They are forks of this process, which has imported everything, because imports would take
ten times as long as the rest. The limit is that of Clopper and Pearson: with 95 % confidence, no more starts than that
end badly.

    python benchmarks/process_exits.py --json docs/results/process-exits.json
"""

import argparse
import gc
import json
import os
import platform
import shutil
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import NoReturn

import torch
import torch.distributed.nn.functional  # as every run of several processes does before it starts
from scipy.stats import beta

from orthoframe.training import Settings, train

SETTINGS = Settings.of(recipe="plain", majority=24, ratio=2.0, width=16, epochs=1, batch_size=32, precision="32")
CONFIDENCE, SECONDS = 0.95, 300.0  # a start that takes longer has hung


def start(processes: int) -> list[tuple[int, str]]:
    """Status of each process of one run, and what it wrote to stderr; minus the number of a signal that ended it."""
    # Neither folder nor socket in a `with`, which the forks would leave, too.
    folder, meeting = Path(tempfile.mkdtemp()), socket.socket()
    meeting.bind(("127.0.0.1", 0))
    port = meeting.getsockname()[1]
    meeting.close()
    ranks = [os.fork() or run(rank, processes, port, folder) for rank in range(processes)]
    statuses = wait(ranks)
    logs = [(folder / f"{rank}.log").read_text() for rank in range(processes)]
    shutil.rmtree(folder)
    return list(zip(statuses, logs, strict=True))


def run(rank: int, processes: int, port: int, folder: Path) -> NoReturn:
    """One process, to its end."""
    log = os.open(folder / f"{rank}.log", os.O_CREAT | os.O_WRONLY)
    os.dup2(log, 2)
    launched = {"RANK": rank, "LOCAL_RANK": rank, "GROUP_RANK": 0, "MASTER_PORT": port, "GROUP_WORLD_SIZE": 1}
    sizes = dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), processes)
    os.environ.update({name: str(value) for name, value in {**launched, **sizes}.items()})
    os.environ.update(TORCHELASTIC_RUN_ID="exits", MASTER_ADDR="127.0.0.1")
    train(SETTINGS, folder / "run")
    sys.exit()


def wait(ranks: list[int]) -> list[int]:
    """Their statuses; what has hung is killed."""
    deadline, statuses = time.monotonic() + SECONDS, dict[int, int]()
    while len(statuses) < len(ranks):
        for rank in set(ranks) - set(statuses):
            ended, status = os.waitpid(rank, os.WNOHANG)
            if ended:
                statuses[rank] = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > deadline:
                os.kill(rank, signal.SIGKILL)
        time.sleep(0.01)
    return [statuses[rank] for rank in ranks]


def upper_limit(failures: int, starts: int) -> float:
    """The largest share of bad starts that would show so few failures."""
    return 1.0 if failures == starts else float(beta.ppf(CONFIDENCE, failures + 1, starts - failures))


def main() -> None:
    """Start, count, print and perhaps write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=300)
    parser.add_argument("--processes", type=int, default=2, help="that share each run")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    options = parser.parse_args()
    torch.set_num_threads(1)
    gc.freeze()  # what was imported is not searched for garbage at the end of every fork
    bad: list[list[int]] = []
    for number in range(options.starts):
        ended = start(options.processes)
        if any(status for status, _ in ended):
            bad.append([status for status, _ in ended])
            print(f"start {number + 1}: {bad[-1]}", *(log for _, log in ended), sep="\n", flush=True)
    limit = upper_limit(len(bad), options.starts)
    print(
        f"{options.starts} starts of {options.processes} processes, {len(bad)} with an abnormal exit: "
        f"at most {100 * limit:.2g} % of all starts"
    )
    if options.json:
        versions = {"torch": torch.__version__, "python": platform.python_version()}
        counts = {"starts": options.starts, "processes": options.processes, "bad": bad, "upper_limit": limit}
        options.json.write_text(json.dumps({**counts, "confidence": CONFIDENCE, "versions": versions}, indent=2) + "\n")


if __name__ == "__main__":
    main()
