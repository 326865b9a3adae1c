"""`orthoframe certify`: does a list of batches lead to the orthogonal frame?"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Annotated, Any

import numpy as np
import tyro
from numpy.typing import NDArray

from orthoframe.cli._files import check_figure, check_output, read_batches, read_labels, write_atomic, write_figure
from orthoframe.cli._terminal import progress
from orthoframe.errors import InputError


@dataclass(frozen=True)
class Certify:
    """Decide whether batches have the orthogonal frame as their only optimum.

    The batches come from a file, or are made by a scheme. Exit status: 0 certified, 1 not, 2 bad input. For example:

    orthoframe certify labels.csv batches.jsonl --column class --repair mended.jsonl --plot meetings.png

    orthoframe certify labels.npy --batch-size 128 --epochs 20
    """

    labels: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="LABELS")]
    """The class of each sample: .npy, .txt (one a line), or .csv (see --column)."""
    batches: Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="BATCHES")] = None
    """JSON lines: a list of sample indices, from 0, a line. Leave out to make batches with --batch-size."""
    column: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """The column of a .csv file that has the labels."""
    scheme: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Make batches: full, partition, reshuffle (default), balanced or rare-hub."""
    batch_size: Annotated[int | None, tyro.conf.arg(metavar="ROWS")] = None
    """Make batches of this many rows."""
    binding: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """What is added to each batch: none (default), fixed, present, redrawn or random."""
    epochs: int = 1
    """Make the batches of this many epochs."""
    seed: int = 0
    """Decides which batches are made."""
    views: int = 1
    """Rows that each index stands for: the augmented views of a sample."""
    denominator: Annotated[str, tyro.conf.arg(metavar="NAME")] = "all"
    """Of the loss: all, sincere, negatives or class-average."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print everything as JSON instead of a table."""
    repair: Annotated[Path | None, tyro.conf.arg(metavar="OUT.jsonl")] = None
    """Write batches that certify, with as few additions as possible."""
    plot: Annotated[Path | None, tyro.conf.arg(metavar="OUT.png")] = None
    """Draw how often classes meet, and the pieces that they are in."""

    def run(self) -> int:
        """Do it; the exit status."""
        from orthoframe.batches import certify

        self._check()
        labels = read_labels(self.labels, self.column)
        if not len(labels):
            raise InputError(f"{self.labels}: there are no labels")
        with self._batches(labels) as batches:
            # One pass needs no memory; what comes after the verdict needs the batches again.
            every = list(batches) if self.repair or self.plot else batches
            try:
                certificate = certify(labels, every, views=self.views, denominator=self.denominator)  # type: ignore[arg-type]
            except ValueError as error:
                raise InputError(str(error)) from None
        if certificate.num_batches == 0:
            raise InputError(f"{self.batches}: there is no batch in it")
        extra = {}
        if self.repair:
            extra["additions"] = self._write_repaired(labels, list(every))
        if self.plot:
            self._write_plot(labels, list(every), certificate)
        if self.json:
            print(json.dumps({**certificate.to_dict(), **extra}, indent=2))
        else:
            print(certificate)
            if self.repair:
                print(f"{self.repair}: batches that certify, with {extra['additions']} additions.")
        return 0 if certificate.holds else 1

    def _check(self) -> None:
        making = [
            name
            for name, value in (
                ("--scheme", self.scheme),
                ("--batch-size", self.batch_size),
                ("--binding", self.binding),
                ("--epochs", None if self.epochs == 1 else self.epochs),
            )
            if value is not None
        ]
        if self.batches is not None and making:
            raise InputError(f"{making[0]} makes batches, and {self.batches} gives them; use one or the other")
        if self.batches is None and self.batch_size is None and self.scheme != "full":
            raise InputError("where are the batches? Give a file of JSON lines, or --batch-size to make them")
        if self.repair is not None and self.denominator in ("sincere", "negatives"):
            raise InputError(f"--repair promises nothing with --denominator {self.denominator}; use --binding fixed")
        if self.epochs < 1:
            raise InputError(f"--epochs must be at least 1, not {self.epochs}")
        if self.views < 1:
            raise InputError(f"--views must be at least 1, not {self.views}")
        check_output(self.repair)
        check_figure(self.plot)

    @contextmanager
    def _batches(self, labels: NDArray[Any]) -> Iterator[Iterator[NDArray[Any]]]:
        """Batches with a progress bar, on a terminal."""
        with progress() as bar:
            if self.batches is not None:
                size = self.batches.stat().st_size if self.batches.is_file() else None
                task = bar.add_task("certifying", total=size)
                yield read_batches(self.batches, len(labels), lambda count: bar.advance(task, count))
            else:
                task = bar.add_task("certifying", total=self.epochs)
                yield self._made(labels, lambda: bar.advance(task))

    def _made(self, labels: NDArray[Any], advance: Any) -> Iterator[NDArray[Any]]:
        from orthoframe.batches import BatchPlan

        try:
            plan = BatchPlan(
                labels,
                self.batch_size,
                scheme=self.scheme or "reshuffle",  # type: ignore[arg-type]
                binding=self.binding or "none",  # type: ignore[arg-type]
                seed=self.seed,
                views=self.views,
            )
        except ValueError as error:
            raise InputError(str(error)) from None

        def epoch(number: int) -> Iterator[NDArray[Any]]:
            yield from plan.batches(number)
            advance()

        return chain.from_iterable(epoch(number) for number in range(self.epochs))

    def _write_repaired(self, labels: NDArray[Any], batches: list[NDArray[Any]]) -> int:
        from orthoframe.batches import repair

        try:
            mended = repair(labels, batches, views=self.views)
        except ValueError as error:
            raise InputError(f"{self.batches or 'the batches'}: {error}") from None

        def write(file: IO[bytes]) -> None:
            for batch in mended:
                file.write(json.dumps(np.asarray(batch).tolist()).encode() + b"\n")

        assert self.repair is not None
        write_atomic(self.repair, write)
        return sum(map(len, mended)) - sum(map(len, batches))

    def _write_plot(self, labels: NDArray[Any], batches: list[NDArray[Any]], certificate: Any) -> None:
        from orthoframe.batches import meeting_counts
        from orthoframe.reporting import certificate_figure

        figure = certificate_figure(certificate, meeting_counts(labels, batches))
        assert self.plot is not None
        write_figure(self.plot, figure)
