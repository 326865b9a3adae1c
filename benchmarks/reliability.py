"""Kinds of faults, how often each was tried, and what was lost.

Real commands in processes of their own are killed, stopped, starved and deceived, and then resumed; what they leave is
compared with what an undisturbed run of the same settings leaves. Hostile inputs are those of `make fuzz`. Every trial
is kept in the JSON file as soon as it has ended: started again, the program goes on where it was; delete the file to
start anew.

    python benchmarks/reliability.py --json docs/results/reliability.json --page docs/reliability.md
"""

import argparse
import atexit
import csv
import ctypes
import io
import json
import os
import platform
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import torch

from _killed_verbs import VERBS, Verb, prepare
from orthoframe import __version__
from orthoframe.runs import CHECKPOINT, Checkpoint, RunFolder

ROOT = Path(__file__).parents[1]
_SMALL = "--majority 24 --ratio 2 --width 16 --epochs 120 --batch-size 32"
_SMALLEST = "--majority 4 --ratio 1 --width 10 --epochs 2 --batch-size 64"
SETTINGS = _SMALL.split()
SAVE_SECONDS = 0.2  # between checkpoints, instead of 15: a short run has as many as a long one
_COMMAND = (
    "import sys; from functools import partial; from orthoframe import training; "
    "training.train = partial(training.train, save_seconds={seconds}); "
    "training.resume = partial(training.resume, save_seconds={seconds}); "
    "from orthoframe.cli import main; sys.exit(main())"
)
# Loaded by Python itself at its start: the clock is ten years back for all that the process does.
_CLOCK = "import time\nnow = time.time\ntime.time = lambda: now() - 10 * 365 * 86400\n"
_PATIENCE = 3600.0  # seconds that a command may take: other work on the machine is not a fault
_CLONE_NEWNS = 0x00020000  # of Linux
_BYTES = 500  # of a checkpoint that are broken in one trial


@dataclass(frozen=True)
class Outcome:
    """Of one trial: how often the fault was tried, and a sentence for each loss."""

    tried: int
    lost: list[str]
    about: dict[str, Any]


def orthoframe(*words: str, **environment: str) -> subprocess.Popen[str]:
    """The command, started in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", _COMMAND.format(seconds=SAVE_SECONDS), *words],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit status and what it said on standard error; one that hangs is killed, and has the status 124."""
    try:
        _, said = process.communicate(timeout=_PATIENCE)
        return process.returncode, said
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return 124, f"no end after {_PATIENCE:g} s"


@cache
def undisturbed() -> tuple[Path, float, float]:
    """The folder of a run that nothing happened to, the seconds until it had begun, and those to its end."""
    folder = Path(tempfile.mkdtemp(prefix="reliability-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    started = time.monotonic()
    process = orthoframe("train", *SETTINGS, "--out", str(folder / "run"))
    wait_for(folder / "run" / "config.json", process)
    begun = time.monotonic() - started
    status, said = ended(process)
    if status:
        raise RuntimeError(f"the undisturbed run failed: {said}")
    return folder / "run", begun, time.monotonic() - started


def wait_for(file: Path, process: subprocess.Popen[str]) -> None:
    """Wait until there is such a file, or the process has ended."""
    while process.poll() is None and not file.exists():
        time.sleep(0.02)


def differences(folder: Path) -> list[str]:
    """Files of a run that are not those of the undisturbed one; of the table, all but the seconds must be the same."""
    whole = undisturbed()[0]
    names = ("encoder.safetensors", "geometry.jsonl", "certificate.json", "verdict.json", "config.json", "run.json")
    different = [name for name in names if _content(folder / name) != _content(whole / name)]
    if _rows(folder) != _rows(whole):
        different.append("metrics.csv")
    different += [name for name in ("report.html", "figures/training.png") if not _content(folder / name)]
    return different + [f"{path.name} is left over" for path in folder.glob(".orthoframe.*")]


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def _rows(folder: Path) -> list[dict[str, str]]:
    path = folder / "metrics.csv"
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return [{**row, "seconds": ""} for row in csv.DictReader(file)]


def finish(folder: Path, **environment: str) -> list[str]:
    """Resume a run until it ends, or start it if it never began; what is lost."""
    begun = (folder / "config.json").exists()
    words = ["--resume", str(folder)] if begun else [*SETTINGS, "--out", str(folder)]
    status, said = ended(orthoframe("train", *words, **environment))
    if status:
        return [f"it cannot be resumed, status {status}: {said.strip()[-300:]}"]
    return [f"{name} differs" for name in differences(folder)]


def stopped(how: signal.Signals, folder: Path, draw: random.Random, *, early: bool = False) -> dict[str, Any]:
    """Start a run and end it with a signal, at a random time once it has begun, or early: of the command's whole life.

    One that ends before its time is started again, unless it failed. A run that was asked to stop must have the status
    130, or 0 if it was just done.
    """
    _, begun, seconds = undisturbed()
    while True:
        process = orthoframe("train", *SETTINGS, "--out", str(folder))
        if not early:
            wait_for(folder / "config.json", process)
        moment = draw.uniform(0.0, seconds if early else seconds - begun)
        try:
            if process.wait(moment):
                return {"seconds": round(moment, 2), "status": process.returncode, "begun": True, "failed": True}
            shutil.rmtree(folder)
        except subprocess.TimeoutExpired:
            process.send_signal(how)
            status, said = ended(process)
            sentence = said.strip().splitlines()[-1] if said.strip() else ""
            begins = (folder / "config.json").exists()
            failed = how != signal.SIGKILL and not early and status not in (0, 130)
            about = {"seconds": round(moment, 2), "status": status, "begun": begins, "said": sentence[:300]}
            return {**about, "failed": True} if failed else about


def resumed(folder: Path, about: dict[str, Any], **environment: str) -> Outcome:
    """The outcome of a trial whose run was ended as `about` says, and is resumed now."""
    failed = [f"it ended with {about['status']} by itself"] if about.get("failed") else []
    return Outcome(1, failed + finish(folder, **environment), about)


def killed(number: int, folder: Path) -> Outcome:
    """SIGKILL at a random time of a fresh command, the start included; then resumed."""
    about = stopped(signal.SIGKILL, folder / "run", random.Random(number), early=number % 2 == 0)
    return resumed(folder / "run", about)


def asked_to_stop(number: int, folder: Path) -> Outcome:
    """SIGTERM, SIGHUP and SIGINT in turn, at a random time; then resumed."""
    how = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)[number % 3]
    about = stopped(how, folder / "run", random.Random(number), early=number % 4 == 0)
    return resumed(folder / "run", {"signal": how.name, **about})


def report_killed(number: int, folder: Path) -> Outcome:
    """SIGKILL at a random time of `report`: its page is whole or not there; then once more."""
    whole = undisturbed()[0]
    shutil.copytree(whole, folder / "run")
    page = folder / "page.html"
    process = orthoframe("report", str(folder / "run"), "--out", str(page))
    try:
        process.wait(random.Random(number).uniform(0.0, 4.0))
    except subprocess.TimeoutExpired:
        process.kill()
    ended(process)
    lost = ["half a page was left"] if page.exists() and page.read_bytes() != _page() else []
    status, said = ended(orthoframe("report", str(folder / "run"), "--out", str(page)))
    if status or page.read_bytes() != _page():
        lost.append(f"the second attempt ended with {status}: {said.strip()[-300:]}")
    return Outcome(1, lost, {})


@cache
def _page() -> bytes:
    """The report of the undisturbed run, as the command writes it."""
    whole = undisturbed()[0]
    page = whole.parent / "page.html"
    shutil.copytree(whole, whole.parent / "copy" / "run", dirs_exist_ok=True)
    ended(orthoframe("report", str(whole.parent / "copy" / "run"), "--out", str(page)))
    return page.read_bytes()


def verb_killed(number: int, folder: Path) -> Outcome:
    """SIGKILL at a random time of embed, fit, export or study in turn; then the same command again."""
    name = list(VERBS)[number % len(VERBS)]
    inputs, seconds, whole = _undisturbed_verb(name)
    out, verb = folder / "out", VERBS[name]
    out.mkdir()
    process = orthoframe(*verb.words(inputs, out))
    try:
        process.wait(random.Random(number).uniform(0.0, seconds))
    except subprocess.TimeoutExpired:
        process.kill()
    ended(process)
    lost = _half_written(name, verb, out, whole)
    status, said = ended(orthoframe(*verb.words(inputs, out)))
    refused = name == "fit" and status == 2 and "classifier" in said  # it had ended: its files are there
    if (status and not refused) or verb.contents(out) != whole:
        lost.append(f"{name}: the second attempt ended with {status}, or other files: {said.strip()[-300:]}")
    lost += [f"{name}: {path.name} is left over" for path in out.rglob(".orthoframe.*")]
    return Outcome(1, lost, {"verb": name})


def _half_written(name: str, verb: Verb, out: Path, whole: dict[str, Any]) -> list[str]:
    """Files that are there after the kill and are not those of an undisturbed command."""
    try:
        there = {key: value for key, value in verb.contents(out).items() if ".orthoframe." not in key}
    except (OSError, ValueError) as error:
        return [f"{name}: a file cannot be read: {error}"]
    return [f"{name}: {key} is not whole" for key, value in there.items() if whole.get(key) != value]


@cache
def _undisturbed_verb(name: str) -> tuple[Path, float, dict[str, Any]]:
    """The inputs of the verbs, the seconds that this one takes, and what it writes."""
    run, _, _ = undisturbed()
    inputs, out = run.parent, run.parent / f"out of {name}"
    if not (inputs / "features.npz").exists():
        prepare(inputs)
    out.mkdir()
    started = time.monotonic()
    status, said = ended(orthoframe(*VERBS[name].words(inputs, out)))
    if status not in (0, 1):
        raise RuntimeError(f"the undisturbed {name} failed: {said}")
    return inputs, time.monotonic() - started, VERBS[name].contents(out)


def disk_full(number: int, folder: Path) -> Outcome:
    """A disk that is full at some point, from the first file to the report; then it has room, and is resumed."""
    size = random.Random(number).choice((16, 64, 128, 256, 512, 1024, 3072, 5120))
    out = folder / "disk"
    out.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(out)]
    mounted = shutil.which("mount") is not None and subprocess.run(mount, capture_output=True).returncode == 0
    try:
        if mounted:
            process = orthoframe("train", *SETTINGS, "--out", str(out / "run"))
        else:
            process = _small_files(size * 1024, "train", *SETTINGS, "--out", str(out / "run"))
        status, said = ended(process)
        about = {"kilobytes": size, "how": "a small file system" if mounted else "a limit on the size of files"}
        lost = [] if status in (0, 1, 2) else [f"it ended with {status}"]
        lost += _no_sentence(status, said)
        if mounted:
            subprocess.run(["mount", "-o", "remount,size=64m", str(out)], check=True, capture_output=True)
        return Outcome(1, lost + finish(out / "run"), {**about, "status": status, "said": said.strip()[-300:]})
    finally:
        if mounted:
            subprocess.run(["umount", str(out)], check=True, capture_output=True)


def own_mounts() -> None:
    """Let file systems that this process mounts be seen by it alone, and vanish with it; without the right, nothing."""
    if ctypes.CDLL(None).unshare(_CLONE_NEWNS) == 0:
        subprocess.run(["mount", "--make-rprivate", "/"], check=False, capture_output=True)


def _small_files(size: int, *words: str) -> subprocess.Popen[str]:
    """The command, with no file larger than `size`."""
    return subprocess.Popen(
        [sys.executable, "-c", _COMMAND.format(seconds=SAVE_SECONDS), *words],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
    )


def _no_sentence(status: int, said: str) -> list[str]:
    """What is wrong with how a command that failed explains itself."""
    lines = said.strip().splitlines()
    if status == 0 or (lines and lines[-1].startswith("orthoframe: ") and "unexpected" not in lines[-1]):
        return []
    return [f"no sentence: {said.strip()[-300:]}"]


def two_writers(number: int, folder: Path) -> Outcome:
    """Two commands into one folder, the second at a random time: one is refused, the other unharmed."""
    seconds = undisturbed()[2]
    words = ("train", *SETTINGS, "--out", str(folder / "run"))
    first = orthoframe(*words)
    time.sleep(random.Random(number).uniform(0.0, 0.8 * seconds) if number % 2 else 0.0)
    second = orthoframe(*words)
    ends = [ended(process) for process in (first, second)]
    lost = [f"{name} differs" for name in differences(folder / "run")]
    if sorted(status for status, _ in ends) != [0, 2]:
        lost.append(f"they ended with {ends[0][0]} and {ends[1][0]}")
    for status, said in ends:
        lost += _no_sentence(status, said)
    return Outcome(1, lost, {"status": [status for status, _ in ends]})


def moved(number: int, folder: Path) -> Outcome:
    """Killed, moved to another folder, and resumed there."""
    about = stopped(signal.SIGKILL, folder / "run", random.Random(number))
    if (folder / "run").exists():
        (folder / "elsewhere").mkdir()
        os.replace(folder / "run", folder / "elsewhere" / "other name")
    return resumed(folder / "elsewhere" / "other name", about)


def clock_back(number: int, folder: Path) -> Outcome:
    """Killed; then its files are dated a year ahead, and the process that resumes it has a clock ten years back."""
    about = stopped(signal.SIGKILL, folder / "run", random.Random(number))
    ahead = time.time() + 365 * 86400
    for path in (folder / "run").rglob("*"):
        os.utime(path, (ahead, ahead))
    (folder / "clock").mkdir()
    (folder / "clock" / "sitecustomize.py").write_text(_CLOCK)
    paths = os.pathsep.join(filter(None, (str(folder / "clock"), os.environ.get("PYTHONPATH"))))
    return resumed(folder / "run", about, PYTHONPATH=paths)


def checkpoint_broken(number: int, folder: Path) -> Outcome:
    """Bytes of the newest checkpoint, each flipped and each cut off with all after it: the previous one is used."""
    run = _small_run()
    newest, lost = (run / CHECKPOINT).read_bytes(), list[str]()
    positions = range(number * _BYTES, min((number + 1) * _BYTES, len(newest)))
    broken = folder / "broken"
    shutil.copytree(run, broken, ignore=shutil.ignore_patterns(CHECKPOINT))  # it counts on the tables
    previous = _bytes(RunFolder(broken).load_checkpoint()[0])
    for position in positions:
        for how in ("flipped", "cut"):
            flipped = newest[:position] + bytes([newest[position] ^ 0xFF]) + newest[position + 1 :]
            (broken / CHECKPOINT).write_bytes(flipped if how == "flipped" else newest[:position])
            try:
                checkpoint, complaints = RunFolder(broken).load_checkpoint()
                right = _bytes(checkpoint) == previous and len(complaints) == 1
                lost += [] if right else [f"byte {position} {how}: it was taken for whole"]
            except Exception as error:
                lost.append(f"byte {position} {how}: {type(error).__name__}: {error}"[:300])
    return Outcome(2 * len(positions), lost, {"bytes": len(newest)})


@cache
def _small_run() -> Path:
    """A run whose checkpoint is as small as they get."""
    whole = undisturbed()[0]
    folder = whole.parent / "small"
    ended(orthoframe("train", *_SMALLEST.split(), "--out", str(folder)))
    return folder


def _bytes(checkpoint: Checkpoint | None) -> bytes:
    file = io.BytesIO()
    if checkpoint is not None:
        checkpoint.write(file)
    return file.getvalue()


def fuzzed(number: int, folder: Path, cases: int) -> Outcome:
    """Hostile inputs; see tests/fuzz."""
    words = ["--cases", str(cases), "--seed", str(number + 1), "--json", str(folder / "found.json")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ORTHOFRAME_DATA": str(folder)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", *words], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    if not (folder / "found.json").exists():
        return Outcome(0, [f"the fuzzer ended with {done.returncode}: {done.stderr[-300:]}"], {})
    targets = json.loads((folder / "found.json").read_text())
    lost = [f"{kind['kind']}: {kind['replay']}" for entry in targets.values() for kind in entry["kinds"]]
    about = {target: [entry["cases"], entry["failures"]] for target, entry in targets.items()}
    return Outcome(sum(entry["cases"] for entry in targets.values()), lost, about)


@dataclass(frozen=True)
class Kind:
    """A kind of fault.

    Attributes:
        words: What happens, for the page.
        right: What must be there afterwards.
        trial: One trial, with its number and a folder of its own.
        trials: How many.
        together: Trials that may run side by side.
    """

    words: str
    right: str
    trial: Callable[[int, Path], Outcome]
    trials: int
    together: int = 2


def kinds(options: argparse.Namespace) -> dict[str, Kind]:
    """All kinds of faults, by a short name."""
    same = "the same bytes"
    share = min(options.fuzzed, 50_000)
    some = max(2, options.kills // 10)
    small = _small_run()
    pieces = -(-(small / CHECKPOINT).stat().st_size // _BYTES)
    return {
        "killed": Kind("SIGKILL at a random moment of a fresh `train`, then `--resume`", same, killed, options.kills),
        "stopped": Kind("SIGTERM, SIGHUP or Ctrl-C at a random moment, then `--resume`", same, asked_to_stop, 3 * some),
        "verbs": Kind(
            "SIGKILL at a random moment of `embed`, `fit`, `export` and `study`, then the same command again",
            "nothing half-written; the same files",
            verb_killed,
            4 * some,
            1,
        ),
        "report": Kind("SIGKILL at a random moment of `report`", "the page is whole or absent", report_killed, some),
        "disk": Kind("disk full, then with room and `--resume`", f"a sentence; {same}", disk_full, some),
        "writers": Kind("two commands train into one folder", f"one is refused; {same}", two_writers, some, 1),
        "moved": Kind("killed, moved to another folder, then `--resume`", same, moved, some),
        "clock": Kind("killed, clock set back, files from the future, then `--resume`", same, clock_back, some),
        "checkpoint": Kind(
            "each byte of the newest checkpoint flipped, and cut off there",
            "the previous one is used",
            checkpoint_broken,
            pieces,
        ),
        "fuzzed": Kind(
            "hostile files, options and arguments (`make fuzz`)",
            "read, or refused in a sentence",
            lambda number, folder: fuzzed(number, folder, share),
            -(-options.fuzzed // share),
        ),
    }


def run(kind: Kind, name: str, done: dict[str, dict[str, Any]], save: Callable[[], None]) -> None:
    """Run the trials of a kind that are not done yet."""

    def attempt(number: int) -> None:
        with tempfile.TemporaryDirectory(prefix="reliability-") as folder:
            outcome = kind.trial(number, Path(folder))
        # Paths of this machine are nobody's business.
        lost = [sentence.replace(folder, "FOLDER") for sentence in outcome.lost]
        about = json.loads(json.dumps(outcome.about).replace(folder, "FOLDER"))
        done[str(number)] = {"tried": outcome.tried, "lost": lost, **about}
        save()
        total = sum(entry["tried"] for entry in done.values())
        print(
            f"{name}: {len(done)} of {kind.trials} trials, {total:,} tried{f', lost: {lost}' if lost else ''}",
            flush=True,
        )

    left = [number for number in range(kind.trials) if str(number) not in done]
    with ThreadPoolExecutor(kind.together) as pool:
        list(pool.map(attempt, left))


_MARK = "<!-- what follows is written by benchmarks/reliability.py -->"


def page(data: dict[str, Any], described: dict[str, Kind]) -> str:
    """The tables of the page."""
    lines = ["| fault | tried | what must be there | lost |", "|---|---:|---|---:|"]
    for name, kind in described.items():
        entries = data["trials"].get(name, {}).values()
        tried = sum(entry["tried"] for entry in entries)
        lost = sum(len(entry["lost"]) for entry in entries) if name != "fuzzed" else sum(map(_failures, entries))
        lines.append(f"| {kind.words} | {tried:,} | {kind.right} | {lost:,} |")
    lines += ["", "Hostile inputs by what reads them:", "", "| target | cases | failures |", "|---|---:|---:|"]
    targets: dict[str, list[int]] = {}
    for entry in data["trials"].get("fuzzed", {}).values():
        for target, (cases, failures) in _targets(entry).items():
            before = targets.setdefault(target, [0, 0])
            targets[target] = [before[0] + cases, before[1] + failures]
    lines += [f"| `{target}` | {cases:,} | {failures:,} |" for target, (cases, failures) in targets.items()]
    facts = data["machine"]
    kills = data["trials"].get("killed", {}).values()
    begun = sum(entry["begun"] for entry in kills)
    how = sorted({entry["how"] for entry in data["trials"].get("disk", {}).values()})
    lines += [
        "",
        f"Of {len(kills)} kills, {begun} came after the run had begun, the others during the start of the command. "
        f"The full disk was {' or '.join(how) or 'not tried'}.",
        "",
        f"orthoframe {facts['orthoframe']}, torch {facts['torch']}, Python {facts['python']}, {facts['system']}, "
        f"{facts['cores']} cores.",
    ]
    return "\n".join(lines) + "\n"


def _targets(entry: dict[str, Any]) -> dict[str, list[int]]:
    return {name: value for name, value in entry.items() if name not in ("tried", "lost")}


def _failures(entry: dict[str, Any]) -> int:
    return sum(failures for _, failures in _targets(entry).values())


def main() -> None:
    """Run what is not in the file yet, and write file and page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kills", type=int, default=100, help="random kills; the other faults follow from it")
    parser.add_argument("--fuzzed", type=int, default=1_000_000, help="hostile inputs")
    parser.add_argument("--only", nargs="+", metavar="KIND", help="these kinds of faults only")
    parser.add_argument("--json", type=Path, required=True, help="where trials are kept")
    parser.add_argument("--page", type=Path, help="Markdown file to write the tables to")
    options = parser.parse_args()
    data: dict[str, Any] = json.loads(options.json.read_text()) if options.json.exists() else {"trials": {}}
    data["machine"] = {
        **{"orthoframe": __version__, "torch": torch.__version__, "python": platform.python_version()},
        **{"system": f"{platform.system()} {platform.release()}", "cores": os.cpu_count()},
    }
    writing = Lock()

    def save() -> None:
        with writing:
            fresh = options.json.with_suffix(".new")
            fresh.write_text(json.dumps(data, indent=1) + "\n")
            os.replace(fresh, options.json)

    own_mounts()
    seconds = undisturbed()[2]
    print(f"an undisturbed run takes {seconds:.1f} s", flush=True)
    described = kinds(options)
    for name, kind in described.items():
        if options.only is None or name in options.only:
            run(kind, name, data["trials"].setdefault(name, {}), save)
    save()
    if options.page:
        text = options.page.read_text().split(_MARK)[0] if options.page.exists() else ""
        options.page.write_text(f"{text}{_MARK}\n\n{page(data, described)}")
    losses = [loss for trials in data["trials"].values() for entry in trials.values() for loss in entry["lost"]]
    print(f"{len(losses)} losses", *losses[:20], sep="\n", flush=True)
    sys.exit(1 if losses else 0)


if __name__ == "__main__":
    main()
