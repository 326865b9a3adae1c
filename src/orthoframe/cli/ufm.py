"""`orthoframe ufm`: where must training end, if a network could do anything?"""

import json
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
from torch import Tensor

from orthoframe.cli._files import check_figure, check_output, write_atomic, write_figure
from orthoframe.cli._solution import as_dict, as_text
from orthoframe.cli._terminal import progress
from orthoframe.errors import InputError

if TYPE_CHECKING:
    from orthoframe.batches import Certificate

_MOST_SAMPLES, _MOST_CLASSES, _MOST_ENTRIES = 100_000, 5_000, 10**8
# Features that need longer than this to settle are not animated.
_LONGEST = 1e6
_FRAMES = 60
# Fewer rows than these are sooner done by one thread than shared by several.
_SMALL = 2_000


@dataclass(frozen=True)
class Ufm:
    """Minimise the loss over free features: the end of training, without a network.

    Prints the loss with its floor, the geometry of the class means, and the certificate of the batches. Exit status: 0
    the loss is at its floor (or, without ReLU in several batches, stationary), 1 it is not, 2 bad input. For example:

    orthoframe ufm --counts 50x5,5x5 --batching partition --batch-size 64 --plot ufm.png

    orthoframe ufm --counts 50x5,5x5 --no-relu
    """

    counts: Annotated[str, tyro.conf.arg(metavar="ROWSxCLASSES,...")]
    """Rows of each class: 50x5,5x5 is five classes of 50 and five of 5."""
    dim: Annotated[int | None, tyro.conf.arg(metavar="D")] = None
    """Dimensions of the features (default: three for each class)."""
    temperature: Annotated[float, tyro.conf.arg(metavar="TAU")] = 0.1
    """Temperature of the loss."""
    denominator: Annotated[str, tyro.conf.arg(metavar="NAME")] = "all"
    """Of the loss: all, sincere, negatives or class-average."""
    relu: bool = True
    """Whether features must not be negative; --no-relu compares with the prediction for features that may be."""
    batching: Annotated[str, tyro.conf.arg(metavar="NAME")] = "full"
    """Which rows meet: full (one batch), partition, reshuffle, balanced or rare-hub."""
    batch_size: Annotated[int | None, tyro.conf.arg(metavar="ROWS")] = None
    """Rows of a batch."""
    binding: Annotated[str, tyro.conf.arg(metavar="NAME")] = "none"
    """What is added to each batch: none, fixed, present, redrawn or random."""
    epochs: int = 1
    """Epochs whose batches are taken together."""
    repair: tyro.conf.FlagCreatePairsOff[bool] = False
    """Add to the batches what they lack for a certificate."""
    prototypes: tyro.conf.FlagCreatePairsOff[bool] = False
    """Add a fixed unit vector of each class to every batch."""
    starts: int = 5
    """Random starts that may be tried."""
    seed: int = 0
    """Decides starts and batches."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print everything as JSON instead of tables."""
    plot: Annotated[Path | None, tyro.conf.arg(metavar="OUT.png")] = None
    """Draw the cosines of class means and the way of the loss to its floor."""
    gif: Annotated[Path | None, tyro.conf.arg(metavar="OUT.gif")] = None
    """Animate three classes in three dimensions as they move on the sphere."""

    def run(self) -> int:
        """Do it; the exit status."""
        import torch

        from orthoframe.ufm import solve_ufm

        counts = _parse_counts(self.counts)
        dim = 3 * len(counts) if self.dim is None else self.dim
        self._check(counts, dim)
        labels = np.repeat(np.arange(len(counts)), counts)
        if len(labels) < _SMALL:
            torch.set_num_threads(1)
        batches = self._batches(labels)
        certificate = self._certificate(labels, batches, len(counts))
        with _bad_input(), progress() as bar:
            task = bar.add_task("solving", total=None)

            def on_step(start: int, loss: float) -> None:
                bar.update(task, advance=1, description=f"start {start}, loss {loss:.10f}")

            solution = solve_ufm(
                labels,
                dim,
                batches=batches,
                prototypes=self._prototypes(len(counts), dim),
                starts=self.starts,
                seed=self.seed,
                on_step=on_step,
                **self._loss(),
            )
        predicted = None if self.relu else self._predicted(counts)
        if self.plot:
            from orthoframe.reporting import ufm_figure

            write_figure(self.plot, ufm_figure(solution, predicted))
        if self.gif:
            self._write_gif(self.gif, labels, counts, batches)
        if self.json:
            print(json.dumps(as_dict(solution, certificate, predicted), indent=2, allow_nan=False))
        else:
            print(as_text(solution, certificate, predicted))
        return 0 if solution.converged else 1

    def _prototypes(self, classes: int, dim: int) -> Tensor | None:
        import torch

        return torch.eye(classes, dim, dtype=torch.float64) if self.prototypes else None

    def _settling(self, counts: list[int]) -> float:
        """A time after which the slowest class has come to rest."""
        from orthoframe.losses import decay_rate

        rows = [count + self.prototypes for count in counts]
        largest = max(rows)
        if largest < 2:
            return 0.0  # nothing pulls; the solver will say so
        others = len(rows) - 1 if self.denominator == "class-average" else sum(rows) - largest
        options: dict[str, Any] = {"temperature": self.temperature, "denominator": self.denominator}
        rate = float(decay_rate(largest - 1, others, **options))
        return 30.0 / rate if rate > 0 else float("inf")

    def _loss(self) -> dict[str, Any]:
        return {"temperature": self.temperature, "denominator": self.denominator, "nonnegative": self.relu}

    def _check(self, counts: list[int], dim: int) -> None:
        from orthoframe.options import Denominator, check_choice, check_number

        with _bad_input():
            check_number("temperature", self.temperature, above=0, advice=("0.1 is usual",))
            check_choice("denominator", self.denominator, Denominator)
        for name, value in (("--dim", dim), ("--epochs", self.epochs), ("--starts", self.starts)):
            if value < 1:
                raise InputError(f"{name} must be at least 1, not {value}")
        if len(counts) > _MOST_CLASSES or sum(counts) * dim > _MOST_ENTRIES:
            raise InputError(
                f"{len(counts):,} classes and {sum(counts):,} rows of {dim:,} dimensions are too many; "
                f"at most {_MOST_CLASSES:,} classes and {_MOST_ENTRIES:,} numbers"
            )
        if self.seed < 0:
            raise InputError(f"--seed must be at least 0, not {self.seed}")
        if self.batching == "full" and self.batch_size is not None:
            raise InputError(
                "--batch-size is for --batching partition, reshuffle, balanced or rare-hub; full needs none"
            )
        if self.batching != "full" and self.batch_size is None:
            raise InputError(f"--batching {self.batching} needs --batch-size")
        if self.repair and self.denominator in ("sincere", "negatives"):
            raise InputError(f"--repair promises nothing with --denominator {self.denominator}; use --binding fixed")
        if self.prototypes and dim < len(counts):
            raise InputError(f"--prototypes need a dimension for each of the {len(counts)} classes, and --dim is {dim}")
        if self.gif is not None and self.gif.suffix != ".gif":
            raise InputError(f"--gif must end in .gif, not {self.gif}")
        if self.gif is not None and (len(counts) != 3 or dim != 3):
            raise InputError("--gif draws three classes in three dimensions, such as --counts 20x2,5 --dim 3")
        if self.gif is not None and self._settling(counts) > _LONGEST:
            raise InputError(f"--gif: at temperature {self.temperature:g} features hardly move; use a larger one")
        check_output(self.gif)
        check_figure(self.plot)

    def _batches(self, labels: NDArray[Any]) -> list[NDArray[Any]]:
        from orthoframe.batches import BatchPlan, repair

        with _bad_input():
            plan = BatchPlan(
                labels,
                self.batch_size,
                scheme=self.batching,  # type: ignore[arg-type]
                binding=self.binding,  # type: ignore[arg-type]
                seed=self.seed,
            )
            batches = [batch for epoch in range(self.epochs) for batch in plan.batches(epoch)]
            return repair(labels, batches) if self.repair else batches

    def _certificate(self, labels: NDArray[Any], batches: list[NDArray[Any]], classes: int) -> "Certificate":
        from orthoframe.batches import certify

        if not self.prototypes:
            return certify(labels, batches, denominator=self.denominator)  # type: ignore[arg-type]
        # A prototype is a sample of its class that is in every batch.
        fixed = np.arange(len(labels), len(labels) + classes)
        return certify(
            np.append(labels, np.arange(classes)),
            [np.append(batch, fixed) for batch in batches],
            denominator=self.denominator,  # type: ignore[arg-type]
        )

    def _predicted(self, counts: list[int]) -> Tensor:
        from orthoframe.ufm import predict_gram

        try:
            return predict_gram(counts, temperature=self.temperature, denominator=self.denominator)  # type: ignore[arg-type]
        except (ValueError, RuntimeError) as error:
            raise InputError(str(error)) from None

    def _write_gif(self, path: Path, labels: NDArray[Any], counts: list[int], batches: list[NDArray[Any]]) -> None:
        from orthoframe.reporting import write_sphere_gif
        from orthoframe.ufm import gradient_flow, random_rows

        end = self._settling(counts)
        times = [0.0, *np.geomspace(end / 1e7, end, 10 * _FRAMES).tolist()]
        start = random_rows(len(labels), 3, self.relu, self.seed, 0)
        with _bad_input():
            flow = gradient_flow(
                labels, start, times, batches=batches, prototypes=self._prototypes(len(counts), 3), **self._loss()
            )
        write_atomic(path, lambda file: write_sphere_gif(file, flow.evenly(_FRAMES), labels))


def _parse_counts(text: str) -> list[int]:
    """Rows of each class, from `50x5,5x5` or `50,50,5`."""
    counts: list[int] = []
    for part in text.split(","):
        numbers = part.strip().split("x")
        whole = all(number.isascii() and number.isdigit() and len(number) < 10 and int(number) for number in numbers)
        if len(numbers) > 2 or not whole:
            raise InputError(f"--counts {text}: {part.strip()!r} is not ROWS or ROWSxCLASSES, such as 50x5 or 50")
        rows, classes = int(numbers[0]), int(numbers[1]) if len(numbers) == 2 else 1
        if sum(counts) + rows * classes > _MOST_SAMPLES:
            raise InputError(f"--counts {text}: more than {_MOST_SAMPLES:,} rows in all")
        counts += [rows] * classes
    return counts


@contextmanager
def _bad_input() -> Iterator[None]:
    """Turn what the library refuses into the command's own error, and show its warnings as a line."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        except ValueError as error:
            raise InputError(str(error)) from None
    for warning in caught:
        print(f"orthoframe: warning: {warning.message}", file=sys.stderr)
