"""The folder of a run: its files, its checkpoints, and that only one process writes to it."""

import csv
import io
import json
import os
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import torch

from orthoframe._atomic import json_ready, locked, write_atomic, write_json
from orthoframe.errors import Option, TrainingError
from orthoframe.training._records import COLUMNS, NON_FINITE_FILE, EpochRecord, NonFiniteBatch, RunEnvironment
from orthoframe.training._settings import Settings

CHECKPOINT, PREVIOUS = "checkpoint.pt", "checkpoint.previous.pt"


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
            raise self._unusable(error) from None
        if taken:
            raise TrainingError(
                *(f"{self.path} has a run in it; go on with ", Option("resume", str(self.path))),
                *(", or choose another ", Option("out")),
            )

    @contextmanager
    def opened(self, resumed: bool) -> Iterator[None]:
        """Keep other processes out; a process that dies lets go.

        Args:
            resumed: Whether a run is here that goes on; if not, the folder may have to be made.

        Raises:
            TrainingError: If there is a run in it already, another process is writing to it, or it cannot be made.
        """
        with ExitStack() as held:
            try:
                if not resumed:
                    self.path.mkdir(parents=True, exist_ok=True)
                ours = held.enter_context(locked(self.path))
            except OSError as error:
                raise self._unusable(error) from None
            if not ours:
                raise TrainingError(
                    f"{self.path}: another process is training into it; wait, or choose another ", Option("out")
                )
            (self.path / NON_FINITE_FILE).unlink(missing_ok=True)  # of the attempt before
            if not resumed:
                self.check_free()  # now that nobody else can start one
            yield

    def write_settings(self, settings: Settings) -> None:
        """From here on there is a run in the folder."""
        write_json(self.path / "config.json", settings.to_dict())

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
        except (OSError, ValueError, TypeError) as error:
            raise TrainingError(f"{file}: not the settings of a run ({error})") from None
        return settings

    def write_environment(self, environment: RunEnvironment) -> None:
        """Write what the run uses."""
        write_json(self.path / "run.json", asdict(environment))

    def environment(self) -> RunEnvironment | None:
        """What the run used before; None if it was killed before it could say."""
        try:
            return msgspec.json.decode((self.path / "run.json").read_bytes(), type=RunEnvironment)
        except (OSError, msgspec.DecodeError):
            return None

    def write_metrics(self, records: Sequence[EpochRecord], measurements: Sequence[dict[str, Any]]) -> None:
        """Write what was measured so far."""
        table = io.StringIO()
        writer = csv.DictWriter(table, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(json_ready(asdict(record)) for record in records)  # None becomes an empty entry
        write_atomic(self.path / "metrics.csv", table.getvalue())
        lines = (json.dumps(json_ready(entry)) + "\n" for entry in measurements)
        write_atomic(self.path / "geometry.jsonl", "".join(lines))

    def write_non_finite(self, batch: NonFiniteBatch) -> Path:
        """Write the batch that stopped the run; the file."""
        write_json(self.path / NON_FINITE_FILE, asdict(batch))
        return self.path / NON_FINITE_FILE

    def save_checkpoint(self, state: dict[str, Any]) -> None:
        """Write a checkpoint, and keep the one before it.

        A process that is killed meanwhile leaves the old one, the new one, or the old one as the previous.

        Raises:
            OSError: If it cannot be written; the last good one is left.
        """
        buffer = io.BytesIO()
        torch.save(state, buffer)
        fresh = self.path / ".checkpoint.new.pt"
        write_atomic(fresh, lambda file: file.write(buffer.getbuffer()))
        if (self.path / CHECKPOINT).exists():
            os.replace(self.path / CHECKPOINT, self.path / PREVIOUS)
        os.replace(fresh, self.path / CHECKPOINT)

    def load_checkpoint(self) -> tuple[dict[str, Any] | None, list[str]]:
        """The newest checkpoint that is whole.

        Returns:
            The state, None if the run was killed before its first; and a sentence for each broken one.

        Raises:
            TrainingError: If there are checkpoints and none is whole.
        """
        complaints: list[str] = []
        for name in (CHECKPOINT, PREVIOUS):
            path = self.path / name
            if not path.exists():
                continue
            try:
                return _read_checkpoint(path), complaints
            except Exception as error:  # a broken file can fail in any way
                complaints.append(f"{path} is broken ({type(error).__name__}: {str(error).splitlines()[0][:120]})")
        if complaints:
            raise TrainingError("; ".join(complaints) + ": no checkpoint is left to go on from; start a new run")
        return None, complaints

    def drop_broken_checkpoint(self) -> None:
        """Replace the newest checkpoint, which is broken, by the previous one, which the next save would lose.

        To be called by one process, when all have loaded.
        """
        os.replace(self.path / PREVIOUS, self.path / CHECKPOINT)

    def _unusable(self, error: OSError) -> TrainingError:
        return TrainingError(f"{self.path}: {error.strerror or error}; choose another ", Option("out"))


def _read_checkpoint(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:  # torch does not notice a changed byte, and this does
        damaged = archive.testzip()
    if damaged is not None:
        raise ValueError(f"the checksum of {damaged} is wrong")
    state = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(state, dict) or "state" not in state:
        raise ValueError("it is not the state of a run")
    return state
