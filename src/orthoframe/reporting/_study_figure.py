"""The picture of a study, as a paper would print it."""

import math
from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from orthoframe.reporting._study_axes import draw
from orthoframe.reporting._study_chart import chart
from orthoframe.reporting._study_legend import draw_legend, legends_below
from orthoframe.reporting._study_words import checked

# Inches of a panel by the panels in a row, so that type keeps its size when the row is as wide as a page.
_WIDTHS = {1: 6.4, 2: 4.7, 3: 3.75}
_HEIGHT = 3.3


def study_figure(study: Mapping[str, Any]) -> Figure:
    """Draw the panels of a study.

    Args:
        study: The result of a study, as its JSON has it.

    Returns:
        A figure, to be saved with `figure.savefig(path, dpi=160)`.

    Raises:
        InputError: If that is not the result of a study.
    """
    charts = [chart(study, panel) for panel in checked(study)["panels"]]
    across = 2 if len(charts) in (2, 4) else min(3, max(1, len(charts)))
    down = math.ceil(len(charts) / across)
    width = _WIDTHS[across]
    rows = [charts[row * across : (row + 1) * across] for row in range(down)]
    legends = [legends_below(row, width) for row in rows]
    heights = [height for row in legends for height in (_HEIGHT, max([0.02, *(legend.height for legend in row)]))]
    engine = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.04)
    figure = Figure(figsize=(width * across, sum(heights) + 0.1), layout=engine)
    if not charts:
        return figure
    grid = figure.add_gridspec(2 * down, across, height_ratios=heights)
    for number, (row, below) in enumerate(zip(rows, legends, strict=True)):
        for column, found in enumerate(row):
            draw(figure.add_subplot(grid[2 * number, column]), found, width)
        for legend in below:
            draw_legend(figure.add_subplot(grid[2 * number + 1, legend.first : legend.last]), legend)
    return figure
