"""`orthoframe ufm`: where must training end, if a network could do anything?"""

import json
import math
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import numpy as np
import tyro

from orthoframe.cli._files import PICTURES, check_output, write_figure
from orthoframe.cli._plan import PlanOptions, check_repair
from orthoframe.cli._terminal import Flag, Picture, bad_input, progress
from orthoframe.errors import InputError, Option, OptionError
from orthoframe.options import TEMPERATURE, Denominator, check_count

if TYPE_CHECKING:
    from torch import Tensor

    from orthoframe.batches import Certificate
    from orthoframe.ufm import Solution

_MOST_SAMPLES, _MOST_CLASSES, _MOST_ENTRIES = 100_000, 5_000, 10**8
_ROWS_OF_ONE_THREAD = 2_000  # fewer rows than these are solved sooner by one thread than by several


@dataclass(frozen=True)
class UfmCommand:
    """Minimise the loss over free features: the end of training, without a network.

    Prints the loss with its floor, the geometry of the class means, and the certificate of the batches.

    Exit status: 0 the loss is at its floor (or, without ReLU in several batches, stationary), 1 it is not, 2 bad input.
    For example:

    orthoframe ufm --counts 50x5,5x5 --scheme partition --batch-size 64 --plot ufm.png

    orthoframe ufm --counts 50x5,5x5 --no-relu
    """

    counts: Annotated[str, tyro.conf.arg(metavar="ROWSxCLASSES,...")]
    """Rows of each class: 50x5,5x5 is five classes of 50 and five of 5."""
    dim: Annotated[int | None, tyro.conf.arg(metavar="D")] = None
    """Dimensions of the features (default: three per class)."""
    temperature: Annotated[float, tyro.conf.arg(metavar="TAU")] = TEMPERATURE
    """Temperature of the loss."""
    denominator: Denominator = "all"
    """Denominator of the loss."""
    margin: Annotated[float, tyro.conf.arg(metavar="M")] = 0.0
    """Margin subtracted from the cosines of positives: the frame stays the optimum, and is reached sooner."""
    frame: Flag = False
    """Add the frame term, which pulls each row to the prototype of its class in a fixed frame."""
    supcon: Annotated[float, tyro.conf.arg(metavar="WEIGHT")] = 1.0
    """Weight of the contrastive loss added to the frame term; 0 leaves the frame term alone."""
    relu: bool = True
    """Whether features must be non-negative; --no-relu compares with the prediction for features of either sign."""
    repair: Flag = False
    """Repair the batches: add the samples that a certificate needs."""
    prototypes: Flag = False
    """Add a fixed unit vector per class to every batch."""
    starts: int = 5
    """Largest number of random starts."""
    json: Flag = False
    """Print everything as JSON instead of tables."""
    plot: Picture = None
    """Draw the cosines of class means, and how the loss approaches its floor."""
    plan: Annotated[PlanOptions, tyro.conf.arg(name="")] = field(default_factory=lambda: PlanOptions(scheme="full"))

    def run(self) -> int:
        """Solve, print the solution, and draw it if `plot` is set."""
        import torch

        from orthoframe.batches import certify, repair
        from orthoframe.ufm import solve_ufm

        counts = _parse_counts(self.counts)
        dim = 3 * len(counts) if self.dim is None else self.dim
        self._check(counts, dim)
        labels = np.repeat(np.arange(len(counts)), counts)
        if len(labels) < _ROWS_OF_ONE_THREAD:
            torch.set_num_threads(1)
        with bad_input():
            plan = self.plan.make(labels)
            batches = [batch for epoch in range(self.plan.epochs) for batch in plan.batches(epoch)]
            batches = repair(labels, batches) if self.repair else batches
        certificate = certify(
            labels, batches, denominator=self.denominator, prototypes=self.prototypes, frame=self.frame
        )
        with _warnings_as_lines(), bad_input(), progress() as bar:
            task = bar.add_task("solving", total=None)

            def on_step(start: int, loss: float) -> None:
                bar.update(task, advance=1, description=f"start {start}, loss {loss:.10f}")

            solution = solve_ufm(
                labels,
                dim,
                batches=batches,
                temperature=self.temperature,
                denominator=self.denominator,
                margin=self.margin,
                frame=self.frame,
                supcon=self.supcon,
                nonnegative=self.relu,
                prototypes=torch.eye(len(counts), dim, dtype=torch.float64) if self.prototypes else None,
                starts=self.starts,
                seed=self.plan.seed,
                on_step=on_step,
            )
        predicted, comparison = (None, {}) if self.relu or self.frame else self._compare(counts, solution)
        if self.plot:
            from orthoframe.reporting import ufm_figure

            write_figure(self.plot, ufm_figure(solution, predicted))
        if self.json:
            data = {**solution.to_dict(), "certificate": certificate.to_dict()}
            if predicted is not None:
                data["predicted"] = {"cosines": predicted.tolist(), **comparison}
            print(json.dumps(data, indent=2, allow_nan=False))
        else:
            print(_as_text(solution, certificate, comparison, self.relu))
        return 0 if solution.converged else 1

    def _check(self, counts: list[int], dim: int) -> None:
        check_count("epochs", self.plan.epochs)
        classes, rows = len(counts), sum(counts)
        if classes > _MOST_CLASSES or rows * dim > _MOST_ENTRIES:
            most = f"at most {_MOST_CLASSES:,} classes and {_MOST_ENTRIES:,} numbers"
            raise InputError(f"{classes:,} classes and {rows:,} rows of {dim:,} dimensions are too many; {most}")
        check_repair(self.repair, self.denominator)
        if (self.prototypes or self.frame) and dim < classes:
            needed = f" needs one dimension per class, and {classes} classes have {dim}; use "
            option = Option("prototypes" if self.prototypes else "frame")
            raise OptionError(option, needed, Option("dim", classes), " or more")
        check_output(self.plot, "plot", *PICTURES)

    def _compare(self, counts: list[int], solution: "Solution") -> "tuple[Tensor, dict[str, float]]":
        """The predicted cosines of class means, and how far from them the solution is."""
        from orthoframe.ufm import predict_gram

        try:
            predicted = predict_gram(
                counts, temperature=self.temperature, denominator=self.denominator, margin=self.margin
            )
        except RuntimeError as error:  # no optimum to the promised accuracy
            raise InputError(str(error)) from error
        largest = float((solution.geometry.cosines - predicted).abs().max())
        return predicted, {"distance": solution.geometry.distance_to(predicted), "largest_difference": largest}


def _parse_counts(text: str) -> list[int]:
    """Rows of each class, from `50x5,5x5` or `50,50,5`."""
    counts: list[int] = []
    for part in map(str.strip, text.split(",")):
        match = re.fullmatch(r"([0-9]{1,9})(?:x([0-9]{1,9}))?", part)
        rows, classes = (int(number or 1) for number in match.groups()) if match else (0, 0)
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
        return "unknown" if value is None else format(value, form)

    rows = {
        f"loss (mean over {'rows' if certificate.frame else 'anchors'})": f"{solution.loss:.12f}",
        "lowest loss, predicted" if comparison else "floor": shown(solution.floor, ".12f"),
        "gap": shown(solution.gap, ".3e"),
    }
    if solution.bound is not None and math.isfinite(solution.bound):
        rows[f"deviation from a frame, {'any row' if certificate.frame else 'any batch'}"] = (
            f"at most {solution.bound:.1e}"
        )
    if comparison:
        rows["distance to prediction for one batch"] = f"{comparison['distance']:.3e}"
        rows["largest difference of a cosine"] = f"{comparison['largest_difference']:.3e}"
    table = "\n".join(f"{name:<36}  {value}" for name, value in rows.items())  # in line with the geometry
    promise = "" if relu else "What the batches would guarantee with a ReLU:\n"
    return f"{solution.sentence()}\n\n{table}\n\n{solution.geometry}\n\n{promise}{certificate}"
