"""What the measures say of an embedding."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from orthoframe.geometry._measures import collapse_trace, distance_to_gram, etf_gram, frame_gram
from orthoframe.geometry._ownership import Ownership, ownership
from orthoframe.geometry._statistics import ClassStatistics

# Below these an embedding is called a frame, a class collapsed: words for a reader, nothing more.
NEAR_FRAME, COLLAPSED = 0.05, 0.01


@dataclass(frozen=True)
class Accuracy:
    """Of the nearest class centre; of the classes that were measured."""

    overall: float
    balanced: float  # mean over classes
    worst: float
    worst_class: int | str
    majority: float  # mean over the larger half of the classes
    minority: float  # mean over the smaller half
    by_class: tuple[float, ...]


@dataclass(frozen=True)
class Geometry:
    """How the features of classes are arranged; `str()` is a short table, `to_dict()` is for JSON.

    Everything is over the classes that have rows; `missing` names the others.

    Attributes:
        names: Classes that have rows.
        missing: Classes that have none.
        counts: `[k]`, rows of each class.
        dim: d.
        gram: `[k, k]`, products of class means.
        cosines: `[k, k]`, cosines of class means.
        delta_of: Distance of the Gram matrix to that of an orthogonal frame (Delta_GM); 0 at a frame.
        delta_etf: Distance of the Gram matrix of centred means to that of a simplex ETF; 0 at a frame too.
        beta_nc: tr(Sigma_W Sigma_B^+)/k; 0 at neural collapse. NaN if the scatter was not kept.
        collapse_trace: The same without 1/k, as the paper's code has it.
        mean_cosine: Over pairs of classes whose means are not zero.
        max_cosine: Over the same pairs.
        norm_ratio: Longest class mean over the shortest.
        spreads: `[k]`, mean squared distance of the rows of a class to its mean.
        ownership: Which class owns each dimension.
        dead_rows: Rows that are all zero.
        accuracy: Of the nearest class centre, if the rows were seen a second time.
    """

    names: tuple[int | str, ...]
    missing: tuple[int | str, ...]
    counts: tuple[int, ...]
    dim: int
    gram: Tensor
    cosines: Tensor
    delta_of: float
    delta_etf: float
    beta_nc: float
    collapse_trace: float
    mean_cosine: float
    max_cosine: float
    norm_ratio: float
    spreads: Tensor
    ownership: Ownership
    dead_rows: int
    accuracy: Accuracy | None = None

    @property
    def spread(self) -> float:
        """The part of the squared length of rows that is not that of their class mean, a mean over classes.

        1 - |mean|^2 if rows have length 1. Unlike `beta_nc` it sees rows that are spread at right angles to all means.
        """
        energy = self.spreads + torch.diagonal(self.gram)
        return float((self.spreads / energy.masked_fill(energy == 0, 1.0)).mean())

    def distance_to(self, target: Tensor) -> float:
        """Distance of the Gram matrix of class means to any other `[k, k]`; 0 if they are proportional."""
        if target.shape != self.gram.shape:
            raise ValueError(f"target must have shape {list(self.gram.shape)}, not {list(target.shape)}")
        return distance_to_gram(self.gram, target.to(self.gram))

    def verdict(self) -> str:
        """What it looks like, in a sentence."""
        if len(self.names) < 2:
            return "One class: there is nothing to compare."
        if self.delta_of <= NEAR_FRAME:
            shape = "Class means form an orthogonal frame"
        elif self.delta_etf <= NEAR_FRAME and self.mean_cosine < 0:
            shape = "Class means form a simplex ETF, not an orthogonal frame"
        else:
            shape = "Class means form neither an orthogonal frame nor a simplex ETF"
        if bool(torch.diagonal(self.gram).eq(0).any()):
            zero = [name for name, square in zip(self.names, torch.diagonal(self.gram), strict=True) if square == 0]
            shape += f" (the mean of class {zero[0]} is zero)"
        if math.isnan(self.beta_nc):
            return shape + "."
        collapsed = max(self.beta_nc, self.spread) <= COLLAPSED
        return f"{shape}, and classes {'have collapsed' if collapsed else 'have not collapsed'}."

    def __str__(self) -> str:
        rows = [
            ("distance to orthogonal frame", f"{self.delta_of:.4g}"),
            ("distance to ETF (centred)", f"{self.delta_etf:.4g}"),
            ("beta_NC (trace)", f"{self.beta_nc:.4g} ({self.collapse_trace:.4g})"),
            ("spread within classes", f"{self.spread:.4g}"),
            ("cosine of means, mean and largest", f"{self.mean_cosine:.4f}, {self.max_cosine:.4f}"),
            ("longest over shortest mean", f"{self.norm_ratio:.4g}"),
            (
                "dimensions owned, shared, dead",
                f"{self.ownership.owned}, {self.ownership.shared}, {self.ownership.dead} of {self.dim}",
            ),
            ("rows, dead rows", f"{sum(self.counts)}, {self.dead_rows}"),
        ]
        if self.accuracy is not None:
            a = self.accuracy
            rows.append(("nearest centre, overall and balanced", f"{a.overall:.4f}, {a.balanced:.4f}"))
            rows.append(("worst class", f"{a.worst:.4f} (class {a.worst_class})"))
            rows.append(("majority and minority half", f"{a.majority:.4f}, {a.minority:.4f}"))
        if self.missing:
            shown = ", ".join(map(str, self.missing[:8])) + (", ..." if len(self.missing) > 8 else "")
            rows.append(("classes without rows", f"{len(self.missing)}: {shown}"))
        width = max(len(name) for name, _ in rows)
        return "\n".join([self.verdict(), "", *(f"{name:<{width}}  {value}" for name, value in rows)])

    def to_dict(self) -> dict[str, Any]:
        """Everything, in types that JSON knows; NaN becomes None."""
        data: dict[str, Any] = {
            "verdict": self.verdict(),
            "classes": [
                dict(zip(("name", "rows", "spread", "dimensions", "inside"), values, strict=True))
                for values in zip(
                    self.names,
                    self.counts,
                    self.spreads.tolist(),
                    self.ownership.dimensions.tolist(),
                    _plain(self.ownership.inside),
                    strict=True,
                )
            ],
            "missing": list(self.missing),
            "dim": self.dim,
            "cosines": _plain(self.cosines),
            "ownership": {
                "owners": self.ownership.owners.tolist(),
                "purity": _plain(self.ownership.purity),
                "owned": self.ownership.owned,
                "shared": self.ownership.shared,
                "dead": self.ownership.dead,
            },
            "dead_rows": self.dead_rows,
            "spread": self.spread,
        }
        for name in ("delta_of", "delta_etf", "beta_nc", "collapse_trace", "mean_cosine", "max_cosine", "norm_ratio"):
            data[name] = _plain(getattr(self, name))
        if self.accuracy is not None:
            data["accuracy"] = {**vars(self.accuracy), "by_class": list(self.accuracy.by_class)}
        return data


def geometry_of(
    statistics: ClassStatistics,
    names: tuple[int | str, ...] | None = None,
    *,
    trace: float | None = None,
    accuracy: Accuracy | None = None,
) -> Geometry:
    """Measures from the moments of classes.

    Args:
        statistics: What was seen.
        names: `[k]`, names of the classes; their numbers by default.
        trace: tr(Sigma_W Sigma_B^+), where the statistics have no scatter and it is known otherwise.
        accuracy: Of the nearest centre, if known.

    Returns:
        The geometry.

    Raises:
        ValueError: If no row was seen.
    """
    names = tuple(range(statistics.num_classes)) if names is None else names
    present = statistics.counts > 0
    if not bool(present.any()):
        raise ValueError("there are no rows to measure")
    means, counts = statistics.means[present].cpu(), statistics.counts[present].cpu()
    k = len(means)
    gram, centred = means @ means.T, means - means.mean(0)
    norms = torch.linalg.vector_norm(means, dim=1)
    cosines = gram / norms[:, None] / norms  # NaN for a class whose mean is zero
    pairs = cosines[~torch.eye(k, dtype=torch.bool)]
    pairs = pairs[~pairs.isnan()]
    if statistics.within is not None:
        trace = collapse_trace(means, statistics.within.cpu(), float(counts.sum()))
    trace = math.nan if trace is None or k < 2 else trace
    chosen = present.tolist()
    return Geometry(
        names=tuple(name for name, here in zip(names, chosen, strict=True) if here),
        missing=tuple(name for name, here in zip(names, chosen, strict=True) if not here),
        counts=tuple(int(count) for count in counts),
        dim=statistics.dim,
        gram=gram,
        cosines=cosines,
        delta_of=distance_to_gram(gram, frame_gram(k)),
        delta_etf=distance_to_gram(centred @ centred.T, etf_gram(k)) if k > 1 else math.nan,
        beta_nc=trace / k,
        collapse_trace=trace,
        mean_cosine=float(pairs.mean()) if len(pairs) else math.nan,
        max_cosine=float(pairs.max()) if len(pairs) else math.nan,
        norm_ratio=float(norms.max() / norms.min()),
        spreads=statistics.spreads[present].cpu() / counts,
        ownership=ownership(means),
        dead_rows=statistics.dead_rows,
        accuracy=accuracy,
    )


def _plain(value: Any) -> Any:
    """Lists of numbers, with None for what JSON has no number for."""
    if isinstance(value, Tensor):
        return _plain(value.tolist())
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
