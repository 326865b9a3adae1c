"""`orthoframe ufm`: where must training end, if a network could do anything?"""

import json
import math
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import tyro
from numpy.typing import NDArray

from orthoframe.cli._files import PICTURES, check_output, write_atomic, write_figure
from orthoframe.cli._terminal import Flag, Picture, bad_input, progress
from orthoframe.cli.certify import check_repair
from orthoframe.errors import InputError, Option, OptionError
from orthoframe.options import Binding, Denominator, Scheme, check_count, check_margin, check_temperature

if TYPE_CHECKING:
    from torch import Tensor

    from orthoframe.batches import Certificate
    from orthoframe.ufm import Solution

_MOST_SAMPLES, _MOST_CLASSES, _MOST_ENTRIES = 100_000, 5_000, 10**8
_LONGEST = 1e6  # features that need longer than this to come to rest are not animated
_FRAMES = 60
_SMALL = 2_000  # fewer rows than these are done sooner by one thread than by several


@dataclass(frozen=True)
class UfmCommand:
    """Minimise the loss over free features: the end of training, without a network.

    Prints the loss with its floor, the geometry of the class means, and the certificate of the batches. Exit status: 0
    the loss is at its floor (or, without ReLU in several batches, stationary), 1 it is not, 2 bad input. For example:

    orthoframe ufm --counts 50x5,5x5 --scheme partition --batch-size 64 --plot ufm.png

    orthoframe ufm --counts 50x5,5x5 --no-relu
    """

    counts: Annotated[str, tyro.conf.arg(metavar="ROWSxCLASSES,...")]
    """Rows of each class: 50x5,5x5 is five classes of 50 and five of 5."""
    dim: Annotated[int | None, tyro.conf.arg(metavar="D")] = None
    """Dimensions of the features (default: three per class)."""
    temperature: Annotated[float, tyro.conf.arg(metavar="TAU")] = 0.1
    """Temperature of the loss."""
    denominator: Denominator = "all"
    """Denominator of the loss."""
    margin: Annotated[float, tyro.conf.arg(metavar="M")] = 0.0
    """What is taken off the cosines of positives: the frame stays the optimum, and is approached faster."""
    frame: Flag = False
    """Add the frame term, which pulls each row to its class's row of a fixed frame."""
    supcon: Annotated[float, tyro.conf.arg(metavar="WEIGHT")] = 1.0
    """Weight of the contrastive loss beside the frame term; 0 leaves the frame term alone."""
    relu: bool = True
    """Whether features must be non-negative; --no-relu compares with the prediction for features of either sign."""
    scheme: Scheme = "full"
    """Which rows meet; full is one batch of all rows."""
    batch_size: Annotated[int | None, tyro.conf.arg(metavar="ROWS")] = None
    """Rows of a batch; for every scheme but full."""
    power: Annotated[float | None, tyro.conf.arg(metavar="POWER")] = None
    """With --scheme weighted, classes have rows by their size to this power: 0 equally many, 1 as they are (default:
    0.5)."""
    binding: Binding = "none"
    """What is added to each batch."""
    epochs: int = 1
    """Epochs whose batches are taken together."""
    repair: Flag = False
    """Add to the batches what they lack for a certificate."""
    prototypes: Flag = False
    """Add a fixed unit vector per class to every batch."""
    starts: int = 5
    """At most this many random starts are tried."""
    seed: int = 0
    """Decides starts and batches."""
    json: Flag = False
    """Print everything as JSON instead of tables."""
    plot: Picture = None
    """Draw the cosines of class means, and how the loss approaches its floor."""
    gif: Annotated[Path | None, tyro.conf.arg(metavar="OUT.gif")] = None
    """Animate three classes in three dimensions as they move on the sphere."""

    def run(self) -> int:
        """Solve, print the solution, and draw it if asked to."""
        import torch

        from orthoframe.batches import BatchPlan, certify, repair
        from orthoframe.ufm import solve_ufm

        counts = _parse_counts(self.counts)
        dim = 3 * len(counts) if self.dim is None else self.dim
        self._check(counts, dim)
        labels = np.repeat(np.arange(len(counts)), counts)
        if len(labels) < _SMALL:
            torch.set_num_threads(1)
        with bad_input():
            options: dict[str, Any] = {"scheme": self.scheme, "binding": self.binding, "power": self.power}
            plan = BatchPlan(labels, self.batch_size, seed=self.seed, **options)
            batches = [batch for epoch in range(self.epochs) for batch in plan.batches(epoch)]
            batches = repair(labels, batches) if self.repair else batches
        certificate = certify(
            labels, batches, denominator=self.denominator, prototypes=self.prototypes, frame=self.frame
        )
        problem: dict[str, Any] = {
            "batches": batches,
            "temperature": self.temperature,
            "denominator": self.denominator,
            "margin": self.margin,
            "frame": self.frame,
            "supcon": self.supcon,
            "nonnegative": self.relu,
            "prototypes": torch.eye(len(counts), dim, dtype=torch.float64) if self.prototypes else None,
        }
        with _warnings_as_lines(), bad_input(), progress() as bar:
            task = bar.add_task("solving", total=None)

            def on_step(start: int, loss: float) -> None:
                bar.update(task, advance=1, description=f"start {start}, loss {loss:.10f}")

            solution = solve_ufm(labels, dim, starts=self.starts, seed=self.seed, on_step=on_step, **problem)
        predicted, comparison = (None, {}) if self.relu or self.frame else self._compare(counts, solution)
        if self.plot:
            from orthoframe.reporting import ufm_figure

            write_figure(self.plot, ufm_figure(solution, predicted))
        if self.gif:
            self._write_gif(self.gif, labels, counts, problem)
        if self.json:
            data = {**solution.to_dict(), "certificate": certificate.to_dict()}
            if predicted is not None:
                data["predicted"] = {"cosines": predicted.tolist(), **comparison}
            print(json.dumps(data, indent=2, allow_nan=False))
        else:
            print(_as_text(solution, certificate, comparison, self.relu))
        return 0 if solution.converged else 1

    def _check(self, counts: list[int], dim: int) -> None:
        check_temperature(self.temperature)
        check_margin(self.margin, self.denominator)
        check_count("epochs", self.epochs)
        classes, rows = len(counts), sum(counts)
        if classes > _MOST_CLASSES or rows * dim > _MOST_ENTRIES:
            most = f"at most {_MOST_CLASSES:,} classes and {_MOST_ENTRIES:,} numbers"
            raise InputError(f"{classes:,} classes and {rows:,} rows of {dim:,} dimensions are too many; {most}")
        if self.scheme == "full" and self.batch_size is not None:
            raise OptionError(Option("batch_size"), " is for every scheme but ", Option("scheme", "full"))
        if self.scheme != "full" and self.batch_size is None:
            raise OptionError(Option("scheme", self.scheme), " needs ", Option("batch_size"))
        check_repair(self.repair, self.denominator)
        if (self.prototypes or self.frame) and dim < classes:
            needed = f" needs one dimension per class, and {classes} classes have {dim}; use "
            given = Option("prototypes" if self.prototypes else "frame")
            raise OptionError(given, needed, Option("dim", classes), " or more")
        check_output(self.plot, "plot", *PICTURES)
        check_output(self.gif, "gif", ".gif")
        if self.gif is not None and (classes, dim) != (3, 3):
            raise InputError(Option("gif"), " draws three classes in three dimensions, such as --counts 20x2,5 --dim 3")
        if self.gif is not None and self._settling(counts) > _LONGEST:
            raise OptionError("features hardly move with ", Option("temperature", self.temperature), "; raise it")

    def _settling(self, counts: list[int]) -> float:
        """A time after which the slowest class has come to rest."""
        from orthoframe.losses import decay_rate

        options: dict[str, Any] = {"temperature": self.temperature, "margin": self.margin}
        if self.frame:  # which moves the largest class slowest
            share = max(counts) / sum(counts)
            rate = float(decay_rate(1, 1 - share, own_weight=share, fixed=True, **options))
            return 30.0 / rate if rate > 0 else math.inf
        rows = [count + self.prototypes for count in counts]
        largest = max(rows)
        if largest < 2:
            return 0.0  # nothing pulls; the solver will say so
        others = len(rows) - 1 if self.denominator == "class-average" else sum(rows) - largest
        rate = float(decay_rate(largest - 1, others, denominator=self.denominator, **options))
        return 30.0 / rate if rate > 0 else math.inf

    def _compare(self, counts: list[int], solution: "Solution") -> "tuple[Tensor, dict[str, float]]":
        """The predicted cosines of class means, and how far from them the solution is."""
        from orthoframe.ufm import predict_gram

        try:
            predicted = predict_gram(
                counts, temperature=self.temperature, denominator=self.denominator, margin=self.margin
            )
        except RuntimeError as error:  # it was not found to the accuracy that is promised
            raise InputError(str(error)) from error
        largest = float((solution.geometry.cosines - predicted).abs().max())
        return predicted, {"distance": solution.geometry.distance_to(predicted), "largest_difference": largest}

    def _write_gif(self, path: Path, labels: NDArray[Any], counts: list[int], problem: dict[str, Any]) -> None:
        from orthoframe.reporting import write_sphere_gif
        from orthoframe.ufm import gradient_flow, random_rows

        end = self._settling(counts)
        times = [0.0, *np.geomspace(end / 1e7, end, 10 * _FRAMES).tolist()]
        with _warnings_as_lines(), bad_input():
            flow = gradient_flow(labels, random_rows(len(labels), 3, self.relu, self.seed, 0), times, **problem)
        write_atomic(path, "gif", lambda file: write_sphere_gif(file, flow.evenly(_FRAMES), labels))


def _parse_counts(text: str) -> list[int]:
    """Rows of each class, from `50x5,5x5` or `50,50,5`."""
    counts: list[int] = []
    for part in map(str.strip, text.split(",")):
        found = re.fullmatch(r"([0-9]{1,9})(?:x([0-9]{1,9}))?", part)
        rows, classes = (int(number or 1) for number in found.groups()) if found else (0, 0)
        if not rows * classes:
            raise OptionError(Option("counts", text), f": {part!r} is not ROWS or ROWSxCLASSES, such as 50x5 or 50")
        if sum(counts) + rows * classes > _MOST_SAMPLES:
            raise OptionError(Option("counts", text), f": more than {_MOST_SAMPLES:,} rows in all")
        counts += [rows] * classes
    return counts


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Show each warning of the library as one line."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        yield
    for warning in caught:
        print(f"orthoframe: warning: {warning.message}", file=sys.stderr)


def _as_text(solution: "Solution", certificate: "Certificate", comparison: dict[str, float], relu: bool) -> str:
    def shown(value: float | None, form: str) -> str:
        return "not known" if value is None else format(value, form)

    rows = {
        f"loss (mean over {'rows' if certificate.frame else 'anchors'})": f"{solution.loss:.12f}",
        "lowest loss, predicted" if comparison else "floor": shown(solution.floor, ".12f"),
        "gap": shown(solution.gap, ".3e"),
    }
    if solution.bound is not None and math.isfinite(solution.bound):
        rows[f"departure from a frame, {'of any row' if certificate.frame else 'in any batch'}"] = (
            f"at most {solution.bound:.1e}"
        )
    if comparison:
        rows["distance to prediction for one batch"] = f"{comparison['distance']:.3e}"
        rows["largest difference of a cosine"] = f"{comparison['largest_difference']:.3e}"
    table = "\n".join(f"{name:<36}  {value}" for name, value in rows.items())  # in line with the geometry
    promise = "" if relu else "What the batches would guarantee with a ReLU:\n"
    return f"{solution.sentence()}\n\n{table}\n\n{solution.geometry}\n\n{promise}{certificate}"
