"""The folder of a run: what is in it, and that only one process writes to it."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orthoframe._atomic import write_atomic
from orthoframe._version import __version__
from orthoframe.errors import TrainingError
from orthoframe.training._records import COLUMNS
from orthoframe.training._settings import Settings

NAN_FILE = "nan-batch.json"
"""What stopped a run whose loss is no number."""


class RunFolder:
    """Where a run keeps its files.

    Args:
        path: The folder; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def check_free(self) -> None:
        """Refuse a folder that has a run in it, before any work.

        Raises:
            TrainingError: If it has, or if it cannot be looked into.
        """
        try:
            taken = (self.path / "config.json").exists()
        except OSError as error:
            raise TrainingError(f"{self.path}: {error.strerror or error}; choose another --out") from None
        if taken:
            raise TrainingError(
                f"{self.path} has a run in it; go on with --resume {self.path}, or choose another --out"
            )

    @contextmanager
    def opened(self, resumed: bool) -> Iterator[None]:
        """Keep other processes out; a process that dies lets go.

        Args:
            resumed: Whether a run is here that goes on; if not, the folder may have to be made.

        Raises:
            TrainingError: If there is a run in it already, another process is writing to it, or it cannot be made.
        """
        from filelock import FileLock, Timeout

        try:
            if not resumed:
                self.path.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.path / ".lock")
            lock.acquire(timeout=0)
        except Timeout:
            raise TrainingError(
                f"{self.path}: another process is training into it; wait, or choose another --out"
            ) from None
        except OSError as error:
            raise TrainingError(f"{self.path}: {error.strerror or error}; choose another --out") from None
        try:
            for leftover in self.path.glob(".orthoframe.*"):  # of a process that was killed
                leftover.unlink()
            (self.path / NAN_FILE).unlink(missing_ok=True)  # of the attempt before
            if not resumed:
                self.check_free()  # now that nobody else can start one
            yield
        finally:
            lock.release()

    def write_settings(self, settings: Settings) -> None:
        """From here on there is a run in the folder."""
        self.write_json("config.json", {**settings.to_dict(), "version": __version__})

    def settings(self) -> Settings:
        """The settings of the run that is in the folder.

        Raises:
            TrainingError: If there is none, or they cannot be read.
        """
        file = self.path / "config.json"
        try:
            data = json.loads(file.read_text())
            if not isinstance(data, dict):
                raise ValueError("it is not an object")
            settings = Settings.from_dict(data)
            settings.check()
        except FileNotFoundError:
            raise TrainingError(f"{file}: there is no run to go on with") from None
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise TrainingError(f"{file}: not the settings of a run ({error})") from None
        return settings

    def write_json(self, name: str, data: Any) -> None:
        """Write one file of JSON."""
        self.write(name, json.dumps(data, indent=2) + "\n")

    def write_metrics(self, rows: Sequence[dict[str, Any]], geometries: Sequence[dict[str, Any]]) -> None:
        """Write what was measured so far."""
        table = io.StringIO()
        writer = csv.DictWriter(table, COLUMNS, lineterminator="\n", restval="")
        writer.writeheader()
        writer.writerows(rows)
        self.write("metrics.csv", table.getvalue())
        self.write("geometry.jsonl", "".join(json.dumps(entry) + "\n" for entry in geometries))

    def write(self, name: str, text: str) -> None:
        """Write one file of text."""
        write_atomic(self.path / name, lambda file: file.write(text.encode()))
