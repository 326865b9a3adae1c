"""Pictures of files: figures of matplotlib, to be saved with `figure.savefig(path)`."""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font
from matplotlib.image import AxesImage
from matplotlib.text import Text
from matplotlib.ticker import LogLocator, MaxNLocator
from numpy.typing import NDArray

from orthoframe.geometry import MOST_COSINES
from orthoframe.reporting import _pictures as pictures
from orthoframe.reporting.style import ACCENT, GOOD, plain

if TYPE_CHECKING:
    from torch import Tensor

    from orthoframe.batches import Certificate
    from orthoframe.geometry import Geometry
    from orthoframe.runs import Run
    from orthoframe.ufm import Solution

_DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
_FONT = "DejaVu Sans"  # comes with matplotlib
_UNKNOWN = "\u25a1"  # a square, for a letter that no font has
# Of a certificate: classes with names, with counts in the cells, with bars; and components in a bar.
_MEETING_NAMES, _MEETING_COUNTS, _BARS, _COMPONENTS = 40, 12, 30, 12


def training_figure(run: "Run") -> Figure:
    """Draw a run: loss with its floor, distance to a frame with beta_NC, and the cosines at the end.

    Args:
        run: What `read_run` returned.
    """
    figure = Figure(figsize=(14.0, 4.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=[1.1, 1.1, 1.15])
    _draw_curves(left, pictures.loss_curves([run]), "Loss")
    _draw_curves(middle, pictures.geometry_curves(run), "Geometry of the class means")
    if run.measurements and run.measurements[-1].train.cosines is not None:
        end = run.measurements[-1:]
        draw_cosines(right, pictures.cosine_slider(end), f"Cosines of class means, epoch {end[0].epoch}")
    else:
        right.set_axis_off()
    figure.suptitle(_name(f"{run.name}: {run.verdict.label}", 120), fontsize=11)
    return fit_fonts(figure)


def geometry_figure(geometry: "Geometry") -> Figure:
    """Draw a geometry: a heat map of cosines, an ownership map, and a histogram of the cosines of class pairs.

    More than 200 classes have the ownership map alone.

    Args:
        geometry: What `measure` returned.
    """
    figure = Figure(figsize=(13.0, 4.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=[1.15, 1.3, 1.0])
    ownership = geometry.ownership
    owners = pictures.ownership_map(geometry.names, ownership.owners.tolist(), ownership.purity.tolist())
    counts = f"{ownership.owned} owned, {ownership.shared} shared, {ownership.dead} dead"
    _draw_ownership(middle, owners, f"Purity of the dimensions: {counts}")
    if len(geometry.names) <= MOST_COSINES:
        draw_cosines(left, _cosine_map(geometry, geometry.cosines), "Cosines of class means (rows of the class)")
        _draw_histogram(right, geometry)
    else:
        right.set_axis_off()
        left.set_axis_off()
        _label(left, f"Cosines are drawn for up to {MOST_COSINES} classes")
    figure.suptitle(_name(geometry.verdict(), 120), fontsize=11)
    return fit_fonts(figure)


def ufm_figure(solution: "Solution", predicted: "Tensor | None" = None) -> Figure:
    """Draw the cosines at the optimum, the predicted ones if there are any, and the loss on the way.

    Args:
        solution: What `solve_ufm` returned.
        predicted: `[k, k]`, what `predict_gram` returned.
    """
    panels = 2 if predicted is None else 3
    figure = Figure(figsize=(5.0 * panels, 4.6), layout="constrained")
    axes = figure.subplots(1, panels)
    title = f"Cosines of class means; distance to a frame {solution.geometry.delta_of:.2g}"
    draw_cosines(axes[0], _cosine_map(solution.geometry, solution.geometry.cosines), title)
    if predicted is not None:
        draw_cosines(axes[1], _cosine_map(solution.geometry, predicted), "Predicted without ReLU")
    lowest = min(solution.losses) if solution.floor is None else solution.floor
    above = "the lowest loss" if solution.floor is None else "the floor"
    # A gap that rounding hides is drawn at the smallest one that float64 can tell.
    gaps = tuple(max(loss - lowest, 1e-16) for loss in solution.losses)
    line = pictures.Curve(name="gap", x=tuple(range(len(gaps))), y=gaps, colour=ACCENT, marked=True)
    title = f"loss above {above}, mean over anchors"
    curves = pictures.Curves(name="gap", label="", lines=(line,), y_title=title, x_title="steps", logarithmic=True)
    _draw_curves(axes[-1], curves)
    figure.suptitle(_name(solution.sentence(), 140), fontsize=11)
    return fit_fonts(figure)


def certificate_figure(certificate: "Certificate", meetings: NDArray[Any]) -> Figure:
    """Draw how often classes meet, and the components of each class.

    Args:
        certificate: What `certify` returned.
        meetings: `[k, k]`, what `meeting_counts` returned.
    """
    k = len(certificate.classes)
    worst = sorted(range(k), key=lambda c: -certificate.classes[c].components)[:_BARS]
    height = min(7.0, max(4.0, 1.2 + 0.2 * k))
    figure = Figure(figsize=(2.0 * height + 1.4, height), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.1, 1.0])
    _draw_meetings(left, certificate, meetings)
    _draw_components(right, certificate, sorted(worst))
    verdict = "Certified" if certificate.holds else "Not certified"
    figure.suptitle(f"{verdict}: {certificate.num_batches} batches, {certificate.memberships} rows", fontsize=11)
    return fit_fonts(figure)


def _label(axes: Axes, title: str, x: str = "", y: str = "") -> None:
    axes.set_title(title, fontsize=9)
    axes.set_xlabel(x, fontsize=8)
    axes.set_ylabel(y, fontsize=8)
    axes.tick_params(labelsize=7, which="both")


def _draw_curves(axes: Axes, picture: pictures.Curves, title: str = "") -> None:
    for line in picture.lines:
        marker = "." if line.marked or len(line.x) == 1 else ""
        style: dict[str, Any] = {"color": line.colour, "linestyle": _DASHES[line.dash], "linewidth": 0.7 * line.width}
        axes.plot(line.x, line.y, label=_name(line.name, 40), marker=marker, markersize=4, **style)
    if picture.logarithmic and picture.lines:
        axes.set_yscale("log")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))  # there is no half epoch
    _label(axes, title, picture.x_title, picture.y_title)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if picture.legend:
        axes.legend(frameon=False, fontsize=8)


def draw_cosines(axes: Axes, picture: pictures.CosineMap, title: str = "") -> AxesImage:
    """Draw the last frame of a heat map of cosines; a small one has neither names nor numbers nor a colour bar."""
    cosines, k = picture.frames[-1].values, len(picture.classes)
    image = axes.imshow(cosines, cmap=_colour_map(pictures.DIVERGING), vmin=-1, vmax=1)
    _label(axes, title)
    if picture.small:
        axes.set(xticks=[], yticks=[])
        return image
    if k <= pictures.NUMBERED:
        _number_cells(axes, cosines, ".2f", 6, np.abs(cosines) > 0.6)
    if k <= pictures.NAMED:
        shown = {name: _name(name) for name in picture.classes}
        axes.set_yticks(range(k), picture.labels(shown.__getitem__))
        axes.set_xticks(range(k), list(map(shown.__getitem__, picture.classes)), rotation=90)
    # An inset of the map, because a colour bar that the layout places moves the map, whose names are then cut off.
    axes.figure.colorbar(image, cax=axes.inset_axes((1.04, 0.1, 0.05, 0.8))).ax.tick_params(labelsize=7)
    axes.set_anchor("W")
    return image


def _number_cells(axes: Axes, values: NDArray[Any], digits: str, size: int, dark: NDArray[np.bool_]) -> None:
    """Write the numbers of a `[k, k]` heat map into its cells, in white where they are dark."""
    for (row, column), value in np.ndenumerate(values):
        style: dict[str, Any] = {"fontsize": size, "color": "white" if dark[row, column] else "black"}
        axes.text(column, row, f"{value:{digits}}", ha="center", va="center", in_layout=False, **style)


def _draw_ownership(axes: Axes, picture: pictures.OwnershipMap, title: str) -> None:
    """Live dimensions in the order of their owners: the darker, the purer."""
    k, d = len(picture.classes), len(picture.owners)
    table = np.full((k, max(1, d)), np.nan)
    table[list(picture.owners), np.arange(d)] = np.array(picture.purity, float)
    axes.set_facecolor("0.98")
    colours = _colour_map(pictures.SEQUENTIAL)
    image = axes.imshow(table, cmap=colours, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    if k <= pictures.NAMED:
        axes.set_yticks(range(k), [_name(name) for name in picture.classes])
    _label(axes, title, "live dimensions, in the order of their owners")
    axes.figure.colorbar(image, ax=axes, shrink=0.8).ax.tick_params(labelsize=7)


def _cosine_map(geometry: "Geometry", cosines: "Tensor") -> pictures.CosineMap:
    names = pictures.class_names(geometry.names)
    frames = (pictures.Cosines(cosines.numpy()),)
    return pictures.CosineMap(name="cosines", classes=names, frames=frames, counts=geometry.counts)


def _draw_histogram(axes: Axes, geometry: "Geometry") -> None:
    k = len(geometry.names)
    pairs = geometry.cosines.numpy()[np.triu_indices(k, 1)]
    axes.hist(pairs, bins=60, range=(-1, 1), color=ACCENT)
    axes.axvline(0, color=GOOD, linewidth=1, label="orthogonal frame")
    if k > 1:
        axes.axvline(-1 / (k - 1), color="tab:red", linewidth=1, linestyle="--", label="simplex ETF")
    axes.set_xlim(-1, 1)
    axes.margins(y=0.25)  # room for the legend
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=7)
    title = f"Distance to a frame {geometry.delta_of:.3f}, beta_NC {geometry.beta_nc:.2g}"
    _label(axes, title, "cosine of two class means", "pairs of classes")


def _draw_meetings(axes: Axes, certificate: "Certificate", meetings: NDArray[Any]) -> None:
    names, most = [report.name for report in certificate.classes], max(2, int(meetings.max(initial=0)))
    k = len(names)
    counts = np.ma.masked_less(meetings.astype(float), 1)
    image = axes.imshow(counts, cmap="viridis", norm=LogNorm(vmin=1, vmax=most))
    axes.set_facecolor("0.9")
    position = {name: c for c, name in enumerate(names)}
    missing = [(position[a], position[b]) for a, b in certificate.missing_pairs]
    if missing:
        rows, columns = np.array(missing).T
        aside = 0.3 if k <= _MEETING_COUNTS else 0.0  # beside the count
        marks = {"marker": "x", "s": max(3.0, 600.0 / k**1.5), "color": "tab:red", "linewidths": 1.2}
        axes.scatter(np.array([*columns, *rows]) + aside, np.array([*rows, *columns]) + aside, **marks)
    if k <= _MEETING_NAMES:
        axes.set_xticks(range(k), [_name(name) for name in names], rotation=90)
        axes.set_yticks(range(k), [_name(name) for name in names])
    if k <= _MEETING_COUNTS:
        _number_cells(axes, meetings, "d", 7, (meetings > 0) & (np.log1p(meetings) <= 0.7 * np.log1p(most)))
    part = "" if len(missing) == certificate.num_missing_pairs else f", the first {len(missing):,} of them"
    crosses = f", red: not pushed apart{part}" if missing else ""
    _label(axes, f"Batches that two classes share (grey: none{crosses})")
    ticks = LogLocator(subs=(1, 2, 5) if most >= 10 else range(1, 10))
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.85, ticks=ticks, format="{x:,.0f}")
    bar.ax.tick_params(labelsize=7)
    bar.minorticks_off()


def _draw_components(axes: Axes, certificate: "Certificate", shown: Sequence[int]) -> None:
    sizes, hatched = certificate.piece_sizes(), False
    for row, c in enumerate(shown):
        report = certificate.classes[c]
        components = sizes[report.name]
        shares = np.array(components[:_COMPONENTS]) / report.samples
        starts = np.cumsum(shares) - shares
        colours = ["tab:blue"] if len(components) == 1 else ["tab:orange", "navajowhite"] * len(shares)
        axes.barh([row] * len(shares), shares, left=starts, color=colours, edgecolor="white", linewidth=0.5)
        if len(components) > _COMPONENTS:
            hatched, rest = True, 1 - shares.sum()
            axes.barh(row, rest, left=1 - rest, color="0.85", hatch="///", edgecolor="white", linewidth=0.0)
        word = "component" if len(components) == 1 else "components"
        axes.text(1.02, row, f"{len(components)} {word}, {report.samples} samples", va="center", fontsize=7)
    labels = [_name(report.name) for report in certificate.classes]
    axes.set_yticks(range(len(shown)), [labels[c] for c in shown])
    axes.set_xticks([0, 0.5, 1], ["0", "half", "all"])
    axes.set_xlim(0, 1.45)
    axes.spines["bottom"].set_bounds(0, 1)
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    more = len(certificate.classes) - len(shown)
    title = "Components of each class" + (f" (the worst; {more} more)" if more else "")
    _label(axes, title + (" (hatched: smaller ones)" if hatched else ""))


def _colour_map(colours: Sequence[str]) -> Colormap:
    return LinearSegmentedColormap.from_list("orthoframe", list(colours))


def _name(text: int | str, longest: int = 18) -> str:
    """A name without signs of mathematics, and with a square for each letter that no font has."""
    return "".join(letter if _font_with(letter) else _UNKNOWN for letter in plain(text, longest))


def fit_fonts(figure: Figure) -> Figure:
    """Give all words of a figure the fonts that have their letters; matplotlib tries them letter by letter."""
    texts = [text for text in figure.findobj(Text) if isinstance(text, Text)]
    letters = set("".join(text.get_text() for text in texts)) - {"\n"}
    families = {_FONT, *filter(None, map(_font_with, letters))}
    for text in texts:
        text.set_fontfamily([_FONT, *sorted(families - {_FONT})])
    return figure


@cache
def _font_with(letter: str) -> str | None:
    """The family of a font that has this letter; None if there is none."""
    if letter in _letters_of(findfont(FontProperties(family=_FONT))):
        return _FONT
    fonts = [entry for entry in fontManager.ttflist if "lastresort" not in entry.name.replace(" ", "").lower()]
    ordered = sorted(fonts, key=lambda entry: (entry.style != "normal", entry.fname))
    return next((entry.name for entry in ordered if letter in _letters_of(entry.fname)), None)


@cache
def _letters_of(file: str) -> frozenset[str]:
    """The printable letters of a font; none if it cannot be read, such as a font of colour pictures."""
    try:
        return frozenset(filter(str.isprintable, map(chr, get_font(file).get_charmap())))
    except (OSError, RuntimeError, ValueError):
        return frozenset()
