"""`orthoframe certify`: does a list of batches lead to the orthogonal frame?"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from numpy.typing import NDArray

from orthoframe.cli._files import check_figure, check_output, read_labels, write_atomic, write_figure
from orthoframe.cli._terminal import bad_input, progress
from orthoframe.errors import InputError, Option, OptionError
from orthoframe.options import Binding, Denominator, Scheme, check_count


@dataclass(frozen=True)
class CertifyCommand:
    """Decide whether batches have the orthogonal frame as their only optimum.

    The batches come from a file, or are made by a scheme. Exit status: 0 certified, 1 not, 2 bad input. For example:

    orthoframe certify labels.csv batches.jsonl --column class --repair mended.jsonl --plot meetings.png

    orthoframe certify labels.npy --batch-size 128 --epochs 20
    """

    labels: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="LABELS")]
    """The class of each sample: .npy, .npz, .safetensors, .txt (one per line), or .csv (see --column)."""
    batches: Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="[BATCHES]")] = None
    """JSON lines: one list of sample indices, counted from 0, per line. Without it, --batch-size makes batches."""
    column: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """The column of a .csv file that has the labels."""
    scheme: Scheme | None = None
    """How batches are made (reshuffle unless given)."""
    batch_size: Annotated[int | None, tyro.conf.arg(metavar="ROWS")] = None
    """Make batches of this many rows."""
    binding: Binding | None = None
    """What is added to each batch that is made (none unless given)."""
    epochs: int = 1
    """Make the batches of this many epochs."""
    seed: int = 0
    """Decides which batches are made."""
    views: int = 1
    """Rows that each index stands for: the augmented views of a sample."""
    denominator: Denominator = "all"
    """The denominator of the loss."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print everything as JSON instead of a table."""
    repair: Annotated[Path | None, tyro.conf.arg(metavar="OUT.jsonl")] = None
    """Write batches that certify, with as few additions as possible."""
    plot: Annotated[Path | None, tyro.conf.arg(metavar="OUT.png")] = None
    """Draw how often classes meet, and the pieces that they are in."""

    def run(self) -> int:
        """Print the certificate, and write what else was asked for."""
        from orthoframe.batches import certify

        self._check()
        labels = read_labels(self.labels, self.column)
        if not len(labels):
            raise InputError(f"{self.labels}: there are no labels")
        with bad_input(), self._batches(labels) as batches:
            # One pass needs no memory; what comes after the verdict needs the batches again.
            every = list(batches) if self.repair or self.plot else batches
            certificate = certify(labels, every, views=self.views, denominator=self.denominator)
        if certificate.num_batches == 0:
            raise InputError(f"{self.batches}: there is no batch in it")
        extra = {"additions": self._write_repaired(self.repair, labels, list(every))} if self.repair else {}
        if self.plot:
            self._write_plot(self.plot, labels, list(every), certificate)
        if self.json:
            print(json.dumps({**certificate.to_dict(), **extra}, indent=2))
        else:
            print(certificate)
            if self.repair:
                print(f"{self.repair}: batches that certify, with {extra['additions']} additions.")
        return 0 if certificate.holds else 1

    def _check(self) -> None:
        check_count("epochs", self.epochs)
        check_count("views", self.views)
        made = {"scheme": self.scheme, "batch_size": self.batch_size, "binding": self.binding}
        making = [name for name, value in made.items() if value is not None] + ["epochs"] * (self.epochs > 1)
        if self.batches is not None and making:
            sentence = f" makes batches, and {self.batches} gives them; use one or the other"
            raise OptionError(Option(making[0]), sentence)
        if self.batches is None and self.batch_size is None and self.scheme != "full":
            raise InputError("where are the batches? Give a file of JSON lines, or ", Option("batch_size"))
        check_repair(self.repair is not None, self.denominator)
        check_output(self.repair, "repair")
        check_figure(self.plot)

    @contextmanager
    def _batches(self, labels: NDArray[Any]) -> Iterator[Iterator[NDArray[Any]]]:
        """Batches with a progress bar, on a terminal."""
        from orthoframe.batches import BatchPlan, read_batches

        with progress() as bar:
            if self.batches is not None:
                size = self.batches.stat().st_size if self.batches.is_file() else None
                task = bar.add_task("certifying", total=size)
                yield read_batches(self.batches, len(labels), lambda count: bar.advance(task, count))
                return
            task = bar.add_task("certifying", total=self.epochs)
            scheme, binding = self.scheme or "reshuffle", self.binding or "none"
            plan = BatchPlan(labels, self.batch_size, scheme=scheme, binding=binding, seed=self.seed, views=self.views)
            yield (batch for epoch in bar.track(range(self.epochs), task_id=task) for batch in plan.batches(epoch))

    def _write_repaired(self, path: Path, labels: NDArray[Any], batches: list[NDArray[Any]]) -> int:
        from orthoframe.batches import repair, write_batches

        with bad_input(self.batches or "the batches"):
            mended = repair(labels, batches, views=self.views)
        write_atomic(path, lambda file: write_batches(file, mended))
        return sum(map(len, mended)) - sum(map(len, batches))

    def _write_plot(self, path: Path, labels: NDArray[Any], batches: list[NDArray[Any]], certificate: Any) -> None:
        from orthoframe.batches import meeting_counts
        from orthoframe.reporting import certificate_figure

        write_figure(path, certificate_figure(certificate, meeting_counts(labels, batches)))


def check_repair(asked: bool, denominator: Denominator) -> None:
    """Refuse to repair batches for a denominator whose certificate additions cannot bring about."""
    if asked and denominator in ("sincere", "negatives"):
        loss = Option("denominator", denominator)
        raise OptionError(Option("repair"), " guarantees nothing with ", loss, "; use ", Option("binding", "fixed"))
