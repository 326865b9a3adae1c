"""Pictures and pages of studies: what they show, that odd results do not break them, and that bytes stay the same."""

import base64
import io
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from scipy.stats import beta
from studies.tests import study_results as made
from tests.browser import needs_browser, start

from orthoframe.errors import InputError
from orthoframe_studies import STUDIES as CATALOGUE
from orthoframe_studies import CellResult, Claim, Comparison, Decision, Finding, Interval, Tally, read_result
from orthoframe_studies.pages import (
    study_figure,
    write_claims_page,
    write_decisions_page,
    write_study,
    write_study_page,
)
from orthoframe_studies.pages._figure import claim_figure, cosines_figure
from orthoframe_studies.pages._layout import lines_of, looks_of
from orthoframe_studies.pages._pages import study_text
from orthoframe_studies.pages._words import NOTHING, finding_words, sure_words

STUDIES = {name: getattr(made, name)() for name in ("imbalance", "batching", "accuracies", "extreme", "odd")}
EMPTY = made.study("empty", [], [made.panel("delta_of", "ratio")])
RESULTS = Path(__file__).parents[1] / "results"


def page(*studies):
    file = io.BytesIO()
    write_study_page(studies, file)
    return file.getvalue().decode()


def claims_page(*studies, summary=""):
    file = io.BytesIO()
    write_claims_page(studies, file, summary)
    return file.getvalue().decode()


def pictures(text):
    """The pictures of a page, as bytes."""
    return [base64.b64decode(data) for data in re.findall(r'src="data:image/png;base64,([^"]+)"', text)]


def panel_axes(study, number=0):
    """The axes of a panel; each is followed by those of its legend."""
    return study_figure(study).axes[2 * number]


def curves(axes):
    """What is drawn, by its place in the legend."""
    return {line.get_label(): line for line in axes.lines if not line.get_label().startswith("_")}


@pytest.mark.parametrize("study", [*STUDIES.values(), EMPTY, made.study("none", [], [])], ids=lambda study: study.study)
def test_every_study_has_pictures_and_pages(study):
    file = io.BytesIO()
    study_figure(study).savefig(file, format="png", dpi=50)
    assert file.getvalue().startswith(b"\x89PNG")
    assert "## How it was made" in study_text(study)
    assert study.study in page(study)


def test_points_have_the_medians_of_the_cells():
    axes = panel_axes(STUDIES["imbalance"])
    assert list(curves(axes)) == ["relu", "none"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "3", "10", "30", "100"]
    cell = next(c for c in STUDIES["imbalance"].cells if c.where["ratio"] == 10)
    values = [result.final["delta_of"] for result in cell.results.values()]
    assert curves(axes)["relu"].get_ydata()[2] == sorted(values)[1]
    bars = [list(line.get_ydata()) for line in axes.lines if list(line.get_xdata()) == [10, 10]]
    assert [min(values), max(values)] in bars


def test_curves_have_the_median_and_a_band():
    axes = panel_axes(STUDIES["batching"])
    seeds = [result.curve["delta_of"] for result in STUDIES["batching"].cells[0].results.values()]
    median = curves(axes)["none"]
    assert median.get_ydata()[-1] == sorted(seed[-1] for seed in seeds)[1]
    band = axes.collections[0].get_paths()[0].vertices
    assert {min(seed[0] for seed in seeds), max(seed[0] for seed in seeds)} <= set(band[:, 1])


def test_curves_of_different_places_are_drawn_apart():
    seeds = [line for line in panel_axes(STUDIES["extreme"], 1).lines if line.get_linewidth() < 1]
    assert len(seeds) >= 3


def test_cells_never_fall_on_one_another():
    """Nothing says that the imbalances are told apart, and their means may not be mixed."""
    study = STUDIES["accuracies"]
    lines, legend = lines_of(study, replace(study.panels[0], where={}, lines=("loss",)))
    assert [line.label for line in lines] == [
        *("supcon, R 10", "supcon, R 100", "cross-entropy, R 10", "cross-entropy, R 100")
    ]
    assert legend == "loss, imbalance R"


def test_a_value_has_one_colour_in_all_panels():
    study = STUDIES["batching"]
    (along, _), _, (points, legend) = (lines_of(study, panel) for panel in study.panels)
    assert [line.look[0] for line in along] == [line.look[0] for line in points]
    assert legend == ""  # the axis names them


@pytest.mark.parametrize("values", [[f"way {number}" for number in range(20)], list(range(1, 15))])
def test_more_values_than_colours_look_different(values):
    cells = made.cells({"way": values}, lambda where, draw, seed: made.result({"delta_of": 0.5}))
    assert len(set(looks_of(cells, [(value,) for value in values], ["way"]).values())) == len(values)


def test_times_that_were_not_reached_stand_above_the_others():
    cells = made.cells({"n": [1, 2]}, lambda where, draw, seed: made.result({"epochs_to_of": [5.0, None, 7.0][seed]}))
    study = made.study("some", cells, [made.panel("epochs_to_of", "n", log="y")], columns=["epochs_to_of"])
    axes = panel_axes(study)
    assert list(curves(axes)) == ["not reached"]
    assert [text.get_text() for text in axes.texts] == ["1/3", "1/3"]
    highest = axes.transAxes.inverted().transform(axes.transData.transform((1, 7.0)))[1]
    assert highest < axes.texts[0].get_position()[1] - 0.05
    assert "| 1 | 3 | 7, not reached by 1 of 3 |" in study_text(study)


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
    rule, numbers = (
        "distance to the frame, Δ_GM at most 0.1, on average",
        "0.25 [0.2, 0.3] (the worst of 3 cells; 2 of them support it: R 100)",
    )
    assert f"| paper | {rule} | {numbers} | [**not supported**](decisions.md#verdicts) |" in text
    assert "![Does it reach the frame?](imbalance.png)" in text
    assert "| data | imbalance R | activation | seeds | distance to the frame, Δ_GM | collapse, β_NC |" in text
    assert re.search(r"\| digits \| 10 \| relu \| 3 \| 0\.\d+ \[0\.\d+, 0\.\d+\] \|", text)
    assert "Small networks." in text
    assert text.endswith(
        "- scale: desk\n- seeds: 10 to 12\n- runs: 3\n- time of all runs, one after the other: 9 min\n"
    )
    assert "```sh\northoframe study imbalance --scale desk\n```" in text
    assert "Runs that failed" not in text
    assert study_text(replace(EMPTY, study="without-relu")).startswith("# Without ReLU\n")


def test_odd_results_in_markdown():
    text = study_text(STUDIES["odd"])
    assert "not known (n 1)" in text
    assert "no cell decides it" in text
    assert "0.5 (n 1, text a)" in text
    assert "| new quantity | epochs to Δ_GM ≤ 0.05 |" in text
    assert "- n 3, seed 0: " in text
    assert "What to know" not in text
    assert "<b>" not in text
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in tables} == {6, 8}


def test_seeds_and_pages_of_results_only():
    """A cell whose seeds begin later says so; the commit that decided is no part of the page."""
    fresh = {20 + n: made.result({"delta_of": 0.01}) for n in range(2)}
    study = made.study("fresh", [CellResult.of({"ratio": 10}, fresh, 3)], [])
    text = study_text(study)
    assert "| 10 | 2 of 3, from 20 on |" in text
    assert "- seeds: 10 to 12, unless the table says otherwise" in text
    assert study_text(replace(study, commit="f00", version="0.9")) == text
    assert "- seeds: 10\n" in study_text(replace(EMPTY, seeds=1))


def test_the_report_says_what_of_stands_for_where_it_is_used():
    assert "OF is an orthogonal frame" in page(replace(EMPTY, remark="Far from the OF."))
    assert "OF is" not in page(EMPTY)


def test_files_are_whole_and_the_same(tmp_path):
    for folder in ("a", "b"):
        write_study(STUDIES["imbalance"], tmp_path / folder / "deep")
    names = sorted(path.name for path in (tmp_path / "a" / "deep").iterdir())
    assert names == ["imbalance.md", "imbalance.png"]
    for name in names:
        assert (tmp_path / "a" / "deep" / name).read_bytes() == (tmp_path / "b" / "deep" / name).read_bytes()


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


def test_the_pages_of_the_documentation_are_those_of_its_results():
    results = [read_result(RESULTS / f"{name}.json") for name in CATALOGUE]
    for result in results:
        notes = RESULTS / "notes" / f"{result.study}.md"
        text = study_text(result, notes.read_text() if notes.exists() else "")
        assert (RESULTS / f"{result.study}.md").read_text() == text
    summary = (RESULTS / "notes" / "claims.md").read_text()
    assert (RESULTS / "claims.md").read_text() == claims_page(*results, summary=summary)
    file = io.BytesIO()
    write_decisions_page(file)
    decisions = file.getvalue().decode()
    assert (RESULTS / "decisions.md").read_text() == decisions
    assert all(f"| {decision} |" in decisions for decision in Decision)


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden"])
def test_a_name_must_be_one_of_a_file(tmp_path, name):
    with pytest.raises(InputError, match="name"):
        write_study(replace(EMPTY, study=name), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_page_of_claims():
    """Those of the paper first, each with its numbers, a verdict that leads to the rules, and its study."""
    text = claims_page(*STUDIES.values(), EMPTY, summary="## In short\n\nIt *holds*.\n")
    assert text.index("# Claims") < text.index("It *holds*.") < text.index("## How to read") < text.index("8 claims:")
    assert "8 claims: 2 yes, 4 undecided, 2 no." in text
    no, yes = (f"{NOTHING} | [{word}](decisions.md#verdicts)" for word in ("**no**", "yes"))
    numbers = "0.25 [0.2, 0.3] (the worst of 3 cells; 2 of them support it: R 100)"
    assert f"| The same without a bound on R. | {numbers} | {no} | [imbalance](imbalance.md) |" in text
    assert f"| Binding reaches the frame. | 0.02 [0.01, 0.03] (binding whole batch) | {yes} | [batching]" in text
    assert "It has no claims." in text
    first, second = STUDIES["imbalance"].findings
    ours = replace(first, claim=replace(first.claim, source="ours"))
    both = claims_page(replace(STUDIES["imbalance"], findings=(ours, second)))
    assert both.index(second.claim.text) < both.index("## What follows from our theory") < both.index(ours.claim.text)


def test_how_sure_a_claim_about_runs_is():
    """Nine of ten runs: Clopper and Pearson's interval; nothing where runs are missing or have not converged."""
    finding, low = STUDIES["imbalance"].findings[0], beta(9, 2).ppf(0.05)
    share = Interval(
        centre=0.9, low=low, high=beta(10, 1).ppf(0.95), values=dict.fromkeys(range(10), 0.01), kind="share"
    )
    part = Comparison({}, Decision.SUPPORTED, share, Tally(yes=9, no=1))
    assert sure_words(replace(finding, comparisons=(part,))) == "61 to 99 % of runs"
    for decision in (Decision.NOT_RUN, Decision.NOT_CONVERGED):
        assert sure_words(replace(finding, comparisons=(replace(part, decision=decision),))) == NOTHING


@pytest.mark.parametrize(
    ("limit", "distances", "words"),
    [
        (0.05, [0.02, 0.07, 0.2], "1 of 3 runs, 2 not converged; median 0.07; at 0.1: 2 of 3 (n 1)"),
        (0.05, [0.02, 0.2, 0.2], "1 of 3 runs, 2 not converged; median 0.2 (n 1)"),  # the limits agree
        (0.5, [0.02, 0.07, 0.2], "1 of 3 runs, 2 not converged; median 0.07 (n 1)"),  # not about the frame
    ],
)
def test_runs_between_the_limits_of_the_frame_are_told(limit, distances, words):
    share = Interval(centre=1 / 3, low=0.0, high=1.0, values=dict(enumerate(distances)), kind="share")
    part = Comparison({"n": 1}, Decision.NOT_CONVERGED, share, Tally(yes=1, untrained=2))
    claim = Claim("It ends there.", "paper", "live_delta_of", {}, at_most=limit, proof="unmet")
    assert finding_words(Finding(claim, Decision.NOT_CONVERGED, (part,))) == words


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
    """Each comparison has its mean, its interval and its place; a mean that is not known is said in words."""
    (axes,) = claim_figure(STUDIES["imbalance"].findings[1]).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["R 100", "R 1", "R 10"]
    marks = [line.get_xdata()[0] for line in axes.lines if line.get_marker() != "None"]
    assert marks == [0.25, 0.008, 0.02]
    assert [0.2, 0.3] in [list(line.get_xdata()) for line in axes.lines]
    assert [0.1, 0.1] in [list(line.get_xdata()) for line in axes.lines]  # the threshold
    (axes,) = claim_figure(STUDIES["extreme"].findings[0]).axes
    assert "not known" in [text.get_text() for text in axes.texts]


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
    tags = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: tags.append(tag)
    parser.feed(bare)
    assert set(tags).isdisjoint({"b", "script", "iframe"})
    assert tags.count("img") == len(pictures(text))


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
