"""The geometry of one epoch, as a line of `geometry.jsonl` has it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orthoframe.errors import InputError
from orthoframe.reporting._fields import (
    as_list,
    as_name,
    as_number,
    as_object,
    as_whole,
    field,
    parse_object,
)


@dataclass(frozen=True)
class Accuracies:
    """Of the nearest class centre."""

    balanced: float | None
    worst: float | None
    worst_class: int | str | None
    by_class: tuple[float | None, ...]  # in the order of the classes


@dataclass(frozen=True)
class Measured:
    """What was measured after one epoch."""

    epoch: int
    names: tuple[int | str, ...]
    counts: tuple[int, ...]
    cosines: NDArray[np.float64]  # [k, k], NaN where a class mean is zero
    owners: tuple[int, ...]  # [d], position of a class; -1 where the dimension is dead
    purity: tuple[float | None, ...]  # [d]
    delta_of: float | None
    beta_nc: float | None
    train: Accuracies | None
    test: Accuracies | None


def parse_measured(line: str, where: str) -> Measured:
    """Look into one line.

    Args:
        line: JSON with `epoch`, `train` (a geometry) and `test` (accuracies, or null).
        where: File and line, for errors.

    Returns:
        What it says.

    Raises:
        InputError: If a field is missing or is not what it must be.
    """
    data = parse_object(line, where)
    epoch = as_whole(field(data, "epoch", where), f"{where}: epoch")
    place = f"{where}: train"
    train = as_object(field(data, "train", where), place)
    classes = [
        as_object(entry, f"{place}.classes[{c}]")
        for c, entry in enumerate(as_list(field(train, "classes", place), f"{place}.classes"))
    ]
    k = len(classes)
    names = [
        as_name(field(entry, "name", f"{place}.classes[{c}]"), f"{place}.classes[{c}].name")
        for c, entry in enumerate(classes)
    ]
    if len({str(name) for name in names}) < k or not k:
        raise InputError(f"{place}.classes: there must be classes, and each must have its own name")
    counts = [
        as_whole(field(entry, "rows", f"{place}.classes[{c}]"), f"{place}.classes[{c}].rows")
        for c, entry in enumerate(classes)
    ]
    owners, purity = _ownership(as_object(field(train, "ownership", place), f"{place}.ownership"), place, k)
    return Measured(
        epoch=epoch,
        names=tuple(names),
        counts=tuple(counts),
        cosines=_square(field(train, "cosines", place), f"{place}.cosines", k),
        owners=owners,
        purity=purity,
        delta_of=as_number(field(train, "delta_of", place), f"{place}.delta_of"),
        beta_nc=as_number(field(train, "beta_nc", place), f"{place}.beta_nc"),
        train=_accuracies(train.get("accuracy"), f"{place}.accuracy", k),
        test=_accuracies(data.get("test"), f"{where}: test", k),
    )


def _square(value: Any, where: str, k: int) -> NDArray[np.float64]:
    rows = [as_list(row, f"{where}[{c}]", k) for c, row in enumerate(as_list(value, where, k))]
    numbers = [[as_number(entry, f"{where}[{c}]") for entry in row] for c, row in enumerate(rows)]
    return np.array(numbers, dtype=np.float64)  # None becomes NaN


def _ownership(data: dict[str, Any], place: str, k: int) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
    where = f"{place}.ownership"
    owners = [as_whole(entry, f"{where}.owners", -1) for entry in as_list(field(data, "owners", where), where)]
    if owners and max(owners) >= k:
        raise InputError(f"{where}.owners: class number {max(owners)}, and there are {k} classes")
    purity = as_list(field(data, "purity", where), f"{where}.purity", len(owners))
    return tuple(owners), tuple(as_number(entry, f"{where}.purity") for entry in purity)


def _accuracies(value: Any, where: str, k: int) -> Accuracies | None:
    if value is None:
        return None
    data = as_object(value, where)
    worst_class = data.get("worst_class")
    by_class = as_list(field(data, "by_class", where), f"{where}.by_class", k)
    return Accuracies(
        balanced=as_number(field(data, "balanced", where), f"{where}.balanced"),
        worst=as_number(field(data, "worst", where), f"{where}.worst"),
        worst_class=None if worst_class is None else as_name(worst_class, f"{where}.worst_class"),
        by_class=tuple(as_number(entry, f"{where}.by_class") for entry in by_class),
    )
