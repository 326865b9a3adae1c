"""What a study found, with every number, as JSON."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from orthoframe._version import __version__
from orthoframe.studies._claims import Interval, together
from orthoframe.studies._source import source_commit
from orthoframe.studies._study import Comparison, Finding, Measured, Scale, Study


@dataclass(frozen=True)
class Failure:
    """A run that gave no result.

    Attributes:
        where: The coordinates of its cell.
        seed: Its seed.
        key: Its folder in the store.
        sentence: Why.
    """

    where: Mapping[str, Any]
    seed: int
    key: str
    sentence: str


@dataclass(frozen=True)
class Outcome:
    """How a study ended.

    Attributes:
        cells: With the results that there are, in the order of the grid.
        findings: What they say about each claim.
        failures: Runs that gave no result.
        runs: How many jobs the study has; the same job in two cells is one.
        reused: How many of them had a result before.
        seconds: What all runs took together, one after the other, whenever they were run.
        commits: Of the source that computed the runs, as far as it is known.
    """

    study: Study
    scale: Scale
    seeds: int
    cells: tuple[Measured, ...]
    findings: tuple[Finding, ...]
    failures: tuple[Failure, ...]
    runs: int
    reused: int
    seconds: float
    commits: tuple[str, ...]

    def to_dict(self, command: str) -> dict[str, Any]:
        """Types that JSON knows; what is no finite number is None.

        Args:
            command: What makes these numbers again.
        """
        commit, modified = source_commit()
        data = {
            "study": self.study.name,
            "question": self.study.question,
            "remark": self.study.remark,
            "history": self.study.history,
            "scale": self.scale,
            "seeds": self.seeds,
            "command": command,
            "version": __version__,
            "commit": commit,
            "modified": modified,
            "run_commits": self.commits,
            "runs": self.runs,
            "reused": self.reused,
            "seconds": self.seconds,
            "verdict": together([finding.decision for finding in self.findings]),
            "columns": self.study.columns,
            "panels": [asdict(panel) for panel in self.study.panels],
            "claims": [self._claim(finding) for finding in self.findings],
            "cells": [self._cell(cell) for cell in self.cells],
            "failures": [asdict(failure) for failure in self.failures],
        }
        plain: dict[str, Any] = as_plain(data)
        return plain

    def _cell(self, cell: Measured) -> dict[str, Any]:
        quantities = dict.fromkeys(name for result in cell.results.values() for name in result["final"])
        return {
            "where": cell.where,
            "summary": {name: _interval(cell.interval(name), list(cell.values(name))) for name in quantities},
            "results": {str(seed): result for seed, result in cell.results.items()},
        }

    def _claim(self, finding: Finding) -> dict[str, Any]:
        return {
            **asdict(finding.claim),
            "rule": finding.claim.rule,
            "decision": finding.decision,
            "comparisons": [self._comparison(part) for part in finding.comparisons],
        }

    def _comparison(self, part: Comparison) -> dict[str, Any]:
        return {"where": part.where, "decision": part.decision, **_interval(part.interval, part.seeds)}


def _interval(interval: Interval, seeds: Sequence[int]) -> dict[str, Any]:
    values = {str(seed): value for seed, value in zip(seeds, interval.values, strict=True)}
    return {"mean": interval.mean, "low": interval.low, "high": interval.high, "values": values}


def as_plain(data: Any) -> Any:
    """The same in types that JSON knows: six digits of each number, None for what is no finite one.

    Examples:
        >>> as_plain({"time": math.inf, "pair": (1, math.nan)})
        {'time': None, 'pair': [1, None]}
    """
    if isinstance(data, Mapping):
        return {str(name): as_plain(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [as_plain(value) for value in data]
    if isinstance(data, float):
        return float(f"{data:.6g}") if math.isfinite(data) else None
    return data


def as_json(data: Any) -> bytes:
    """A file of JSON that every reader understands."""
    return (json.dumps(as_plain(data), separators=(",", ":"), allow_nan=False) + "\n").encode()
