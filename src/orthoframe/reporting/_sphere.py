"""Free features on the sphere, as an animation."""

from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from mpl_toolkits.mplot3d.axes3d import Axes3D
from numpy.typing import NDArray
from PIL import Image

from orthoframe.reporting._figures import new_figure

if TYPE_CHECKING:
    from orthoframe.ufm import Flow

_COLOURS = ("tab:blue", "tab:orange", "tab:green")


def write_sphere_gif(file: IO[bytes], flow: "Flow", classes: NDArray[np.int64]) -> None:
    """Write an animation of features in three dimensions that move on the sphere.

    Args:
        file: Where the GIF goes.
        flow: What `gradient_flow` returned, in three dimensions.
        classes: `[samples]`, 0..2.
    """
    frames = list(_frames(flow, classes))
    durations = [80] * (len(frames) - 1) + [2500]  # milliseconds; the end stays longer
    # One palette for all frames, because otherwise colours flicker.
    palette = frames[0].quantize(256)
    paletted = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    paletted[0].save(
        file, format="GIF", save_all=True, append_images=paletted[1:], duration=durations, loop=0, optimize=True
    )


def _frames(flow: "Flow", classes: NDArray[np.int64]) -> Iterator[Image.Image]:
    features = flow.features.numpy()
    figure = new_figure(4.6, 4.6)
    figure.set_dpi(90)
    axes = figure.add_subplot(projection="3d")
    assert isinstance(axes, Axes3D)
    _draw_sphere(axes, whole=bool((features < 0).any()))
    # One figure for all frames: what moves is drawn empty, and moved.
    trails, points = [], []
    for c, colour in enumerate(_COLOURS):
        trails += axes.plot([], [], [], color=colour, linewidth=1.2, alpha=0.6)
        label = f"class {c}: {np.count_nonzero(classes == c)}"
        points += axes.plot([], [], [], color=colour, label=label, linestyle="none", marker="o", markersize=4.7)
    axes.legend(loc="upper left", fontsize=8, frameon=False)
    title = axes.set_title("time", fontsize=9)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]
    figure.set_layout_engine("none")  # the layout stays, and finding it takes as long as drawing
    for number, rows in enumerate(features):
        for c in range(len(_COLOURS)):
            trail = features[: number + 1][:, classes == c].mean(1)
            trails[c].set_data_3d(*(trail / np.linalg.norm(trail, axis=1, keepdims=True)).T)
            points[c].set_data_3d(*rows[classes == c].T)
        title.set_text(f"time {float(flow.times[number]):.3g}")
        canvas.draw()  # type: ignore[no-untyped-call]
        yield Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")  # type: ignore[no-untyped-call]


def _draw_sphere(axes: Axes3D, whole: bool) -> None:
    """A grid on the sphere, or on its non-negative part, and the axes."""
    around = np.linspace(0, 2 * np.pi if whole else np.pi / 2, 37 if whole else 13)
    down = np.linspace(0, np.pi if whole else np.pi / 2, 19 if whole else 13)
    x, y = np.outer(np.cos(around), np.sin(down)), np.outer(np.sin(around), np.sin(down))
    z = np.outer(np.ones_like(around), np.cos(down))
    axes.plot_wireframe(x, y, z, color="0.8", linewidth=0.5)
    for axis in np.eye(3):
        axes.plot(*np.stack([np.zeros(3), 1.15 * axis]).T, color="0.3", linewidth=0.8)
    low = -1.0 if whole else 0.0
    for limit in (axes.set_xlim, axes.set_ylim, axes.set_zlim):
        limit(low, 1.0)
    axes.set_box_aspect((1, 1, 1), zoom=1.4 if whole else 1.1)
    axes.view_init(elev=28, azim=40)
    axes.set_axis_off()
