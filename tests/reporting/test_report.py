"""The report as text: what it says, that it is whole, and that the same runs give the same bytes."""

import html
import io
import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

from orthoframe.errors import InputError
from orthoframe.geometry import Confusion, accuracy_of
from orthoframe.reporting import training_figure, write_report
from orthoframe.reporting._pages import markdown
from orthoframe.reporting._report import _setting
from orthoframe.runs import Ending, RunEnvironment, Signature, TestRecord, read_run
from run_folders import BAD, write_run

NAMES = ["<b>bold</b>", "$\\frac$ </script>", "x" * 120]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    few = {"counts": (20, 10, 1), "dim": 6, "epochs": 9, "every": 4}
    folders = {
        "good": write_run(root / "good", **few),
        "bad": write_run(root / "bad", **few, nonnegative=False, verdict=BAD, activation="none", seed=1),
        "names": write_run(root / "a<b>&$c$", **few, names=NAMES, extra={"<i>": [1]}),
        "ce": write_run(root / "ce", **few, loss="cross-entropy", verdict=BAD),
        "one": write_run(root / "one", **{**few, "epochs": 1}),
        "single": write_run(root / "single", **{**few, "counts": (5,), "epochs": 2}),
        "unbound": write_run(root / "unbound", counts=(3,) * 100, dim=100, epochs=2, binding="none"),
    }
    bare = shutil.copytree(folders["good"], root / "bare")
    (bare / "geometry.jsonl").write_text("")
    holes = shutil.copytree(folders["good"], root / "holes")
    text = (holes / "geometry.jsonl").read_text()
    text = re.sub(r'"(cosines|purity|by_class)": (\[+)[^,\]]+', r'"\1": \2null', text)
    (holes / "geometry.jsonl").write_text(re.sub(r'"(inside|beta_nc)": [^,}]+', r'"\1": null', text))
    return {name: read_run(folder) for name, folder in {**folders, "bare": bare, "holes": holes}.items()}


def page(*runs):
    file = io.BytesIO()
    write_report(runs, file)
    return file.getvalue().decode()


def pictures(text):
    """Each picture's element and what is drawn into it."""
    plots = re.findall(r'<script type="application/json" data-plot="([^"]+)">(.*?)</script>', text)
    assert len({name for name, _ in plots}) == len(plots)
    for name, _ in plots:
        assert text.count(f'id="{name}"') == 1
    return {name: json.loads(content) for name, content in plots}


def words(text):
    """The page without scripts and styles."""
    return re.sub(r"<(script|style)\b.*?</\1>", "", text, flags=re.DOTALL)


@pytest.mark.parametrize("name", ["good", "bad", "names", "ce", "one", "single", "unbound", "bare", "holes"])
def test_every_picture_is_one_that_plotly_knows(runs, name):
    graph = pytest.importorskip("plotly.graph_objects")
    for plot in pictures(page(runs[name])).values():
        graph.Figure(data=plot["data"], layout=plot["layout"])
    for plot in pictures(page(runs["good"], runs[name])).values():
        graph.Figure(data=plot["data"], layout=plot["layout"])


def test_a_good_run(runs):
    text = page(runs["good"])
    assert text.startswith("<!DOCTYPE html>")
    assert words(text).index("frame reached") < words(text).index("Δ<sub>GM</sub>")
    assert 'class="verdict good"' in text
    assert "Certified: with non-negative features of at least 3 dimensions" in text
    assert "<dt>batch_size</dt><dd>128</dd>" in text
    plots = pictures(text)
    assert list(plots) == [
        *("plot-loss", "plot-gap", "plot-frame", "plot-collapse"),
        *("plot-cosines", "plot-ownership", "plot-accuracy"),
    ]
    assert [trace["name"] for trace in plots["plot-loss"]["data"]] == ["loss", "floor", "all features equal"]
    steps = plots["plot-cosines"]["layout"]["sliders"][0]["steps"]
    assert [step["label"] for step in steps] == ["1", "4", "8", "9"]
    assert steps[-1]["args"][0]["z"][0] == plots["plot-cosines"]["data"][0]["z"]


def test_a_bad_run(runs):
    text = words(page(runs["bad"]))
    assert 'class="verdict bad"' in text
    assert "The head has no non-negative activation." in text
    assert "activation=&#39;relu&#39;" in text


@pytest.mark.parametrize(
    ("ending", "colour"),
    [
        (Ending.FALLING, "wait"),
        (Ending.SLOW, "wait"),
        (Ending.HARDLY_BEGUN, "wait"),
        (Ending.NOT_FINISHED, "wait"),
        (None, "bad"),
        (Ending.STALLED, "bad"),
        (Ending.ALIKE, "bad"),
        (Ending.NON_FINITE, "bad"),
    ],
)
def test_the_colour_of_an_ending(runs, ending, colour):
    verdict = replace(runs["bad"].verdict, signature=Signature.NOT_COLLAPSED, ending=ending)
    text = page(replace(runs["bad"], verdict=verdict))
    assert f'class="verdict {colour}"' in text
    assert verdict.label in text


def test_the_curves_are_the_columns(runs):
    curves = pictures(page(runs["good"]))
    for plot, column in (("loss", "loss"), ("gap", "gap"), ("frame", "delta_of"), ("collapse", "beta_nc")):
        trace = curves[f"plot-{plot}"]["data"][0]
        records = ((record.epoch, getattr(record, column)) for record in runs["good"].epochs)
        expected = {epoch: value for epoch, value in records if value}
        assert dict(zip(trace["x"], trace["y"], strict=True)) == pytest.approx(expected, rel=1e-5)


def test_a_loss_below_the_floor_is_said(runs):
    gaps = (0.5, -0.1) + (None,) * 7
    epochs = [replace(record, gap=gap) for record, gap in zip(runs["good"].epochs, gaps, strict=True)]
    run = replace(runs["good"], epochs=tuple(epochs))
    assert "At 1 epoch the loss is below the floor" in page(run)
    assert pictures(page(run))["plot-gap"]["data"][0]["y"] == [0.5]


def test_the_table_of_ownership_counts_every_live_dimension(runs):
    end = runs["good"].measurements[-1].train
    table = re.search(r'<table class="numbers" id="ownership">.*?</table>', page(runs["good"]), re.DOTALL)[0]
    rows = re.findall(r"<tr><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td></tr>", table)
    assert sorted(row[0] for row in rows) == sorted(str(entry.name) for entry in end.classes)
    dimensions = [int(row[2]) for row in rows]
    assert dimensions == sorted(dimensions)
    assert sum(dimensions) == sum(owner >= 0 for owner in end.ownership.owners)


def test_ownership_has_every_live_dimension_once(runs):
    trace = pictures(page(runs["good"]))["plot-ownership"]["data"][0]
    owners = runs["good"].measurements[-1].train.ownership.owners
    dimensions = [d for d in trace["customdata"] if d is not None]
    assert sorted(dimensions) == [d for d, owner in enumerate(owners) if owner >= 0]
    assert set(trace["y"]) == {"0", "1", "2"}
    assert [trace["y"][place] for place, d in enumerate(dimensions)] == [str(owners[d]) for d in dimensions]


def test_accuracy_begins_with_the_largest_class(tmp_path):
    run = read_run(write_run(tmp_path / "run", counts=(2, 30, 7), dim=6, epochs=1))
    picture = pictures(page(run))["plot-accuracy"]
    assert picture["layout"]["xaxis"]["categoryarray"] == ["1", "2", "0"]
    assert picture["data"][0]["x"] == ["1", "2", "0"]
    by_class = run.measurements[-1].test.by_class
    assert picture["data"][0]["y"] == pytest.approx([by_class[1], by_class[2], by_class[0]], rel=1e-5)


def test_several_runs(runs):
    text = page(runs["good"], runs["bad"], runs["ce"])
    assert "<h1>3 runs</h1>" in text
    head = re.search(r"<thead><tr>(.*?)</tr>", text, re.DOTALL).group(1)
    columns = re.findall(r"<th>(.*?)</th>", head)
    assert columns[:4] == ["run", "activation", "loss", "seed"]
    assert text.count("<tr>") == 4
    plots = pictures(text)
    assert {f"plot-cosines-{number}" for number in range(3)} < set(plots)
    assert len(plots["plot-frame"]["data"]) == 3
    assert len({trace["line"]["color"] for trace in plots["plot-frame"]["data"]}) == 3
    assert "plot-ownership" not in plots


def test_runs_of_one_name_are_told_apart(runs):
    text = page(runs["good"], runs["good"])
    assert "good (1)" in text
    assert "good (2)" in text


def test_names_are_text_and_nothing_else(runs):
    text = page(runs["names"])
    shown = words(text)
    assert "<b>" not in shown
    assert "&lt;b&gt;bold&lt;/b&gt;" in shown
    assert "<h1>a&lt;b&gt;&amp;$c$</h1>" in shown
    assert "<dt>extra</dt><dd>{&#34;&lt;i&gt;&#34;: [1]}</dd>" in shown
    # Names that end a script, if they could.
    assert text.count("</script>") == len(pictures(text)) + 2
    assert pictures(text)["plot-cosines"]["data"][0]["y"][1] == "&lt;b&gt;bold&lt;/b&gt;"


def test_worst_classes_of_a_certificate_come_first(runs):
    text = words(page(runs["unbound"]))
    assert 'class="sentence bad">Not certified' in text
    table = re.search(r'<table class="numbers">.*?</table>', text, re.DOTALL).group()
    rows = [re.findall(r"<td>([^<]*)</td>", row) for row in table.split("<tr>")]
    pieces = [int(cells[3]) for cells in rows if len(cells) == 5]
    assert len(pieces) == 12
    assert pieces == sorted(pieces, reverse=True)
    assert "88 more" in table


def test_same_runs_same_bytes_and_no_address(runs, tmp_path):
    first = page(runs["good"], runs["bad"])
    assert page(runs["good"], runs["bad"]) == first
    write_report([runs["good"], runs["bad"]], tmp_path / "report.html")
    assert (tmp_path / "report.html").read_bytes() == first.encode()
    assert not re.search(r"(src|href)=\"(?!data:)", words(first))


def test_many_epochs_are_thinned(runs):
    end = runs["good"].measurements[-1]
    run = replace(runs["good"], measurements=tuple(replace(end, epoch=epoch) for epoch in range(500)))
    steps = pictures(page(run))["plot-cosines"]["layout"]["sliders"][0]["steps"]
    assert len(steps) == 60
    assert (steps[0]["label"], steps[-1]["label"]) == ("0", "499")


def test_what_was_used_stands_beside_what_was_asked_for(runs):
    used = RunEnvironment(processes=2, device="cpu", precision="bf16-mixed", versions={"torch": "2.13.0"})
    text = words(page(replace(runs["good"], environment=used)))
    assert "<dt>precision</dt><dd>32</dd>" in text
    assert "<dt>precision</dt><dd>bf16-mixed</dd>" in text
    assert "<dt>torch version</dt><dd>2.13.0</dd>" in text


def test_there_must_be_a_run():
    with pytest.raises(InputError, match="there is no run to report"):
        write_report([], io.BytesIO())


@pytest.mark.parametrize("name", ["names", "one", "bare", "holes"])
def test_the_static_figure(runs, name):
    file = io.BytesIO()
    training_figure(runs[name]).savefig(file, format="png", dpi=50)
    assert file.getvalue().startswith(b"\x89PNG")


def with_test_images(run, labels, predicted, error=None):
    """The run with results of test images."""
    names = [entry.name for entry in run.measurements[-1].train.classes]
    test = TestRecord(
        accuracy=accuracy_of(predicted, labels, names),
        confusion=Confusion.of(predicted, labels, names),
        calibration_error=error,
        classifier="nearest centre",
    )
    return replace(run, verdict=replace(run.verdict, test=test))


def test_confusions_are_listed_and_drawn(runs):
    labels, predicted = np.array([0, 0, 0, 0, 1, 1]), np.array([1, 1, 0, 0, 1, 0])
    text = page(with_test_images(runs["names"], labels, predicted, 0.0312))
    shown = words(text)
    section = shown[shown.index('id="confusions"') :].split("</section>")[0]
    assert "3 of 6 test images were misclassified" in section
    first, second = (re.findall(r"<td>(.*?)</td>", row) for row in section.split("<tr>")[2:4])
    names = [str(entry.name) for entry in runs["names"].measurements[-1].train.classes]
    assert first == [html.escape(names[0]), html.escape(names[1]), "2", "4", "50.0 %"]
    assert second[2:] == ["1", "2", "50.0 %"]
    picture = pictures(text)["plot-confusion"]["data"][0]
    assert picture["customdata"] == [["2 of 4", "2 of 4", "0 of 4"], ["1 of 2", "1 of 2", "0 of 2"], ["0 of 0"] * 3]
    assert "nearest centre (over 2 of 3 classes)" in shown
    assert "3.1 %" in shown
    assert "Calibration error" in shown
    graph = pytest.importorskip("plotly.graph_objects")
    graph.Figure(**pictures(text)["plot-confusion"])


def test_no_confusions(runs):
    text = page(with_test_images(runs["good"], np.arange(3), np.arange(3)))
    assert "No test image was misclassified." in text
    assert "Calibration error" not in words(text)
    assert 'id="confusions"' not in page(runs["good"])  # as earlier versions wrote it


def test_confusions_of_many_classes_are_only_listed(runs):
    labels = np.arange(100).repeat(2)
    text = page(with_test_images(runs["unbound"], labels, (labels + 1) % 100))
    assert "plot-confusion" not in pictures(text)
    assert "88 more pairs of classes" in text


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("size", [32, 48], "32 x 48"),
        ("temperature", [0.1, 0.5], "0.1 to 0.5"),
        ("epochs", 3, "3"),
    ],
)
def test_settings_are_shown_as_people_write_them(name, value, shown):
    assert _setting(value, name) == shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# no heading", r"\# no heading"),
        ("1. no list", r"1\. no list"),
        ("2.5 is a number", "2.5 is a number"),
        ("a_b _c_ *d*", r"a_b \_c\_ \*d\*"),
        ("[a](b) [1, 2]", r"[a\](b) [1, 2]"),
        ("two\nlines & <i>", "two lines &amp; &lt;i>"),
    ],
)
def test_text_stays_text_in_markdown(text, expected):
    assert markdown(text, paragraph=True) == expected
