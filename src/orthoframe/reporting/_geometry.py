"""The picture of an embedding: cosines of class means, ownership of dimensions, a histogram."""

from typing import Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from orthoframe.geometry import Geometry
from orthoframe.reporting._format import plain

# More classes than these are drawn without their names; more dimensions are not drawn one by one.
_NAMED, _NUMBERED = 30, 10


class Classes(Protocol):
    """Anything that knows the names and sizes of its classes."""

    @property
    def names(self) -> tuple[int | str, ...]:
        """`[k]`, names."""

    @property
    def counts(self) -> tuple[int, ...]:
        """`[k]`, sizes."""


def geometry_figure(geometry: Geometry) -> Figure:
    """Draw a geometry: a cosine heat map, an ownership map, and the cosines of class pairs as a histogram.

    Args:
        geometry: What `measure` returned.

    Returns:
        A figure, to be saved with `figure.savefig(path)`.
    """
    figure = Figure(figsize=(13.0, 4.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=[1.15, 1.3, 1.0])
    draw_cosines(left, geometry.cosines.numpy(), geometry)
    left.set_title("Cosines of class means (rows of the class)", fontsize=9)
    _draw_ownership(middle, geometry)
    _draw_histogram(right, geometry)
    figure.suptitle(plain(geometry.verdict(), 120), fontsize=11)
    return figure


def _labels(classes: Classes) -> list[str]:
    return [f"{plain(name)} ({count:,})" for name, count in zip(classes.names, classes.counts, strict=True)]


def draw_cosines(axes: Axes, cosines: NDArray[np.float64], classes: Classes) -> None:
    """Draw a `[k, k]` matrix of cosines as a heat map, with the names and sizes of the classes."""
    image = axes.imshow(cosines, cmap="RdBu_r", vmin=-1, vmax=1)
    k = len(cosines)
    if k <= _NUMBERED:
        for row in range(k):
            for column in range(k):
                ink = "white" if abs(cosines[row, column]) > 0.6 else "black"
                text = f"{cosines[row, column]:.2f}"
                axes.text(column, row, text, ha="center", va="center", fontsize=6, color=ink)
    if k <= _NAMED:
        axes.set_yticks(range(k), _labels(classes), fontsize=7)
        axes.set_xticks(range(k), [plain(name) for name in classes.names], fontsize=7, rotation=90)
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.8)
    bar.ax.tick_params(labelsize=7)


def _draw_ownership(axes: Axes, geometry: Geometry) -> None:
    """Live dimensions in the order of their owners: the brighter, the larger the owner's part."""
    owners, purity = geometry.ownership.owners.numpy(), geometry.ownership.purity.numpy()
    live = np.flatnonzero(owners >= 0)
    order = live[np.lexsort((-purity[live], owners[live]))]
    k = len(geometry.names)
    table = np.full((k, max(1, len(order))), np.nan)
    table[owners[order], np.arange(len(order))] = purity[order]
    axes.set_facecolor("0.96")
    image = axes.imshow(
        np.ma.masked_invalid(table), cmap="magma_r", vmin=0, vmax=1, aspect="auto", interpolation="nearest"
    )
    if k <= _NAMED:
        axes.set_yticks(range(k), [plain(name) for name in geometry.names], fontsize=7)
    axes.tick_params(axis="x", labelsize=7)
    axes.set_xlabel("live dimensions, in the order of their owners", fontsize=8)
    found = geometry.ownership
    axes.set_title(
        f"Owner's part of each dimension: {found.owned} owned, {found.shared} shared, {found.dead} dead", fontsize=9
    )
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.8)
    bar.ax.tick_params(labelsize=7)


def _draw_histogram(axes: Axes, geometry: Geometry) -> None:
    k = len(geometry.names)
    pairs = geometry.cosines.numpy()[np.triu_indices(k, 1)]
    axes.hist(pairs, bins=[float(edge) for edge in np.linspace(-1, 1, 61)], color="tab:blue")
    axes.axvline(0, color="tab:green", linewidth=1, label="orthogonal frame")
    if k > 1:
        axes.axvline(-1 / (k - 1), color="tab:red", linewidth=1, linestyle="--", label="simplex ETF")
    axes.set_xlim(-1, 1)
    axes.set_xlabel("cosine of two class means", fontsize=8)
    axes.set_ylabel("pairs of classes", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=7)
    axes.set_title(f"Distance to a frame {geometry.delta_of:.3f}, beta_NC {geometry.beta_nc:.2g}", fontsize=9)
