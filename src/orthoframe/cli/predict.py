"""`orthoframe predict`: which class is each image of?"""

import csv
import io
import json
import math
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np
import tyro

from orthoframe.cli._files import cell
from orthoframe.cli._terminal import Flag, progress, starting
from orthoframe.errors import InputError, Option, OptionError, brief
from orthoframe.options import check_size

if TYPE_CHECKING:
    from torch import Tensor

    from orthoframe.data import Decoded, Preparation
    from orthoframe.runs import TrainedEncoder

_TOP = 5  # best classes in JSON
_BLOCKS = 3  # that explain a prediction in one row of CSV
_LONGEST = 300  # characters of a sentence about a file
_MANY = 1000  # images, from which on there is a progress bar
_BATCH, _BATCH_BYTES = 64, 2**22  # at most, because batches pass through shared memory
_FEW = 64  # images, which are decoded sooner than other processes have started
_T = TypeVar("_T")


@dataclass(frozen=True)
class PredictCommand:
    """Classify images with a trained encoder.

    Images of any size and kind are prepared as in training. Prints CSV: the image, its class and the confidence, which
    is calibrated on the validation images of the run; without validation images there is none. A score is the cosine of
    an image's features to the class centre, or the output of the run's linear classifier. With --reject, an image that
    is of no known class has no class and no confidence, and yes in the column unknown. With --explain, evidence is the
    fraction of the features' energy in the dimensions that a class owns, and the out-of-class score is the fraction
    outside the dimensions of the predicted class.

    Exit status: 0 classified, 1 some files could not be read (named at the end), 2 none could, or bad input. For
    example:

    orthoframe predict runs/digits-step10-mlp-relu-seed0 scan1.png scan2.png

    orthoframe predict runs/digits-step10-mlp-relu-seed0 scans/ 'more/*.jpg' --top 3

    orthoframe predict runs/digits-step10-mlp-relu-seed0 scan1.png --explain

    orthoframe predict runs/photos scans/ --reject 0.05
    """

    run_folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of a run, or its encoder.safetensors."""
    images: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="IMAGES...")]
    """Image files, folders with images at any depth, and patterns in quotes."""
    top: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Also print the N best classes with their confidences and scores (JSON has 5 otherwise)."""
    scores: Flag = False
    """Also print the score of every class."""
    reject: Annotated[float | None, tyro.conf.arg(metavar="ERROR")] = None
    """Refuse images that are unlike all known classes: the largest fraction of images of known classes that may be
    refused, such as 0.05, which decides how unlike (by the validation images of the run)."""
    explain: Flag = False
    """Also print the evidence for each class, largest first, and an out-of-class score."""
    mirror: Flag = False
    """Average over each image and its mirror image: twice the time, and more accurate unless orientation matters."""
    json: Flag = False
    """Print one JSON object per image instead."""
    code: Flag = False
    """Allow the Python function that the run names as its backbone, if there is one, to be imported and called."""
    workers: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Processes that decode images (default: one per core)."""

    def run(self) -> int:
        """Print the class of each image."""
        if not all(self.images or [""]):
            raise InputError("which images? Name at least one file or folder")
        if self.top is not None:
            check_size("top", self.top)
        if self.reject is not None and self.mirror:
            both = " was fitted to images without their mirror images; leave it or "
            raise OptionError(Option("reject"), both, Option("mirror"), " out")
        with starting():
            from orthoframe.data import decoding_processes, find_images
            from orthoframe.runs import load_encoder

            workers = decoding_processes(self.workers)
            trained = load_encoder(self.run_folder, code=self.code)
        trained.check_reject(self.reject)
        if self.explain and not trained.has_frame:
            raise InputError(f"{self.run_folder}: it classifies with a linear layer; only a frame can be explained")
        paths, unmatched = find_images(self.images)
        if not paths:
            raise InputError(brief(unmatched[0], _LONGEST))
        if trained.calibration is None:
            why = "the encoder was trained without validation images, which would calibrate them"
            print(f"orthoframe: no confidences: {why}", file=sys.stderr)
        if self.top is not None and self.top > len(trained.classes):
            print(f"orthoframe: --top {self.top} is more than the {len(trained.classes)} classes", file=sys.stderr)
        if isinstance(sys.stdout, io.TextIOWrapper):  # a file name may be bytes that are no text
            sys.stdout.reconfigure(errors="surrogateescape")

        problems, classified = list(unmatched), 0
        writer = csv.writer(sys.stdout, lineterminator="\n")
        bar = progress()
        bar.disable = bar.disable or sys.stdout.isatty() or len(paths) < _MANY
        with bar:
            task = bar.add_task("images", total=len(paths))
            work = partial(self._rows, paths=paths, trained=trained)
            for rows, unread in _decode_and(work, paths, trained.preparation, workers):
                problems += unread
                for row in rows:
                    if self.json:
                        print(json.dumps(row))
                    else:
                        names, values = zip(*_columns(row), strict=True)
                        if not classified:
                            writer.writerow(map(cell, names))
                        writer.writerow(map(cell, values))
                    classified += 1
                bar.advance(task, len(rows) + len(unread))
        sys.stdout.flush()  # before what is said of other files
        for problem in problems:
            print(f"orthoframe: {brief(problem, _LONGEST)}", file=sys.stderr)
        if not problems:
            return 0
        return 1 if classified else 2

    def _rows(
        self, part: "Decoded", paths: Sequence[Path], trained: "TrainedEncoder"
    ) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
        """One JSON object per image, and a sentence per file that could not be read."""
        if not part.positions:
            return [], part.problems
        if self.mirror:
            features, refused = trained.features(part.pixels, mirror=True), [False] * len(part.positions)
        else:
            before = trained.rows_before_head(part.pixels)
            features, refused = trained.features_of(before), trained.refused(before, self.reject).tolist()
        cosines, winners = trained.classify(features)
        reasons = _reasons(features, winners, trained) if self.explain else [{}] * len(part.positions)
        confidences: Any = None if trained.calibration is None else _rounded(trained.calibration.confidences(cosines))
        scores, classes, rows = _rounded(cosines), trained.classes, []
        top = self.top or (_TOP if self.json else 0)
        orders = cosines.argsort(dim=1, descending=True, stable=True)[:, :top].tolist()
        for number, (place, winner, unknown) in enumerate(zip(part.positions, winners.tolist(), refused, strict=True)):
            row: dict[str, Any] = {"image": str(paths[place]), "class": None if unknown else classes[winner]}
            if confidences is not None:
                row["confidence"] = None if unknown else confidences[number][winner]
            if self.reject is not None:
                row["unknown"] = unknown
            if top:
                row["top"] = [
                    {
                        "class": classes[c],
                        **({} if confidences is None else {"confidence": confidences[number][c]}),
                        "score": scores[number][c],
                    }
                    for c in orders[number]
                ]
            if self.scores:
                row["scores"] = dict(zip(classes, scores[number], strict=True))
            rows.append({**row, **reasons[number]})
        return rows, part.problems


def _decode_and(
    work: "Callable[[Decoded], _T]", paths: Sequence[Path], preparation: "Preparation", workers: int
) -> Iterator[_T]:
    """Call `work` on batches of decoded files, in several threads; its results come in the order of the files.

    The threads of torch spin while they wait for each other, which takes the cores from the processes that decode: two
    batches with one thread each take less time than one after the other with two.
    """
    import torch

    from orthoframe.data import PreparedFiles, available_cores, decode

    size = max(1, min(_BATCH, _BATCH_BYTES // math.prod(preparation.image_shape)))
    batches = [range(start, min(start + size, len(paths))) for start in range(0, len(paths), size)]
    parts = decode(PreparedFiles(tuple(paths), preparation), batches, workers)
    threads, waiting = torch.get_num_threads(), deque[Future[_T]]()
    torch.set_num_threads(1)
    try:
        if len(paths) <= _FEW or not workers:
            yield from map(work, parts)
            return
        with ThreadPoolExecutor(available_cores()) as pool:
            for part in parts:
                waiting.append(pool.submit(work, part))
                if len(waiting) > available_cores():
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
    finally:
        torch.set_num_threads(threads)


def _columns(row: dict[str, Any]) -> list[tuple[str, Any]]:
    """A row as columns of CSV, with the largest blocks only; a class may be called as another column is."""
    columns: list[tuple[str, Any]] = [(name, row[name]) for name in ("image", "class", "confidence") if name in row]
    if "unknown" in row:
        columns.append(("unknown", "yes" if row["unknown"] else "no"))
    for place, entry in enumerate(row.get("top", ()), start=1):
        # The row has those of the best class, unless it is refused.
        shown = ("class", "confidence") if place == 1 and "unknown" not in row else ()
        columns += [(f"{name} {place}", value) for name, value in entry.items() if name not in shown]
    columns += row.get("scores", {}).items()
    if "blocks" in row:
        columns.append(("outside", row["outside"]))
        for place, (name, share) in enumerate(islice(row["blocks"].items(), _BLOCKS), start=1):
            columns += [(f"block {place}", name), (f"share {place}", share)]
        columns.append(("unowned", row["unowned"]))
    return columns


def _reasons(features: "Tensor", winners: "Tensor", trained: "TrainedEncoder") -> list[dict[str, Any]]:
    """The out-of-class score of each image, its shares per class from the largest to the smallest, and the rest."""
    from orthoframe.geometry import explain

    # The predicted class, whose centre need not be the nearest.
    explanation, reasons = replace(explain(trained.framed(features), trained.centres), winners=winners), []
    values, orders = explanation.shares.sort(dim=1, descending=True, stable=True)
    parts = _rounded(explanation.outside), _rounded(values), orders.tolist(), _rounded(explanation.unowned)
    for outside, shares, order, unowned in zip(*parts, strict=True):
        blocks = dict(zip((trained.classes[c] for c in order), shares, strict=True))
        reasons.append({"outside": outside, "blocks": blocks, "unowned": unowned})
    return reasons


def _rounded(values: "Tensor") -> list[Any]:
    """Six decimals without a minus sign before zero; None for a class without a mean."""
    rounded = np.round(values.double().numpy(), 6) + 0.0
    finite = np.isfinite(rounded)
    if not finite.all():
        rounded = rounded.astype(object)
        rounded[~finite] = None
    numbers: list[Any] = rounded.tolist()
    return numbers
