"""The picture of a certificate: which classes meet, and the pieces that classes are in."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from numpy.typing import NDArray

from orthoframe.batches import Certificate
from orthoframe.reporting._format import plain

# More classes than these are drawn without their names, and only the worst of them with their pieces.
_NAMED, _COUNTED, _LISTED, _PIECES = 40, 12, 30, 12


def certificate_figure(certificate: Certificate, meetings: NDArray[Any]) -> Figure:
    """Draw class-by-class meeting counts, and for each class the share of its pieces.

    Args:
        certificate: What `certify` returned.
        meetings: `[k, k]`, what `meeting_counts` returned.

    Returns:
        A figure, to be saved with `figure.savefig(path)`.
    """
    names = [report.name for report in certificate.classes]
    shown = sorted(range(len(names)), key=lambda c: -certificate.classes[c].components)[:_LISTED]
    shown = sorted(shown)
    height = min(7.0, max(4.0, 1.2 + 0.2 * max(len(shown), len(names))))
    figure = Figure(figsize=(2.0 * height + 1.4, height), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.1, 1.0])
    _draw_meetings(left, certificate, meetings, names)
    _draw_pieces(right, certificate, shown)
    verdict = "Certified" if certificate.holds else "Not certified"
    figure.suptitle(f"{verdict}: {certificate.num_batches} batches, {certificate.memberships} rows", fontsize=11)
    return figure


def _draw_meetings(axes: Axes, certificate: Certificate, meetings: NDArray[Any], names: list[int | str]) -> None:
    counts = np.ma.masked_less(meetings.astype(float), 1)
    image = axes.imshow(counts, cmap="viridis", norm=LogNorm(vmin=1, vmax=max(2, int(meetings.max(initial=0)))))
    axes.set_facecolor("0.9")
    position = {name: c for c, name in enumerate(names)}
    missing = [(position[a], position[b]) for a, b in certificate.missing_pairs]
    if missing:
        rows, columns = np.array(missing).T
        size, aside = max(3.0, 600.0 / len(names) ** 1.5), 0.3 if len(names) <= _COUNTED else 0.0
        marks = {"marker": "x", "s": size, "color": "tab:red", "linewidths": 1.2}
        axes.scatter(np.array([*columns, *rows]) + aside, np.array([*rows, *columns]) + aside, **marks)
    if len(names) <= _NAMED:
        axes.set_xticks(range(len(names)), [plain(name) for name in names], fontsize=7, rotation=90)
        axes.set_yticks(range(len(names)), [plain(name) for name in names], fontsize=7)
    if len(names) <= _COUNTED:
        for row in range(len(names)):
            for column in range(len(names)):
                share = np.log1p(meetings[row, column]) / np.log1p(max(2, meetings.max()))
                ink = "black" if share > 0.7 or not meetings[row, column] else "white"
                text = f"{meetings[row, column]}"
                axes.text(column, row, text, ha="center", va="center", fontsize=7, color=ink)
    crosses = ", red: not pushed apart" if missing else ""
    axes.set_title(f"Batches that two classes share (grey: none{crosses})", fontsize=9)
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.85)
    bar.ax.tick_params(labelsize=7)


def _draw_pieces(axes: Axes, certificate: Certificate, shown: list[int]) -> None:
    sizes = certificate.piece_sizes()
    for row, c in enumerate(shown):
        report = certificate.classes[c]
        pieces = sizes[report.name]
        start = 0.0
        for number, size in enumerate(pieces[:_PIECES]):
            share = size / report.samples
            colour = "tab:blue" if len(pieces) == 1 else ("tab:orange", "navajowhite")[number % 2]
            axes.barh(row, share, left=start, color=colour, edgecolor="white", linewidth=0.5)
            start += share
        if start < 1 - 1e-9:
            axes.barh(row, 1 - start, left=start, color="0.85", hatch="///", edgecolor="white", linewidth=0.0)
        word = "piece" if len(pieces) == 1 else "pieces"
        axes.text(1.02, row, f"{len(pieces)} {word}, {report.samples} samples", va="center", fontsize=7)
    axes.set_yticks(range(len(shown)), [plain(certificate.classes[c].name) for c in shown], fontsize=7)
    axes.set_xticks([0, 0.5, 1], ["0", "half", "all"], fontsize=7)
    axes.set_xlim(0, 1.45)
    axes.spines["bottom"].set_bounds(0, 1)
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    more = len(certificate.classes) - len(shown)
    axes.set_title("Pieces of each class" + (f" (the worst; {more} more)" if more else "") + _hint(sizes), fontsize=9)


def _hint(sizes: dict[int | str, list[int]]) -> str:
    return " (hatched: smaller ones)" if any(len(pieces) > _PIECES for pieces in sizes.values()) else ""
