"""`orthoframe report`: the report of a run again, or of several runs side by side."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from orthoframe.cli._files import check_output, write_atomic
from orthoframe.errors import InputError


@dataclass(frozen=True)
class ReportCommand:
    """Write the report of runs: one HTML file that needs nothing else.

    Exit status: 0 written, 2 bad input. For example:

    orthoframe report runs/digits-step10-mlp-relu-seed0

    orthoframe report runs/with-relu runs/without --out comparison.html
    """

    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN...")]
    """The folders of one or more runs."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="OUT.html")] = None
    """Where to write the report (default: report.html in the folder of a single run, or comparison.html here)."""

    def run(self) -> int:
        """Write the report, and print where it is."""
        from orthoframe.reporting import write_report
        from orthoframe.runs import read_run

        if not self.runs:
            raise InputError("which runs? Name at least one folder")
        runs = [read_run(folder) for folder in self.runs]
        out = self.out or (self.runs[0] / "report.html" if len(runs) == 1 else Path("comparison.html"))
        check_output(out, "out", ".html")
        write_atomic(out, "out", lambda file: write_report(runs, file))
        print(out)
        return 0
