"""Pictures and pages of studies: what they show, that odd results do not break them, and that bytes stay the same."""

import base64
import io
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import study_results as made
from scipy.stats import beta
from tests.browser import needs_browser, start

from orthoframe.errors import InputError
from orthoframe.reporting import study_figure, write_claims_page, write_decisions_page, write_study, write_study_page
from orthoframe.reporting._format import NOTHING, ticks_around
from orthoframe.reporting._pages import markdown
from orthoframe_studies import STUDIES as CATALOGUE
from orthoframe_studies import CellResult, Comparison, Decision, Interval, Tally, read_result
from orthoframe_studies.pages._figure import claim_figure, cosines_figure
from orthoframe_studies.pages._layout import lay_out, legends_below, styles
from orthoframe_studies.pages._pages import study_text
from orthoframe_studies.pages._words import interval_words, quantity_words, sure_words, where_words

STUDIES = {name: getattr(made, name)() for name in ("imbalance", "batching", "accuracies", "extreme", "odd")}
EMPTY = made.study("empty", [], [made.panel("delta_of", "ratio")])


def page(*studies):
    file = io.BytesIO()
    write_study_page(studies, file)
    return file.getvalue().decode()


def test_the_report_says_what_of_stands_for_where_it_is_used():
    said = replace(EMPTY, remark="Far from the OF.")
    assert "OF is an orthogonal frame" in page(said)
    assert "OF is" not in page(EMPTY)


def claims_page(*studies, summary=""):
    file = io.BytesIO()
    write_claims_page(studies, file, summary)
    return file.getvalue().decode()


def pictures(text):
    """The pictures of a page, as bytes."""
    return [base64.b64decode(data) for data in re.findall(r'src="data:image/png;base64,([^"]+)"', text)]


def first_chart(study, **more):
    return lay_out(study, replace(study.panels[0], **more))


@pytest.mark.parametrize("name", STUDIES)
def test_every_kind_of_panel_is_drawn(name):
    file = io.BytesIO()
    study_figure(STUDIES[name]).savefig(file, format="png", dpi=50)
    assert file.getvalue().startswith(b"\x89PNG")


@pytest.mark.parametrize("study", [EMPTY, made.study("none", [], [])], ids=["no cells", "no panels"])
def test_nothing_to_draw_is_no_error(study):
    study_figure(study).savefig(io.BytesIO(), format="png", dpi=50)
    assert "## How it was made" in study_text(study)
    page(study)


def test_any_number_of_seeds():
    assert "- seeds: 10 to 12\n" in study_text(EMPTY)
    assert "- seeds: 10\n" in study_text(replace(EMPTY, seeds=1))
    assert "10 to 1000000000009" in page(replace(EMPTY, seeds=10**12))


def test_points_have_the_numbers_of_the_cells():
    found = first_chart(STUDIES["imbalance"])
    assert [line.style.label for line in found.lines] == ["relu", "none"]
    assert [text for _, text in found.ticks] == ["1", "3", "10", "30", "100"]
    cell = next(c for c in STUDIES["imbalance"].cells if c.where["ratio"] == 10)
    values = [result.final["delta_of"] for result in cell.results.values()]
    point = found.lines[0].points[2].found
    assert point.known == values
    assert point.kind == "median"
    assert (point.centre, point.low, point.high) == (sorted(values)[1], min(values), max(values))


def test_curves_have_the_median_and_a_band():
    line = first_chart(STUDIES["batching"]).lines[0]
    curves = [result.curve for result in STUDIES["batching"].cells[0].results.values()]
    ((places, median),) = line.paths
    assert places == tuple(curves[0]["epoch"])
    last = [curve["delta_of"][-1] for curve in curves]
    assert median[-1] == sorted(last)[1]
    assert (line.band[1][-1], line.band[2][-1]) == (min(last), max(last))


def test_curves_of_different_places_are_drawn_apart():
    flows = lay_out(STUDIES["extreme"], STUDIES["extreme"].panels[1])
    assert any(len(line.paths) == 3 and line.band is None for line in flows.lines)


def test_cells_never_fall_on_one_another():
    # Nothing says that the imbalances are told apart, and their means may not be mixed.
    found = first_chart(STUDIES["accuracies"], where={}, lines=["loss"])
    assert [line.style.label for line in found.lines] == [
        *("supcon, R 10", "supcon, R 100", "cross-entropy, R 10", "cross-entropy, R 100")
    ]
    places = [point.x for line in found.lines for point in line.points]
    assert len(set(places)) == len(places) == 16


def test_a_value_has_one_colour_in_all_panels():
    curves, _, points = (lay_out(STUDIES["batching"], panel) for panel in STUDIES["batching"].panels)
    assert points.legend == ""
    assert [line.style.colour for line in curves.lines] == [line.style.colour for line in points.lines]
    assert len({line.style.colour for line in curves.lines}) == 5


def test_neighbours_share_a_legend_that_tells_the_lines_of_both():
    study = STUDIES["batching"]
    curves, _, points = (lay_out(study, panel) for panel in study.panels)
    few = first_chart(study, where={"binding": ["none", "two examples"]})
    others = first_chart(STUDIES["accuracies"])

    def shared(*row):
        return [(found.first, found.last, len(found.entries)) for found in legends_below(row, 3.75)]

    assert len(few.lines) == 2
    assert shared(few, curves, points) == [(0, 3, 6)]  # five lines, and the mark of what was not reached
    assert shared(few, others, curves) == [(0, 1, 2), (1, 2, len(others.lines)), (2, 3, 5)]
    assert shared(points, others) == [(0, 2, len(others.lines) + 1)]


@pytest.mark.parametrize("values", [[f"way {number}" for number in range(20)], list(range(1, 15))])
def test_more_values_than_colours_look_different(values):
    cells = made.cells({"way": values}, lambda where, draw, seed: made.result({"delta_of": 0.5}))
    _, looks = styles(cells, [(value,) for value in values], ["way"])
    assert len({(look.colour, look.mark, look.dash) for look in looks.values()}) == len(values)


def test_times_that_were_not_reached_stand_at_the_top():
    found = first_chart(STUDIES["extreme"])
    missing = [point for line in found.lines for point in line.points if point.found.missing]
    assert [(point.found.missing, point.found.centre) for point in missing] == [(3, None)]
    assert missing[0].x == pytest.approx(10_000, rel=0.1)  # beside the points of other lines
    reached = [value for line in found.lines for point in line.points for value in point.found.known]
    assert max(reached) < found.top < found.y_limits[1]


def test_some_seeds_that_did_not_reach():
    cells = made.cells({"n": [1, 2]}, lambda where, draw, seed: made.result({"epochs_to_of": [5.0, None, 7.0][seed]}))
    study = made.study("some", cells, [made.panel("epochs_to_of", "n", log="y")], columns=["epochs_to_of"])
    point = first_chart(study).lines[0].points[0].found
    assert (point.centre, point.known, point.missing) == (7.0, [5.0, 7.0], 1)
    assert "| 1 | 3 | 7, not reached by 1 of 3 |" in study_text(study)
    study_figure(study).savefig(io.BytesIO(), format="png", dpi=50)


def test_a_cell_whose_seeds_begin_later_says_so():
    fresh = {20 + n: made.result({"delta_of": 0.01}) for n in range(2)}
    study = made.study("fresh", [CellResult.of({"ratio": 10}, fresh, 3)], [])
    text = study_text(study)
    assert "| 10 | 2 of 3, from 20 on |" in text
    assert "- seeds: 10 to 12, unless a cell has its own" in text


def test_a_log_axis_shows_only_what_it_can():
    assert first_chart(STUDIES["odd"], log="xy").lines == ()
    assert len(first_chart(STUDIES["odd"], log="").lines[0].points) == 2


def test_the_worst_comparison_decides():
    first, second = STUDIES["imbalance"].findings
    assert first.deciding.where["ratio"] == 10
    assert second.deciding.where["ratio"] == 100
    assert STUDIES["extreme"].findings[0].deciding.interval.centre is None
    parts = [made.comparison({"n": n}, n, n - 1, n + 1) for n in (5, 3, 4)]
    assert made.finding("", parts, at_most=None, at_least=0).deciding.where == {"n": 3}
    assert made.finding("", parts, at_most=20, at_least=0).deciding.where == {"n": 3}  # nearer to the lower limit
    assert made.finding("", parts, at_most=7, at_least=0).deciding.where == {"n": 5}  # nearer to the upper one
    assert made.finding("", []).deciding is None


def test_the_page_in_markdown():
    text = study_text(STUDIES["imbalance"])
    assert text.startswith("# Imbalance\n\nDoes it reach the frame?\n\n## Verdicts\n")
    rule, found = (
        "distance to the frame, Δ_GM at most 0.1, on average",
        "0.25 [0.2, 0.3] (the worst of 3 cells; 2 of them yes: R 100)",
    )
    assert f"| paper | {rule} | {found} | [**not supported**](decisions.md#verdicts) |" in text
    assert "![Does it reach the frame?](imbalance.png)" in text
    assert "| data | imbalance R | activation | seeds | distance to the frame, Δ_GM | collapse, β_NC |" in text
    assert re.search(r"\| digits \| 10 \| relu \| 3 \| 0\.\d+ \[0\.\d+, 0\.\d+\] \|", text)
    assert "Small networks." in text
    assert text.endswith(
        "- scale: desk\n- seeds: 10 to 12\n- runs: 3\n"
        f"- version: 0.3.0\n- commit: abc123\n- commits of the runs: {NOTHING}\n"
        "- time of all runs, one after the other: 9 min\n"
    )
    assert "```sh\northoframe study imbalance --scale desk\n```" in text
    assert "Runs that failed" not in text


def test_odd_results_in_markdown():
    text = study_text(STUDIES["odd"])
    assert "not known (n 1)" in text
    assert "no cell decides it" in text
    assert "0.5 (n 1, text a)" in text
    assert "| new quantity | epochs to Δ_GM ≤ 0.1 |" in text
    assert "- commit: \u2013" in text
    assert "- n 3, seed 0: " in text
    assert "What to know" not in text
    assert "<b>" not in text
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in tables} == {6, 8}


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
def test_text_stays_text(text, expected):
    assert markdown(text, paragraph=True) == expected


def test_numbers_and_places_in_words():
    assert interval_words(Interval(0.02, 0.01, 0.03, {})) == "0.02 [0.01, 0.03]"
    assert interval_words(Interval(None, 40.0, None, {})) == "more than 40"
    assert interval_words(Interval(None, 0.0, 0.4, {})) == "less than 0.4"
    where = {"data": "digits", "ratio": 10, "batch_size": 64, "activation": "none"}
    assert where_words(where) == "digits, R 10, batch size 64, activation none"
    assert (quantity_words("beta_nc"), quantity_words("not_known_here")) == ("collapse, β_NC", "not known here")


def test_files_are_whole_and_the_same(tmp_path):
    for folder in ("a", "b"):
        write_study(STUDIES["imbalance"], tmp_path / folder / "deep")
    names = sorted(path.name for path in (tmp_path / "a" / "deep").iterdir())
    assert names == ["imbalance.md", "imbalance.png"]
    for name in names:
        assert (tmp_path / "a" / "deep" / name).read_bytes() == (tmp_path / "b" / "deep" / name).read_bytes()
    assert page(*STUDIES.values()) == page(*STUDIES.values())


RESULTS = Path(__file__).parents[2] / "docs" / "results" / "studies"


def test_a_study_that_has_not_been_run():
    """It says so, and has neither figure nor table."""
    cells = [CellResult.of({"n": n}, {}, 3) for n in (1, 2)]
    waiting = made.study("waiting", cells, [made.panel("delta_of", "n")], missing=3)
    text = study_text(waiting)
    assert "It has not been run yet." in text
    assert "waiting.png" not in text
    assert "All cells" not in text
    some = replace(waiting, missing=1)
    assert "It is not complete: 1 of 3 runs are missing." in study_text(some)
    assert "| 1 | 0 of 3 |" in study_text(some)
    assert "Of 6 runs 4 have not been run yet;" in claims_page(waiting, some)
    page(waiting, some)


def test_the_page_of_decisions():
    file = io.BytesIO()
    write_decisions_page(file)
    text = file.getvalue().decode()
    for decision in Decision:
        assert f"| {decision} |" in text
    assert (RESULTS / "decisions.md").read_text() == text


def test_the_pages_of_the_documentation_are_those_of_its_results():
    results = [read_result(RESULTS / f"{name}.json") for name in CATALOGUE]
    for result in results:
        notes = RESULTS / "notes" / f"{result.study}.md"
        text = study_text(result, notes.read_text() if notes.exists() else "")
        assert (RESULTS / f"{result.study}.md").read_text() == text
    summary = (RESULTS / "notes" / "claims.md").read_text()
    assert (RESULTS / "claims.md").read_text() == claims_page(*results, summary=summary)


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden"])
def test_a_name_must_be_one_of_a_file(tmp_path, name):
    with pytest.raises(InputError, match="name"):
        write_study(replace(EMPTY, study=name), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_page_of_claims(tmp_path):
    """Those of the paper first, each with what was found, a verdict that leads to the rules, and its study."""
    text = claims_page(*STUDIES.values(), EMPTY)
    assert "8 claims: 2 yes, 4 undecided, 2 no." in text
    no, yes = (f"{NOTHING} | [{word}](decisions.md#verdicts)" for word in ("**no**", "yes"))
    last = "[imbalance](imbalance.md) |"
    found = "0.25 [0.2, 0.3] (the worst of 3 cells; 2 of them yes: R 100)"
    assert f"| The same without a bound on R. | {found} | {no} | {last}" in text
    assert f"| Binding reaches the frame. | 0.02 [0.01, 0.03] (binding whole batch) | {yes} | [batching]" in text
    assert "| [undecided](decisions.md#verdicts) |" in text
    assert "It has no claims." in text
    assert "## What the paper claims" in text
    assert "our theory" not in text
    finding = replace(
        STUDIES["imbalance"].findings[0], claim=replace(STUDIES["imbalance"].findings[0].claim, source="ours")
    )
    both = claims_page(replace(STUDIES["imbalance"], findings=(finding, STUDIES["imbalance"].findings[1])))
    first, second = both.index("The same without a bound"), both.index("at every imbalance.")
    assert first < both.index("## What follows from our theory") < second
    write_claims_page([EMPTY], tmp_path / "claims.md")
    assert (tmp_path / "claims.md").read_text() == claims_page(EMPTY)
    write_claims_page([EMPTY], tmp_path / "claims.md", "## In short\n\nIt *holds*.\n")
    told = (tmp_path / "claims.md").read_text()
    assert told.index("# Claims") < told.index("It *holds*.") < told.index("## How to read") < told.index("claims:")


@pytest.mark.parametrize(("low", "high"), [(12.0, 40.0), (12.0, 70.0), (0.3, 2.4), (1.0, 9.0), (3.0, 200.0)])
def test_an_axis_of_few_decades_has_several_ticks(low, high):
    shown = [tick for tick in ticks_around(low, high) if low <= tick <= high]
    assert 3 <= len(shown) <= 8
    assert shown == sorted(set(shown))


def test_how_sure_a_claim_about_runs_is():
    """Nine of ten runs: Clopper and Pearson's interval; nothing where runs are missing or say nothing."""
    finding, low = STUDIES["imbalance"].findings[0], beta(9, 2).ppf(0.05)
    share = Interval(0.9, low, beta(10, 1).ppf(0.95), dict.fromkeys(range(10), 0.01), "share")
    part = Comparison({}, Decision.SUPPORTED, share, Tally(yes=9, no=1))
    assert sure_words(replace(finding, comparisons=(part,))) == "61 to 99 % of runs"
    for decision in (Decision.NOT_RUN, Decision.NOT_TRAINED):
        assert sure_words(replace(finding, comparisons=(replace(part, decision=decision),))) == NOTHING


def test_headings_are_words():
    assert study_text(replace(EMPTY, study="without-relu")).startswith("# Without ReLU\n")


def test_no_study_to_report():
    with pytest.raises(InputError, match="there is no study to report"):
        page()


def test_notes_become_a_part_of_the_page(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "imbalance.md").write_text("At 0.5 it is *slow*.\n")
    write_study(STUDIES["imbalance"], tmp_path)
    text = (tmp_path / "imbalance.md").read_text()
    assert "## Notes on these results\n\nAt 0.5 it is *slow*.\n\n## All cells" in text
    assert "Notes" not in study_text(STUDIES["imbalance"])


def test_the_page_in_html():
    text = page(STUDIES["imbalance"], STUDIES["extreme"])
    # The claims with comparisons, the panels and, if there are any, the cosines.
    assert len(pictures(text)) == (2 + 1 + 1) + (1 + 1)
    assert all(picture.startswith(b"\x89PNG") for picture in pictures(text))
    assert text.count('class="mark bad"') == 2 * 2 + 2  # two claims, twice each, and both studies
    assert "Rule: distance to the frame, Δ<sub>GM</sub> at most 0.1, on average." in text
    assert "the loss is not finite" in text
    assert "<script" not in text


def test_the_picture_of_a_claim():
    """Each comparison has its mean, its interval and its place; what is not known is said in words."""
    (axes,) = claim_figure(STUDIES["imbalance"].findings[1]).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["R 100", "R 1", "R 10"]
    marks = [line.get_xdata()[0] for line in axes.lines if line.get_marker() != "None"]
    assert marks == [0.25, 0.008, 0.02]
    assert [0.2, 0.3] in [list(line.get_xdata()) for line in axes.lines]
    assert [0.1, 0.1] in [list(line.get_xdata()) for line in axes.lines]  # the threshold
    (axes,) = claim_figure(STUDIES["extreme"].findings[0]).axes
    assert "not known" in [text.get_text() for text in axes.texts]


def test_very_many_comparisons_are_thinned():
    parts = [made.comparison({"n": n}, n, n - 1, n + 1) for n in range(100)]
    (axes,) = claim_figure(made.finding("many", parts, at_most=1000)).axes
    rows = [label.get_text() for label in axes.get_yticklabels()]
    assert len(rows) == 40
    assert rows[0] == "n 99"


def test_cosines_of_some_cells():
    assert cosines_figure(STUDIES["batching"].cells) is None
    *maps, _ = cosines_figure(STUDIES["imbalance"].cells).axes
    assert len(maps) == 8  # of ten cells
    assert maps[0].get_title() == "R 1, activation relu"
    assert maps[0].images[0].get_array()[0].tolist() == [1.0, *[0.02] * 9]


def test_names_are_text_and_nothing_else():
    text = page(STUDIES["odd"])
    bare = re.sub(r"<style\b.*?</style>", "", text, flags=re.DOTALL)
    assert "<b>" not in bare
    assert "&lt;b&gt;x&lt;/b&gt;" in bare
    seen = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: seen.append(tag)
    parser.feed(bare)
    assert set(seen).isdisjoint({"b", "script", "iframe"})
    assert seen.count("img") == len(pictures(text))


@needs_browser
def test_the_page_in_a_browser(tmp_path):
    write_study_page(list(STUDIES.values()), tmp_path / "studies.html")
    browser = start(tmp_path / "profile")
    try:
        browser.get((tmp_path / "studies.html").as_uri())
        assert browser.get_log("browser") == []
        assert browser.find_element("id", "verdicts").is_displayed()
        words = [mark.text for mark in browser.find_elements("css selector", "#verdicts .mark")]
        assert [word.split(" ", 1)[1] for word in words] == [
            finding.decision for study in STUDIES.values() for finding in study.findings
        ]
        drawn = "return [...document.querySelectorAll('img.figure')].filter(image => image.naturalWidth > 0).length"
        assert browser.execute_script(drawn) == len(pictures((tmp_path / "studies.html").read_text()))
        assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    finally:
        browser.quit()
