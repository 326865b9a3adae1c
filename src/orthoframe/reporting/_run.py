"""A run folder, read and checked."""

import csv
import io
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from orthoframe.errors import InputError
from orthoframe.reporting._fields import (
    as_list,
    as_name,
    as_object,
    as_truth,
    as_whole,
    as_words,
    field,
    parse_object,
    read_text,
)
from orthoframe.reporting._measured import Measured, parse_measured
from orthoframe.training import COLUMNS, NON_FINITE_FILE, VerdictRecord, unfinished

_HINT = "a run folder has config.json, metrics.csv, geometry.jsonl and, once the run has ended, verdict.json"


@dataclass(frozen=True)
class Verdict:
    """How a run ended, in words."""

    words: str
    signature: str
    reached: bool = False
    causes: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()


@dataclass(frozen=True)
class Run:
    """What a run folder says.

    Attributes:
        name: The folder's own name.
        config: Its settings.
        metrics: Columns of `metrics.csv`, an entry for each epoch; None where nothing was measured.
        measured: The geometry of each epoch at which it was measured.
        certificate: What the batch plan guarantees; None where the loss does not need one.
        verdict: How it ended.
    """

    name: str
    config: dict[str, Any]
    metrics: dict[str, tuple[float | None, ...]]
    measured: tuple[Measured, ...]
    certificate: dict[str, Any] | None
    verdict: Verdict

    @property
    def epochs(self) -> tuple[int, ...]:
        """The number of each epoch."""
        return tuple(int(epoch) for epoch in self.metrics["epoch"] if epoch is not None)

    def last(self, column: str) -> float | None:
        """The latest entry of a column that is there."""
        return next((value for value in reversed(self.metrics[column]) if value is not None), None)


def read_run(folder: str | os.PathLike[str]) -> Run:
    """Read a run folder.

    Args:
        folder: Where `orthoframe train` wrote to.

    Returns:
        What it says.

    Raises:
        InputError: If a file is missing or is not what it must be; the message names the file and the place.
    """
    path = Path(folder)
    if not path.is_dir():
        raise InputError(f"{path}: there is no such folder; {_HINT}")
    ended = (path / "verdict.json").exists()
    config = parse_object(read_text(path / "config.json", _HINT), str(path / "config.json"))
    metrics = _read_metrics(path / "metrics.csv", ended)
    return Run(
        name=path.resolve().name or str(path),
        config=config,
        metrics=metrics,
        measured=_read_measured(path / "geometry.jsonl"),
        certificate=_read_certificate(path / "certificate.json"),
        verdict=_read_verdict(path / "verdict.json") if ended else _not_finished(path, config, len(metrics["epoch"])),
    )


def _not_finished(path: Path, config: dict[str, Any], epochs: int) -> Verdict:
    """In the place of a verdict: how far the run is, and what to do."""
    asked = config.get("epochs", epochs)
    return _verdict(unfinished(path, epochs, asked, non_finite=(path / NON_FINITE_FILE).exists()))


def _read_metrics(path: Path, ended: bool) -> dict[str, tuple[float | None, ...]]:
    rows = csv.reader(io.StringIO(read_text(path, _HINT), newline=""), strict=True)
    try:
        header = next(rows, [])
        missing = [name for name in COLUMNS if name not in header]
        if missing:
            raise InputError(f"{path}: its first line must name the columns, and has no {', '.join(missing)}")
        table = []
        for row in rows:
            if len(row) != len(header):
                raise InputError(f"{path}, line {rows.line_num}: {len(row)} fields, and the header has {len(header)}")
            entries = dict(zip(header, row, strict=True))
            table.append([_entry(entries[name], f"{path}, line {rows.line_num}: {name}") for name in COLUMNS])
    except csv.Error as error:
        raise InputError(f"{path}, line {rows.line_num}: not a .csv file ({error})") from None
    if not table and not ended:  # it was stopped in the first epoch
        return dict.fromkeys(COLUMNS, ())
    if not table:
        raise InputError(f"{path}: there is no epoch; a run writes a line for each one that it ends")
    columns = dict(zip(COLUMNS, zip(*table, strict=True), strict=True))
    _check_epochs(columns["epoch"], path)
    return columns


def _entry(text: str, where: str) -> float | None:
    if not text.strip():
        return None
    try:
        number = float(text)
    except ValueError:
        raise InputError(f"{where} is {text[:40]!r}, which is no number") from None
    return number if math.isfinite(number) else None


def _check_epochs(epochs: tuple[float | None, ...], path: Path) -> None:
    before = -1.0
    for epoch in epochs:
        if epoch is None or not epoch.is_integer() or epoch <= before:
            raise InputError(
                f"{path}: epochs must be whole numbers that grow, and {before:g} is followed by {epoch}"
                if before >= 0
                else f"{path}: epochs must be whole numbers from 0 on, and the first is {epoch}"
            )
        before = epoch


def _read_measured(path: Path) -> tuple[Measured, ...]:
    found: list[Measured] = []
    for number, line in enumerate(read_text(path, _HINT).split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        entry = parse_measured(line, where)
        if found and entry.epoch <= found[-1].epoch:
            raise InputError(f"{where}: epochs must grow, and {found[-1].epoch} is followed by {entry.epoch}")
        if found and (entry.names, entry.counts) != (found[0].names, found[0].counts):
            raise InputError(f"{where}: its classes are not those of epoch {found[0].epoch}; a run has the same ones")
        found.append(entry)
    return tuple(found)


def _read_certificate(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    where = str(path)
    data = parse_object(read_text(path, _HINT), where)
    for key in ("holds", "holds_as_stated"):
        as_truth(field(data, key, where), f"{where}: {key}")
    as_words(field(data, "sentence", where), f"{where}: sentence")
    for key in ("num_batches", "memberships", "single_class_batches", "absent", "epochs"):
        as_whole(field(data, key, where), f"{where}: {key}")
    for c, entry in enumerate(as_list(field(data, "classes", where), f"{where}: classes")):
        place = f"{where}: classes[{c}]"
        report = as_object(entry, place)
        as_name(field(report, "name", place), f"{place}.name")
        for key in ("samples", "absent", "components", "components_as_stated"):
            as_whole(field(report, key, place), f"{place}.{key}")
    for p, pair in enumerate(as_list(field(data, "missing_pairs", where), f"{where}: missing_pairs")):
        for name in as_list(pair, f"{where}: missing_pairs[{p}]", 2):
            as_name(name, f"{where}: missing_pairs[{p}]")
    return data


def _read_verdict(path: Path) -> Verdict:
    try:
        return _verdict(msgspec.json.decode(path.read_bytes(), type=VerdictRecord))
    except msgspec.DecodeError as error:
        raise InputError(f"{path}: {error}") from None


def _verdict(record: VerdictRecord) -> Verdict:
    return Verdict(
        words=record.sentence,
        reached=record.reached,
        signature=record.label,
        causes=tuple(cause.sentence for cause in record.causes),
        advice=tuple(cause.advice for cause in record.causes),
    )
