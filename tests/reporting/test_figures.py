"""Pictures of files: they are drawn, show the same as the page, and cut nothing off."""

import io

import numpy as np
import pytest
from matplotlib.text import Text

from orthoframe import certify, measure
from orthoframe.batches import meeting_counts
from orthoframe.reporting import certificate_figure, geometry_figure, training_figure
from orthoframe.reporting._pictures import frame_curves, loss_curves
from orthoframe.reporting._plotly import plot
from orthoframe.runs import read_run
from run_folders import write_run


@pytest.mark.parametrize("classes", [1, 2, 5, 60])
@pytest.mark.parametrize("holds", [True, False])
def test_a_certificate_is_drawn(classes, holds):
    labels = np.repeat(np.arange(classes), 4)
    whole = np.arange(len(labels))
    batches = [[*whole, *whole]] if holds else np.array_split(whole, 3 * classes)
    certificate = certify(labels, batches)
    assert certificate.holds == (holds and classes > 0)
    file = io.BytesIO()
    certificate_figure(certificate, meeting_counts(labels, batches)).savefig(file, format="png")
    assert file.getvalue().startswith(b"\x89PNG")


def test_meeting_counts_are_counted():
    random = np.random.default_rng(0)
    labels = random.integers(6, size=50)
    batches = [random.integers(50, size=5) for _ in range(40)]
    expected = np.zeros((6, 6), dtype=int)
    for batch in batches:
        for a in set(labels[batch].tolist()):
            for b in set(labels[batch].tolist()):
                expected[a, b] += 1
    assert np.array_equal(meeting_counts(labels, batches), expected)


def test_files_and_pages_show_the_same_curves(tmp_path):
    run = read_run(write_run(tmp_path / "run", counts=(8, 4, 2), dim=6, epochs=4, every=2))
    loss, geometry, cosines = training_figure(run).axes[:3]
    for axes, traces in ((loss, plot(loss_curves([run])).data), (geometry, plot(frame_curves([run])).data[:1])):
        for line, trace in zip(axes.lines, traces, strict=False):
            assert line.get_xdata().tolist() == trace["x"]
            assert line.get_ydata() == pytest.approx(trace["y"], rel=1e-5)
    assert [line.get_label() for line in loss.lines] == ["loss", "floor", "all features equal"]
    assert np.array_equal(cosines.images[0].get_array(), run.measurements[-1].train.cosines)


@pytest.mark.parametrize("name", ["{}", "a class with a long name, {}", "$\\frac$ {}"])
def test_no_name_is_cut_off(name):
    rows = np.random.default_rng(0).random((60, 40))
    figure = geometry_figure(measure(rows, [name.format(row % 6) for row in range(60)]))
    figure.draw_without_rendering()
    for axes in figure.axes:
        for tick in (*axes.get_xticklabels(), *axes.get_yticklabels()):
            box = tick.get_window_extent()
            assert min(box.x0, box.y0) > -2  # pixels: the box of a text is a little larger than its ink


NAMES = ["\u732b", "\u0441\u043e\u0431\u0430\u043a\u0430", "\u9ce5 \ud55c", "lost \U00100000", "a\x07b"]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["training", "geometry", "certificate"])
def test_names_that_the_usual_font_has_not(kind, tmp_path):
    """No warning about a glyph, and a square where no font has the letter."""
    labels = np.array(sorted(NAMES)).repeat(4)
    if kind == "training":
        folder = write_run(tmp_path / NAMES[0], counts=(4,) * 5, dim=8, epochs=2, names=sorted(NAMES))
        figure = training_figure(read_run(folder))
    elif kind == "geometry":
        figure = geometry_figure(measure(np.random.default_rng(0).random((20, 8)), labels))
    else:
        batches = [np.arange(20)]
        figure = certificate_figure(certify(labels, batches), meeting_counts(labels, batches))
    figure.savefig(io.BytesIO(), format="png")
    words = "".join(text.get_text() for text in figure.findobj(Text))
    assert NAMES[1] in words
    assert "\u25a1" in words
    assert NAMES[4] not in words
