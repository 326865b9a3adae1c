"""The geometry of an embedding: its measures, and what they say."""

import math
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from orthoframe._rows import unit_rows
from orthoframe.files import json_ready
from orthoframe.geometry._accuracy import Accuracy
from orthoframe.geometry._arrangement import (
    CLASS_COLLAPSE,
    COLLAPSE,
    Arrangement,
    coincide,
    distance_to_gram,
    etf_distance,
    frame_distance,
    is_frame,
    near_pairs,
    pair_cosines,
    smallest_cosine,
)
from orthoframe.geometry._ownership import Ownership, ownership
from orthoframe.geometry._statistics import ClassStatistics, class_distance_variance, collapse_trace
from orthoframe.options import FRAME_COSINE, FRAME_DISTANCE, FRAME_RATIO

MOST_COSINES = 200
"""The largest number of classes whose cosines `to_dict` lists: their number grows with its square."""
# Rows that every geometry has in its table.
_TABLE = (
    ("distance to orthogonal frame", "{0.delta_of:.4g}"),
    ("distance to ETF (centred)", "{0.delta_etf:.4g}"),
    ("beta_NC (trace)", "{0.beta_nc:.4g} ({0.collapse_trace:.4g})"),
    ("spread within classes", "{0.spread:.4g}"),
    ("CDNV", "{0.cdnv:.4g}"),
    ("cosine of means, mean and largest", "{0.mean_cosine:.4f}, {0.max_cosine:.4f}"),
    ("longest over shortest mean", "{0.norm_ratio:.4g}"),
    (
        "dimensions owned, shared, dead",
        "{0.ownership.owned}, {0.ownership.shared}, {0.ownership.dead} of {0.dim}",
    ),
)
_ACCURACY_TABLE = (
    ("nearest centre, overall and balanced", "{0.overall:.4f}, {0.balanced:.4f}"),
    ("worst class", "{0.worst:.4f} (class {0.worst_class})"),
    ("majority and minority half", "{0.majority:.4f}, {0.minority:.4f}"),
)


@dataclass(frozen=True)
class Geometry:
    """How the features of classes are arranged; `str()` is a short table, `to_dict()` is for JSON.

    Everything is over the classes that have rows; `missing` names the others.

    Attributes:
        names: Classes that have rows.
        missing: Classes that have none.
        counts: `[k]`, rows of each class.
        means: `[k, d]`, class means, in float64.
        delta_of: Distance of the Gram matrix to that of an orthogonal frame (Delta_GM); 0 at a frame.
        delta_etf: Distance of the Gram matrix of centred means to that of a simplex ETF; 0 at a frame too.
        beta_nc: tr(Sigma_W Sigma_B^+)/k; 0 at neural collapse. NaN if the scatter was not kept.
        collapse_trace: The same without 1/k, as in the paper's code.
        cdnv: Class-distance normalised variance: the mean over pairs of classes of (V_a + V_b)/(2 |mu_a - mu_b|^2), V
            the spreads; 0 at neural collapse.
        mean_cosine: Over pairs of classes whose means are not zero.
        max_cosine: Over the same pairs.
        norm_ratio: Longest class mean over the shortest.
        spreads: `[k]`, mean squared distance of the rows of a class to its mean.
        ownership: Which class owns each dimension.
        dead_rows: Rows that are all zero.
        accuracy: Of the nearest class mean, if the rows were seen a second time.
        nc3: Distance of the weights of a linear classifier to the centred class means, || W/|W| - M/|M| ||; None
            without a classifier.
        nc4: The fraction of rows that the classifier and the nearest class mean (by angle) put into different classes;
            None without a classifier.
    """

    names: tuple[int | str, ...]
    missing: tuple[int | str, ...]
    counts: tuple[int, ...]
    means: Tensor
    delta_of: float
    delta_etf: float
    beta_nc: float
    collapse_trace: float
    cdnv: float
    mean_cosine: float
    max_cosine: float
    norm_ratio: float
    spreads: Tensor
    ownership: Ownership
    dead_rows: int
    accuracy: Accuracy | None = None
    nc3: float | None = None
    nc4: float | None = None

    @property
    def dim(self) -> int:
        """Number of dimensions."""
        return int(self.means.shape[1])

    @cached_property
    def gram(self) -> Tensor:
        """`[k, k]`, products of class means."""
        return self.means @ self.means.T

    @cached_property
    def cosines(self) -> Tensor:
        """`[k, k]`, cosines of class means; NaN for a mean that is zero."""
        directions, inverse_norms = unit_rows(self.means)
        zero = inverse_norms == 0  # [k, 1]
        return (directions @ directions.T).masked_fill(zero | zero.T, math.nan)

    @cached_property
    def min_cosine(self) -> float:
        """The smallest cosine of two class means."""
        return smallest_cosine(self.means)

    @property
    def class_spreads(self) -> Tensor:
        """`[k]`, the fraction of the squared length of the rows of a class that is not that of its mean.

        It is 1 - |mean|^2 for unit rows. Unlike `beta_nc` it sees rows that are spread at right angles to all means.
        """
        energy = self._energy
        return self.spreads / energy.masked_fill(energy == 0, 1.0)

    @property
    def spread(self) -> float:
        """The mean of `class_spreads`."""
        return float(self.class_spreads.mean())

    @property
    def live_delta_of(self) -> float:
        """`delta_of` of the rows that are not zero, which for unit rows is that of means divided by their part.

        A row of zeros has no direction, and only shortens the mean of its class. The squared lengths of the other rows
        are 1, so that the part of a class that is not zero is the mean squared length of its rows.
        """
        energy = self._energy
        return frame_distance(self.means / energy.masked_fill(energy == 0, 1.0)[:, None])

    @property
    def _energy(self) -> Tensor:
        """`[k]`, the mean squared length of the rows of a class."""
        return self.spreads + self.means.square().sum(1)

    @property
    def orthogonal(self) -> bool:
        """Whether class means are orthogonal and equally long, see `is_frame`."""
        return is_frame(self.delta_of, self.max_cosine, self.norm_ratio, self.min_cosine)

    @property
    def collapsed(self) -> bool:
        """Whether the rows of each class coincide, up to `COLLAPSE` and `CLASS_COLLAPSE`; False if that is not known.

        Where class means coincide, `beta_nc` divides by nearly nothing, and the spread decides.
        """
        beta_nc = 0.0 if self.arrangement is Arrangement.COINCIDENT else self.beta_nc
        return max(beta_nc, self.spread) <= COLLAPSE and float(self.class_spreads.max()) <= CLASS_COLLAPSE

    @property
    def arrangement(self) -> Arrangement:
        """What class means look like."""
        if len(self.names) < 2:
            return Arrangement.ONE_CLASS
        if coincide(self.means):
            return Arrangement.COINCIDENT
        # Cosines of an ETF are -1/(k - 1): where that is nearly 0, the distances no longer tell it from a frame.
        of_etf = -1 / (len(self.names) - 1)
        nearer_etf = self.mean_cosine < of_etf / 2
        if nearer_etf and is_frame(self.delta_etf, self.max_cosine, self.norm_ratio, self.min_cosine - of_etf):
            return Arrangement.ETF
        return Arrangement.FRAME if self.orthogonal else Arrangement.NEITHER

    def distance_to(self, target: Tensor) -> float:
        """Distance of the Gram matrix of class means to any other `[k, k]`; 0 if they are proportional."""
        shape = [len(self.names)] * 2
        if list(target.shape) != shape:
            raise ValueError(f"target must have shape {shape}, not {list(target.shape)}")
        return distance_to_gram(self.gram, target.to(self.gram))

    def verdict(self) -> str:
        """What it looks like, in a sentence."""
        sentence = self.arrangement.sentence
        if self.arrangement is Arrangement.ONE_CLASS:
            return sentence + "."
        if why := self.exception():
            sentence += f" ({why})"
        if not math.isnan(self.beta_nc):
            sentence += f", and classes have {'' if self.collapsed else 'not '}collapsed"
        return sentence + "."

    def exception(self) -> str:
        """The pair or class of classes that keeps means from a frame of which the others are nearly part."""
        lengths = torch.linalg.vector_norm(self.means, dim=1)
        shortest = int(lengths.argmin())
        if lengths[shortest] == 0:
            return f"the mean of class {self.names[shortest]} is zero"
        if not self.delta_of <= FRAME_DISTANCE:
            return ""
        if self.max_cosine > FRAME_COSINE:
            a, b = (self.names[int(c)] for c in near_pairs(self.means, FRAME_COSINE)[:, 0])
            return f"the largest cosine of two is {self.max_cosine:.2f}; classes {a} and {b} are too near"
        if self.min_cosine < -FRAME_COSINE:
            return f"the smallest cosine of two is {self.min_cosine:.2f}"
        if self.norm_ratio > FRAME_RATIO:
            return f"the mean of class {self.names[shortest]} is {self.norm_ratio:.2f} times shorter than the longest"
        return ""

    def __str__(self) -> str:
        rows = [(label, text.format(self)) for label, text in _TABLE]
        rows.append(("rows, dead rows", f"{sum(self.counts)}, {self.dead_rows}"))
        if self.accuracy is not None:
            rows += [(label, text.format(self.accuracy)) for label, text in _ACCURACY_TABLE]
        if self.nc3 is not None and self.nc4 is not None:
            rows.append(("classifier: NC3, NC4", f"{self.nc3:.4g}, {self.nc4:.4g}"))
        if self.missing:
            shown = ", ".join(map(str, self.missing[:8])) + (", ..." if len(self.missing) > 8 else "")
            rows.append(("classes without rows", f"{len(self.missing)}: {shown}"))
        width = max(len(label) for label, _ in rows)
        return "\n".join([self.verdict(), "", *(f"{label:<{width}}  {value}" for label, value in rows)])

    def to_dict(self) -> dict[str, Any]:
        """Everything but the means, in types that JSON knows; NaN becomes None.

        So do the cosines of more than 200 classes.
        """
        blocks = asdict(self.ownership)
        columns = {
            "name": self.names,
            "rows": self.counts,
            "spread": self.spreads,
            "dimensions": blocks.pop("dimensions"),
            "inside": blocks.pop("inside"),
        }
        data = {
            "verdict": self.verdict(),
            "arrangement": self.arrangement.value,
            "collapsed": self.collapsed,
            "classes": [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)],
            "missing": self.missing,
            "dim": self.dim,
            "cosines": self.cosines if len(self.names) <= MOST_COSINES else None,
            "ownership": blocks,
            "dead_rows": self.dead_rows,
            "spread": self.spread,
            **{name: getattr(self, name) for name in MEASURES},
        }
        if self.accuracy is not None:
            data["accuracy"] = asdict(self.accuracy)
        if self.nc3 is not None:
            data |= {"nc3": self.nc3, "nc4": self.nc4}
        ready: dict[str, Any] = json_ready(data)
        return ready


MEASURES = tuple(field.name for field in fields(Geometry) if field.type is float)
"""The names of the measures of a `Geometry` that are single numbers and follow from the moments of its classes."""


def geometry_of(
    statistics: ClassStatistics,
    names: tuple[int | str, ...] | None = None,
    *,
    trace: float | None = None,
    accuracy: Accuracy | None = None,
) -> Geometry:
    """Measures from the moments of classes.

    Args:
        statistics: Of all rows; a ValueError if there are none.
        names: `[k]`, names of the classes; their numbers by default.
        trace: tr(Sigma_W Sigma_B^+), where the statistics have no scatter and it is known otherwise.
        accuracy: Of the nearest centre, if known.
    """
    names = tuple(range(statistics.num_classes)) if names is None else names
    present = statistics.counts > 0
    if not bool(present.any()):
        raise ValueError("there are no rows to measure")
    means, counts = statistics.means[present].cpu(), statistics.counts[present].cpu()
    k = len(means)
    means = means.masked_fill(unit_rows(means)[1] == 0, 0.0)
    norms = torch.linalg.vector_norm(means, dim=1)
    mean_cosine, max_cosine = pair_cosines(means)
    if statistics.within is not None:
        trace = collapse_trace(means, statistics.within.cpu(), float(counts.sum()))
    trace = math.nan if trace is None or k < 2 else trace
    has_rows = list(zip(names, present.tolist(), strict=True))
    spreads = statistics.spreads[present].cpu() / counts
    return Geometry(
        names=tuple(name for name, here in has_rows if here),
        missing=tuple(name for name, here in has_rows if not here),
        counts=tuple(round(count) for count in counts.tolist()),
        means=means,
        delta_of=frame_distance(means),
        delta_etf=etf_distance(means),
        beta_nc=trace / k,
        collapse_trace=trace,
        cdnv=class_distance_variance(means, spreads),
        mean_cosine=mean_cosine,
        max_cosine=max_cosine,
        norm_ratio=float(norms.max() / norms.min()),
        spreads=spreads,
        ownership=ownership(means),
        dead_rows=statistics.dead_rows,
        accuracy=accuracy,
    )
