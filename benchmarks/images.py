"""Balanced accuracy on imbalanced images, ours beside what one would use instead; and the way to the frame.

Every method sees the same images, as many rows (up to a batch) in as many steps (up to a few short batches), the same
network and augmentation. Its learning rate, one for all settings, is chosen among six with the smaller budget, and an
adjustment of its scores for class sizes is fitted in each setting with each budget and used where it helps, on
validation images and with a seed that is not judged; `accurate` is always adjusted. Which classes are small differs
from seed to seed. Accuracies are those of the whole test set.

The second part counts epochs, seconds and FLOPs until the class means are an orthogonal frame (Delta_GM 0.1), for the
paper's recipe, for the recipe `fast` as it was, and as it is.

Runs are kept in a file as they end, and are not run twice:

    python benchmarks/images.py --json docs/results/images.json --npz FILE.npz
"""

import argparse
import itertools
import json
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric

from _image_methods import LR, METHODS
from _image_speed import Way, run_way, ways
from _image_tables import ADJUSTED, OURS, RULES, page
from orthoframe.batches import BatchPlan
from orthoframe.data import Data, LabelledImages, load_data
from orthoframe.geometry import Calibration, accuracy_of, calibration_error, fit_adjustment
from orthoframe.training import Loop, Settings, Task, encode, make_task

SEEDS, TUNED = (1, 2, 3, 4, 5), 100  # seeds that are judged, and the one that choices are made with
BUDGETS = (20_000, 60_000)  # rows
BATCH = 100
PARTS = 20  # of a budget, which the loop takes for epochs
HELD_OUT, FEW = 500, 30  # validation images per class; of classes that have few
SHARED: dict[str, Any] = {"model": "conv6", "width": 8, "batch_size": BATCH, "clean_fraction": 0.0}


@dataclass(frozen=True)
class Scene:
    """A data set with its imbalance."""

    data: str
    options: dict[str, Any]


def scenes(npz: Path | None) -> dict[str, Scene]:
    """Every setting by name."""
    fashion, cifar = {"majority": 1000}, {"majority": 2000}
    every = {
        "FashionMNIST STEP 10": Scene("fashion-mnist", {**fashion, "imbalance": "step", "ratio": 10}),
        "FashionMNIST STEP 100": Scene("fashion-mnist", {**fashion, "imbalance": "step", "ratio": 100}),
        "FashionMNIST long tail 100": Scene("fashion-mnist", {**fashion, "imbalance": "long-tail", "ratio": 100}),
        "CIFAR-10 long tail 100": Scene("cifar10", {**cifar, "imbalance": "long-tail", "ratio": 100}),
    }
    if npz is not None:
        every["100 classes"] = Scene(f"npz:{npz}", {"imbalance": "none", "flip": True})
        every["100 classes, long tail 50"] = Scene(f"npz:{npz}", {"imbalance": "long-tail", "ratio": 50, "flip": True})
    return every


@dataclass(frozen=True)
class Job:
    """One run."""

    scene: str
    method: str
    budget: int
    seed: int
    lr: float
    tuning: bool
    rule: str = ""  # by which it is judged
    rules: dict[str, dict[str, float]] = field(default_factory=dict)  # adjustment and temperature of each

    @property
    def key(self) -> str:
        """By which it is kept."""
        kind = "tuning" if self.tuning else f"seed {self.seed}"
        return f"{self.scene} | {self.method} | {self.budget} | {kind} lr {self.lr:g}"


def _permuted(images: LabelledImages, order: np.ndarray[Any, Any]) -> LabelledImages:
    """The same images with classes in another order."""
    place = torch.from_numpy(np.argsort(order))
    return replace(images, labels=place[images.labels], classes=tuple(images.classes[c] for c in order))


def make_data(scene: Scene, seed: int, tuning: bool) -> tuple[Data, LabelledImages]:
    """Images to train with, and those that are judged."""
    whole = load_data(scene.data, None)
    train, test = whole.train, whole.test
    k = len(train.classes)
    if k <= 10 or tuning:  # of the last images of each class, none is ever trained on
        held = FEW if k > 10 else HELD_OUT
        order = np.argsort(train.labels.numpy(), kind="stable")
        parts = np.split(order, np.cumsum(np.bincount(train.labels.numpy(), minlength=k))[:-1])
        if tuning:
            test = train.subset(np.sort(np.concatenate([part[-held:] for part in parts])))
        train = train.subset(np.sort(np.concatenate([part[:-held] for part in parts])))
    order = np.random.default_rng(seed).permutation(k)
    train, judged = _permuted(train, order), _permuted(test, order)
    seen = judged.subset(np.arange(min(len(judged), 200)))  # what the loop looks at
    return Data(train, seen, scene.data), judged


class Budget(BatchPlan):
    """A plan that ends after so many rows, wherever its epoch is then, in parts that the loop takes for epochs."""

    def __init__(self, plan: BatchPlan, rows: int) -> None:
        self.__dict__.update(vars(plan))
        ends = itertools.accumulate(len(batch) for batch in self._every(plan))
        steps = next(number for number, end in enumerate(ends, start=1) if end >= rows)
        kept = list(itertools.islice(self._every(plan), steps))
        self.parts = [kept[steps * part // PARTS : steps * (part + 1) // PARTS] for part in range(PARTS)]

    @staticmethod
    def _every(plan: BatchPlan) -> Iterator[Any]:
        return itertools.chain.from_iterable(map(plan.batches, itertools.count()))

    def batches(self, epoch: int = 0) -> list[Any]:
        """Those of a part."""
        return self.parts[epoch]


class Unmeasured(Loop):
    """A loop that leaves measuring to the benchmark, which judges every kind of head."""

    def _measure(self) -> dict[str, Any]:
        return {}


def run(job: Job, scene: Scene) -> dict[str, Any]:
    """Train and judge."""
    torch.set_num_threads(1)
    method = METHODS[job.method]
    data, judged = make_data(scene, job.seed, job.tuning)
    options = {**SHARED, **scene.options, **method.settings, "data": scene.data, "seed": job.seed, "lr": job.lr}
    if options.get("binding") == "redrawn":  # as many rows in a batch; with many classes more
        options["batch_size"] = max(BATCH // 4, BATCH - len(data.train.classes))
    settings = Settings.of(**{"recipe": "plain", **options, "adjust": 0.0, "epochs": PARTS})
    task = method.equip(make_task(settings, data=data))
    task = replace(task, plan=Budget(task.plan, job.budget))
    start, busy = time.perf_counter(), time.process_time()
    loop = Unmeasured(task, Fabric(accelerator="cpu", devices=1))
    method.install(loop)
    batches = [batch for part in range(PARTS) for batch in task.plan.batches(part)]
    for _ in range(PARTS):
        loop.run_epoch()
    costs = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - busy}
    costs |= {"rows": sum(map(len, batches)), "steps": len(batches)}
    return {**asdict(job), **costs, "results": dict(_judge(job, task, judged))}


def _judge(job: Job, task: Task, judged: LabelledImages) -> Iterator[tuple[str, dict[str, Any]]]:
    """What the network is worth by its scores as they are, and adjusted for class sizes."""
    labels, counts = judged.labels, torch.tensor(task.class_counts)
    head: Any = task.classifier  # every method has one
    with torch.no_grad():
        features = encode(task.encoder.backbone, judged, task.normaliser)
        plain = getattr(head, "scores", head)(features.to(next(head.parameters()).dtype)).double()
    logs = (counts / counts.max()).log()
    for name in RULES:
        if job.tuning:
            adjust = fit_adjustment(plain, labels, counts.double()) if name == ADJUSTED else 0.0
            calibration = Calibration.fitted(plain - adjust * logs, labels)
            assert calibration is not None
            temperature = calibration.temperature
        else:
            adjust, temperature = job.rules[name]["adjust"], job.rules[name]["temperature"]
        scores = plain - adjust * logs
        accuracy = accuracy_of(scores, labels, judged.classes, counts)
        error = calibration_error((scores / temperature).softmax(1), labels)
        numbers = {"balanced": accuracy.balanced, "minority": accuracy.minority, "worst": accuracy.worst, "ece": error}
        yield name, {**numbers, "adjust": adjust, "temperature": temperature}


class Store:
    """Runs that have ended, in a file that is written whole after each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}

    def add(self, key: str, entry: dict[str, Any]) -> None:
        """Keep a run."""
        self.runs[key] = json.loads(json.dumps(entry), parse_float=lambda text: float(f"{float(text):.6g}"))
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(self.runs[name])}" for name in sorted(self.runs))
        part = self.path.with_suffix(".part")
        part.write_text(f"{{\n{lines}\n}}\n")
        part.replace(self.path)


def run_all(jobs: Sequence[Job | Way], settings: dict[str, Scene], store: Store, workers: int) -> None:
    """Run what is not there yet, the seeds of one method after those of another."""
    left = [job for job in jobs if job.key not in store.runs]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        futures = {
            pool.submit(run_way, job) if isinstance(job, Way) else pool.submit(run, job, settings[job.scene]): job
            for job in left
        }
        for number, future in enumerate(as_completed(futures), start=1):
            job = futures[future]
            store.add(job.key, future.result())
            print(f"{number} of {len(left)}: {job.key}", flush=True)


def choose(store: Store, method: str) -> float:
    """The learning rate that was best in the mean over settings: on validation images, with the smaller budget.

    Of all settings that were tried, also if only some are run now: a method has one rate.
    """
    scenes = sorted({run["scene"] for run in store.runs.values() if run.get("tuning")})

    def mean(lr: float) -> float:
        entries = [store.runs.get(_tuning(scene, method, lr).key) for scene in scenes]
        results = [entry["results"] for entry in entries if entry is not None]
        return statistics.fmean(result[_rule(method, result)]["balanced"] for result in results)

    return max(LR, key=mean)


def _rule(method: str, results: dict[str, dict[str, float]]) -> str:
    """Scores as they are or adjusted, whichever is better on validation images; some methods are always adjusted."""
    always = method in (OURS, "cross-entropy")  # the recipe does so; and that is what logit adjustment is
    return ADJUSTED if always else max(RULES, key=lambda rule: results[rule]["balanced"])


def _tuning(scene: str, method: str, lr: float, rows: int = BUDGETS[0]) -> Job:
    return Job(scene, method, rows, TUNED, lr, True)


def main() -> None:
    """Run what is missing, and print tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path("images.json"), help="where runs are kept, one line each")
    parser.add_argument("--npz", type=Path, help="images of 100 classes, as the command's --data npz: takes them")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="runs at a time, one thread each")
    parser.add_argument("--rows", type=int, nargs="*", default=BUDGETS, help="budgets that are run")
    parser.add_argument("--scenes", nargs="*", help="some settings alone, by a part of their names")
    parser.add_argument("--seeds", type=int, nargs="*", default=SEEDS)
    parser.add_argument("--table", type=Path, help="the page whose tables are written anew")
    parser.add_argument("--nothing", action="store_true", help="run nothing; only write tables")
    arguments = parser.parse_args()
    settings, store = scenes(arguments.npz), Store(arguments.json)
    chosen = [name for name in settings if not arguments.scenes or any(part in name for part in arguments.scenes)]
    if not arguments.nothing:
        tried = itertools.product(chosen, METHODS, LR)
        run_all([_tuning(scene, method, lr) for scene, method, lr in tried], settings, store, arguments.workers)
        rates = {method: choose(store, method) for method in METHODS}
        best = [(scene, method, rates[method]) for scene, method in itertools.product(chosen, METHODS)]
        # Adjustment and calibration are fitted for each budget, because a network that has learnt more needs less.
        fitted = itertools.product(arguments.rows, best)
        run_all([_tuning(*each, rows) for rows, each in fitted], settings, store, arguments.workers)
        judged = itertools.product(arguments.rows, arguments.seeds, best)
        jobs = [_judged(store, *each, rows, seed) for rows, seed, each in judged]
        run_all(jobs, settings, store, arguments.workers)
        run_all(ways(arguments.seeds), settings, store, arguments.workers)
    tables = page(store.runs, list(settings), list(METHODS), BUDGETS)
    print(tables)
    if arguments.table:
        text = arguments.table.read_text().split(_MARK)[0] if arguments.table.exists() else ""
        arguments.table.write_text(f"{text}{_MARK}\n\n{tables}")


_MARK = "<!-- what follows is written by benchmarks/images.py -->"


def _judged(store: Store, scene: str, method: str, lr: float, rows: int, seed: int) -> Job:
    results = store.runs[_tuning(scene, method, lr, rows).key]["results"]
    rules = {rule: {name: results[rule][name] for name in ("adjust", "temperature")} for rule in RULES}
    return Job(scene, method, rows, seed, lr, False, _rule(method, results), rules)


if __name__ == "__main__":
    main()
