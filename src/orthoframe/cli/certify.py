"""`orthoframe certify`: does a list of batches lead to the orthogonal frame?"""

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

import tyro
from numpy.typing import NDArray
from rich.progress import Progress

from orthoframe.cli._files import PICTURES, check_output, read_labels, write_atomic, write_figure
from orthoframe.cli._plan import PlanOptions, check_repair
from orthoframe.cli._terminal import Flag, Picture, bad_input, progress
from orthoframe.errors import InputError, Option, OptionError
from orthoframe.options import Denominator, check_count


@dataclass(frozen=True)
class CertifyCommand:
    """Decide whether batches have the orthogonal frame as their only optimum.

    The batches come from a file, or are made by a scheme.

    Exit status: 0 certified, 1 not, 2 bad input. For example:

    orthoframe certify labels.csv batches.jsonl --column class --repair mended.jsonl --plot meetings.png

    orthoframe certify labels.npy --batch-size 128 --epochs 20
    """

    labels: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="LABELS")]
    """The class of each sample: .npy, .npz, .safetensors, .txt (one per line), or .csv (see --column)."""
    batches: Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="[BATCHES]")] = None
    """JSON lines, each a list of sample indices, counted from 0. Without them, --batch-size makes the batches."""
    column: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """The column of labels in a .csv file."""
    views: int = 1
    """Rows per index: the augmented views of a sample."""
    denominator: Denominator = "all"
    """The denominator of the loss."""
    frame: Flag = False
    """The loss has a frame term, which only needs every sample to be in a batch."""
    json: Flag = False
    """Print everything as JSON instead of a table."""
    repair: Annotated[Path | None, tyro.conf.arg(metavar="OUT.jsonl")] = None
    """Write repaired batches, which certify, with as few additions as possible."""
    plot: Picture = None
    """Draw how often classes meet, and the components of each class."""
    plan: Annotated[PlanOptions, tyro.conf.arg(name="")] = field(default_factory=PlanOptions)

    def run(self) -> int:
        """Print the certificate, and write repaired batches and the picture if their paths are set."""
        from orthoframe.batches import certify, meeting_counts, repair, write_batches

        self._check()
        labels = read_labels(self.labels, self.column)
        kept: list[NDArray[Any]] = []
        with bad_input(), progress() as bar:
            batches = self._batches(labels, bar)
            # One pass needs no memory; repair and plot need the batches again.
            if self.repair or self.plot:
                batches = kept = list(batches)
            certificate = certify(labels, batches, views=self.views, denominator=self.denominator, frame=self.frame)
        if certificate.num_batches == 0:
            raise InputError(f"{self.batches}: there is no batch in it")
        extra = {}
        if self.repair:
            with bad_input(self.batches or "the batches"):
                mended = repair(labels, kept, views=self.views)
            write_atomic(self.repair, "repair", lambda file: write_batches(file, mended))
            extra["additions"] = sum(map(len, mended)) - sum(map(len, kept))
        if self.plot:
            from orthoframe.reporting import certificate_figure

            write_figure(self.plot, certificate_figure(certificate, meeting_counts(labels, kept)))
        print(json.dumps(certificate.to_dict() | extra, indent=2) if self.json else certificate)
        if self.repair and not self.json:
            count = extra["additions"]
            print(f"{self.repair}: batches that certify, with {count} addition{'' if count == 1 else 's'}.")
        return 0 if certificate.holds else 1

    def _check(self) -> None:
        check_count("epochs", self.plan.epochs)
        options = [option.name for option in fields(PlanOptions) if getattr(self.plan, option.name) != option.default]
        if self.batches is not None and options:
            either = f" makes batches, and {self.batches} gives them; use one or the other"
            raise OptionError(Option(options[0]), either)
        if self.batches is None and self.plan.batch_size is None and self.plan.scheme != "full":
            raise InputError("where are the batches? Give a file of JSON lines, or ", Option("batch_size"))
        check_repair(self.repair is not None, self.denominator)
        check_output(self.repair, "repair")
        check_output(self.plot, "plot", *PICTURES)

    def _batches(self, labels: NDArray[Any], bar: Progress) -> Iterable[NDArray[Any]]:
        """Batches of the file or the plan, one after the other; the bar shows the progress."""
        from orthoframe.batches import read_batches

        if self.batches is not None:
            size = None
            with suppress(OSError):  # the reader says what is wrong with the file
                size = self.batches.stat().st_size or None  # a pipe has none
            task = bar.add_task("certifying", total=size)
            return read_batches(self.batches, len(labels), lambda count: bar.advance(task, count))
        plan = self.plan.make(labels, self.views)
        epochs = bar.track(range(self.plan.epochs), description="certifying")
        return (batch for epoch in epochs for batch in plan.batches(epoch))
