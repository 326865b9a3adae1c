"""A run folder, decoded into its records."""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from orthoframe.errors import InputError, Option, brief, spelled
from orthoframe.files import LARGEST_RECORDS, csv_rows, open_file, open_text, parsed, read_small, reading
from orthoframe.geometry import Accuracy
from orthoframe.runs._folder import CERTIFICATE, CONFIG, ENVIRONMENT, GEOMETRY, METRICS, NON_FINITE, VERDICT
from orthoframe.runs._records import (
    Cause,
    CauseRecord,
    CertificateRecord,
    Ending,
    EpochRecord,
    Measurement,
    RunEnvironment,
    TestRecord,
    VerdictRecord,
)

_HINT = "a run folder has config.json, metrics.csv, geometry.jsonl and, once the run has ended, verdict.json"
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a run folder says.

    Attributes:
        name: The name of the folder.
        config: The settings that were asked for.
        epochs: The rows of `metrics.csv`.
        measurements: The geometry at each epoch at which it was measured.
        certificate: What the batch plan guarantees; None where the loss does not need one.
        verdict: How the run ended.
        environment: What the run used; None in a folder that does not say.
    """

    name: str
    config: dict[str, Any]
    epochs: tuple[EpochRecord, ...]
    measurements: tuple[Measurement, ...]
    certificate: CertificateRecord | None
    verdict: VerdictRecord
    environment: RunEnvironment | None = None

    @property
    def accuracy(self) -> tuple[str, Accuracy | None]:
        """The accuracy that says most about other images, after its name: test, validation or training.

        Where there are validation images, test images are looked at once, at the end.
        """
        if self.verdict.test is not None:
            return "test", self.verdict.test.accuracy
        if not self.measurements:
            return "training", None
        end = self.measurements[-1]
        parts = {"test": end.test, "validation": end.validation, "training": end.train.accuracy}
        return next(((part, accuracy) for part, accuracy in parts.items() if accuracy is not None), ("training", None))

    @property
    def classifier(self) -> str:
        """What classifies images, in words."""
        test = self.verdict.test
        return "classifier" if test is None or test.classifier is None else test.classifier

    def column(self, name: str) -> list[tuple[int, float]]:
        """Epoch and value, for each epoch that has a finite value."""
        values = ((record.epoch, getattr(record, name)) for record in self.epochs)
        return [(epoch, value) for epoch, value in values if value is not None and math.isfinite(value)]

    def last(self, name: str) -> float | None:
        """The latest finite value of a column."""
        return next((value for _, value in reversed(self.column(name))), None)


def read_run(folder: str | os.PathLike[str]) -> Run:
    """Read a run folder.

    Args:
        folder: Where `orthoframe train` wrote to.

    Returns:
        What it says.

    Raises:
        InputError: If a file is missing or is not as training writes it; the message names the file and the place.
    """
    path = Path(folder)
    if not os.path.isdir(path):  # False for what the system refuses to look at
        raise InputError(f"{path}: there is no such folder; {_HINT}")
    config = _read_json(path / CONFIG, dict[str, Any])
    epochs = read_epochs(path)
    if (path / VERDICT).exists():
        verdict = _read_json(path / VERDICT, VerdictRecord)
        if not epochs:
            raise InputError(f"{path / 'metrics.csv'}: there is no epoch, although the run has ended")
    else:
        non_finite = (path / NON_FINITE).exists()
        verdict = _unfinished(path, len(epochs), config.get("epochs", len(epochs)), non_finite)
    measurements = _read_measurements(path / GEOMETRY, ended=(path / VERDICT).exists())
    if verdict.test is not None:
        _check_test(verdict.test, measurements, str(path / VERDICT))
    certificate, environment = path / CERTIFICATE, path / ENVIRONMENT
    return Run(
        name=path.resolve().name or str(path),
        config=config,
        epochs=epochs,
        measurements=measurements,
        certificate=_read_json(certificate, CertificateRecord) if certificate.exists() else None,
        verdict=verdict,
        environment=_read_json(environment, RunEnvironment) if environment.exists() else None,
    )


def _unfinished(folder: Path, epochs_done: int, epochs: int, non_finite: bool) -> VerdictRecord:
    """Stands in for the verdict of a run that has not finished, or whose loss was not finite."""
    if non_finite:
        ending, cause = Ending.NON_FINITE, Cause.NON_FINITE
        advice = spelled(["a smaller ", Option("lr"), " or ", Option("precision", "32"), ", in a new run"])
        after = f"; {NON_FINITE} has the batch"
    else:
        ending, cause, after = Ending.NOT_FINISHED, Cause.NOT_FINISHED, ""
        advice = f"resume the run in {folder}"
    sentence = f"Not finished: after epoch {epochs_done} of {epochs} {ending.sentence}{after}."
    causes = (CauseRecord(cause, cause.sentence, advice),)
    return VerdictRecord(sentence=sentence, reached=False, signature=None, ending=ending, causes=causes)


def _read_json(path: Path, kind: type[_T]) -> _T:
    with _reading(path):
        data = read_small(path, LARGEST_RECORDS) if kind is CertificateRecord else read_small(path)
    return _decoded(msgspec.json.Decoder(kind).decode, data, str(path))


def _decoded(decode: Callable[[Any], _T], data: Any, where: str) -> _T:
    try:
        return parsed(decode, data)
    except ValueError as error:
        raise InputError(f"{where}: {error}") from None


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """As `reading`, with a hint where a file is missing."""
    with reading(path, "what a run writes"):
        if not path.exists():
            raise InputError(f"{path}: No such file; {_HINT}")
        yield


def read_epochs(folder: Path) -> tuple[EpochRecord, ...]:
    """The rows of `metrics.csv`."""
    path = folder / METRICS
    convert = partial(msgspec.convert, type=EpochRecord, strict=False)
    records: list[EpochRecord] = []
    with _reading(path), open_text(path) as file:
        rows = csv_rows(file, strict=True)
        _, header = next(rows, (0, []))
        for number, row in rows:
            where = f"{path}, line {number}"
            if row and len(row) != len(header):
                raise InputError(f"{where}: the header has {len(header)} fields, and this line another number")
            if row:
                entries = {name: text for name, text in zip(header, row, strict=True) if text.strip()}
                record = _decoded(convert, entries, where)
                _check_order(records, record.epoch, where)
                records.append(record)
    return tuple(records)


def _read_measurements(path: Path, ended: bool) -> tuple[Measurement, ...]:
    measurements: list[Measurement] = []
    decoder = msgspec.json.Decoder(Measurement)
    with _reading(path), open_file(path, LARGEST_RECORDS) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip() or not (ended or line.endswith(b"\n")):  # a line of which a killed run wrote a part
                continue
            where = f"{path}, line {number}"
            entry = _decoded(decoder.decode, line, where)
            _check_order(measurements, entry.epoch, where)
            _check_shapes(entry, where)
            if measurements and _classes(entry) != _classes(measurements[0]):
                raise InputError(f"{where}: its classes are not those of epoch {measurements[0].epoch}")
            measurements.append(entry)
    return tuple(measurements)


def _classes(measurement: Measurement) -> list[tuple[int | str, int]]:
    return [(entry.name, entry.rows) for entry in measurement.train.classes]


def _check_order(before: Sequence[EpochRecord | Measurement], epoch: int, where: str) -> None:
    last = before[-1].epoch if before else -1
    if epoch <= last:
        raise InputError(
            f"{where}: epochs must be 0 or more and increase, and {brief(epoch, 20)} is not more than {brief(last, 20)}"
        )


def _check_shapes(measurement: Measurement, where: str) -> None:
    """Refuse numbers that do not fit each other; pictures rely on that they do."""
    train = measurement.train
    k, d = len(train.classes), len(train.ownership.owners)
    if not k or len({str(entry.name) for entry in train.classes}) < k:
        raise InputError(f"{where}: train.classes must be classes, each with its own name")
    cosines = [(None,) * k] * k if train.cosines is None else train.cosines
    shapes = {
        "train.cosines": (len(cosines), k),
        **{f"train.cosines[{c}]": (len(row), k) for c, row in enumerate(cosines)},
        "train.ownership.purity": (len(train.ownership.purity), d),
        "train.accuracy.by_class": (len(train.accuracy.by_class) if train.accuracy else k, k),
        "test.by_class": (len(measurement.test.by_class) if measurement.test else k, k),
        "validation.by_class": (len(measurement.validation.by_class) if measurement.validation else k, k),
    }
    for place, (entries, expected) in shapes.items():
        if entries != expected:
            raise InputError(f"{where}: {place} has {entries} entries, not {expected}")
    if any(not -1 <= owner < k for owner in train.ownership.owners):
        raise InputError(f"{where}: train.ownership.owners must be -1 or the position of one of {k} classes")


def _check_test(test: TestRecord, measurements: Sequence[Measurement], where: str) -> None:
    """Pictures rely on these, too."""
    k, confusion = len(test.confusion.names), test.confusion
    if not len(confusion.rows) == len(test.accuracy.by_class) == k:
        raise InputError(f"{where}: test has {k} classes, rows of {len(confusion.rows)}, and accuracies of others")
    if measurements and not {str(name) for name, _ in _classes(measurements[-1])} <= set(map(str, confusion.names)):
        raise InputError(f"{where}: the classes of test are not those of geometry.jsonl")
    if any(not (0 <= a < k and 0 <= b < k and 0 <= n <= confusion.rows[a]) for a, b, n in confusion.cells):
        raise InputError(f"{where}: test.confusion.cells must be two of {k} classes, and no more rows than there are")
