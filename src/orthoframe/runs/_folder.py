"""The folder of a run: its files, their one writer, and the checkpoints."""

import csv
import errno
import io
import json
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from orthoframe.batches import RunCertificate
from orthoframe.errors import Call, Option, OrthoframeError, TrainingError, brief, reason_of, unwritable
from orthoframe.files import LARGEST_TEXT, locked, open_file, parsed, read_small, write_atomic, write_json
from orthoframe.runs._checkpoint import Checkpoint, Progress, State
from orthoframe.runs._records import COLUMNS, EpochRecord, NonFiniteBatch, RunEnvironment, VerdictRecord

CONFIG, ENVIRONMENT, CERTIFICATE, VERDICT = "config.json", "run.json", "certificate.json", "verdict.json"
METRICS, GEOMETRY = "metrics.csv", "geometry.jsonl"
CHECKPOINT, PREVIOUS = "checkpoint.bin", "checkpoint.previous.bin"
NON_FINITE = "nan-batch.json"

_T = TypeVar("_T")
_environment = msgspec.json.Decoder(RunEnvironment)


def metrics_table(records: Sequence[EpochRecord]) -> str:
    """What `metrics.csv` says."""
    table = io.StringIO()
    writer = csv.DictWriter(table, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(asdict, records))  # None becomes an empty entry
    return table.getvalue()


class RunFolder:
    """Where a run keeps its files; the folder need not exist."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def check_free(self) -> None:
        """Refuse a folder that has a run in it, or that cannot be looked into."""
        try:
            taken = (self.path / CONFIG).exists()
        except OSError as error:
            raise TrainingError(*unwritable(self.path, error, "out")) from None
        if taken:
            raise TrainingError(
                *(f"{self.path} has a run in it; resume with ", Call("resume", str(self.path))),
                *(", or choose another ", Option("out")),
            )

    @contextmanager
    def opened(self, resumed: bool) -> Iterator[None]:
        """Keep other processes out; a process that dies lets go. A run that is not resumed may have to make it."""
        with ExitStack() as stack:
            try:
                if not resumed:
                    self.path.mkdir(parents=True, exist_ok=True)
                is_ours = stack.enter_context(locked(self.path))
            except OSError as error:
                if not resumed:
                    raise TrainingError(*unwritable(self.path, error, "out")) from None
                reason = f"{reason_of(error)}; resume a copy of it that can be written to"
                raise TrainingError(f"{self.path}: {reason}") from None
            if not is_ours:
                other = (", or choose another ", Option("out")) if not resumed else ()
                raise TrainingError(f"{self.path}: another process is training into it; wait", *other)
            (self.path / NON_FINITE).unlink(missing_ok=True)  # of the attempt before
            if not resumed:
                self.check_free()  # now that nobody else can start one
            yield

    def read_config(self, parse: Callable[[dict[str, Any]], _T]) -> _T:
        """The settings of the run that is in the folder, as `parse` makes them of the flat options in `config.json`."""
        file = self.path / CONFIG
        try:
            config = parsed(json.loads, read_small(file))
            if not isinstance(config, dict):
                raise ValueError("it is not an object")
            return parse(config)
        except FileNotFoundError:
            raise TrainingError(f"{file}: there is no run to resume") from None
        except (OSError, ValueError, TypeError) as error:
            raise TrainingError(f"{file}: not the settings of a run ({brief(error)})") from None

    def environment(self) -> RunEnvironment | None:
        """What the run used before; None if it was killed before it could say, or the file is broken."""
        try:
            environment = parsed(_environment.decode, read_small(self.path / ENVIRONMENT))
        except (OSError, ValueError):
            return None
        return environment if environment.processes > 0 else None

    def write_start(
        self, config: dict[str, Any] | None, environment: RunEnvironment, certificate: RunCertificate | None
    ) -> None:
        """Write what is known before the first step: settings, unless the run has them already; and a certificate."""
        if config is not None:
            write_json(self.path / CONFIG, config)
        write_json(self.path / ENVIRONMENT, asdict(environment))
        if certificate is not None:
            scope = {"epochs": certificate.epochs, "conclusive": certificate.conclusive}
            write_json(self.path / CERTIFICATE, {**certificate.certificate.to_dict(), **scope})

    def write_config(self, config: dict[str, Any]) -> None:
        """Write settings of which more is decided now."""
        write_json(self.path / CONFIG, config)

    def write_verdict(self, verdict: VerdictRecord) -> None:
        """Write how the run ended."""
        write_json(self.path / VERDICT, asdict(verdict))

    def write_non_finite(self, batch: NonFiniteBatch) -> Path:
        """Write which batch stopped the run; the file."""
        file = self.path / NON_FINITE
        write_json(file, asdict(batch))
        return file

    def write_tables(self, state: State) -> None:
        """Write the records, and add the new lines to those that count; what a killed run wrote after them is cut off.

        The state then has no new lines.
        """
        write_atomic(self.path / METRICS, metrics_table(state.records))
        if (self.path / GEOMETRY).is_fifo():  # to open it would wait for a reader
            raise TrainingError(f"{self.path / GEOMETRY}: it is a pipe, and no file to add lines to; remove it")
        with (self.path / GEOMETRY).open("ab") as file:
            if file.tell() < state.written:
                raise TrainingError(f"{self.path / GEOMETRY}: lines that the run had written are gone; start a new run")
            file.truncate(state.written)
            state.written += file.write("".join(state.lines).encode())
            file.flush()
            os.fsync(file.fileno())  # before the checkpoint that counts it
        state.lines.clear()

    def _check_tables(self, progress: Progress) -> None:
        """Raise a `ValueError` if what a checkpoint has no copy of is not there as it was."""
        name, state = METRICS, progress.state
        with suppress(OSError):
            rows = read_small(self.path / METRICS, LARGEST_TEXT).splitlines(keepends=True)[: state.epoch + 1]
            if zlib.crc32(b"".join(rows)) == progress.metrics and all(map(bytes.strip, rows)):
                name = GEOMETRY
                if not state.written or (self.path / GEOMETRY).stat().st_size >= state.written:
                    return
        raise ValueError(f"{name} was cut or changed; bring it back")

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint, and keep the one before it.

        A process that is killed during the write leaves the old one, the new one, or the old one as the previous.
        """
        newest = self.path / ".checkpoint.new.bin"
        write_atomic(newest, checkpoint.write)
        if (self.path / CHECKPOINT).exists():
            os.replace(self.path / CHECKPOINT, self.path / PREVIOUS)
        os.replace(newest, self.path / CHECKPOINT)

    def restore_previous(self) -> None:
        """Put the previous checkpoint in the place of the newest, which is broken: the next save keeps this one."""
        os.replace(self.path / PREVIOUS, self.path / CHECKPOINT)

    def load_checkpoint(self, check: Callable[[Checkpoint], None] | None = None) -> tuple[Checkpoint | None, list[str]]:
        """The newest checkpoint that is whole, with its tables; None if there is none. A sentence for each broken one.

        Args:
            check: Raises a `ValueError` for a checkpoint that is broken too, and an `OrthoframeError` to stop.

        Raises:
            TrainingError: If all are broken, one cannot be read, or `check` says so.
        """
        broken: list[str] = []
        for name in (CHECKPOINT, PREVIOUS):
            path = self.path / name
            if not path.exists():
                continue
            try:
                with open_file(path) as file:
                    checkpoint = Checkpoint.read(file)
                self._check_tables(checkpoint.progress)
                if check is not None:
                    check(checkpoint)
                return checkpoint, [f"{self.path}{os.sep}{each}" for each in broken]
            except MemoryError:  # not the fault of the file, which allocates no more than it has
                raise
            except OSError as error:  # nor is this, unless the disk has lost a part of it
                if error.errno != errno.EIO:
                    sentence = f"{path}: {reason_of(error)}; the run cannot be resumed without it"
                    raise TrainingError(sentence) from None
                broken.append(f"{name} is broken ({reason_of(error)})")
            except OrthoframeError as error:
                raise TrainingError(f"{self.path}: ", *error.args) from None
            except Exception as error:  # a broken file can fail in any way
                what = "" if isinstance(error, ValueError) and str(error) else f"{type(error).__name__}: "
                broken.append(f"{name} is broken ({what}{brief(error, 60)})")
        if broken:
            every = "; ".join(broken)
            raise TrainingError(f"{self.path}: {every}: no checkpoint is left to resume from; start a new run")
        if (self.path / "checkpoint.pt").exists():
            raise TrainingError(
                f"{self.path}: checkpoint.pt is from an earlier version; resume with that version, or start a new run"
            )
        return None, []
