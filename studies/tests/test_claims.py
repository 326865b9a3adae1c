"""What runs say about a claim."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orthoframe_studies import (
    CellResult,
    Claim,
    Decision,
    JobResult,
    agrees,
    clopper_pearson,
    decide,
    has_ended,
    has_learnt,
    trend,
)
from orthoframe_studies.pages import rule_words

ENDED = {"live_delta_of": 0.5, "angle_bound": 0.05, "relative_gap": 1e-4, "trend": 0.0}
MOVING = {"live_delta_of": 0.5, "angle_bound": 0.8, "relative_gap": 0.1, "trend": 1.0}


def cell(where, values, quantity="delta_of", curve=None, seeds=None, **more):
    results = {10 + n: JobResult({**more, quantity: value}, curve or {}) for n, value in enumerate(values)}
    return CellResult.of(where, results, seeds)


SMALL = Claim("small", "us", "delta_of", {}, at_most=0.1)
MEAN = Claim("small", "us", "delta_of", {}, at_most=0.1, over="mean")


@pytest.mark.parametrize(
    ("yes", "no", "decision"),
    [
        (5, 0, "supported"),
        (4, 0, "inconclusive"),  # of four runs nothing can be said with 95 % confidence
        (9, 1, "supported"),
        (8, 2, "inconclusive"),
        (1, 9, "not supported"),
        (0, 5, "not supported"),
        (0, 0, "inconclusive"),
    ],
)
def test_runs_are_counted(yes, no, decision):
    """However far the few that miss it are off."""
    finding = decide(SMALL, [cell({}, [0.01] * yes + [1e9] * no)])
    assert finding.decision == decision
    (part,) = finding.comparisons
    assert (part.tally.yes, part.tally.no) == (yes, no)
    large = Claim("large", "us", "delta_of", {}, at_least=0.1)
    opposite = {"supported": "not supported", "not supported": "supported"}.get(decision, decision)
    assert decide(large, [cell({}, [0.01] * yes + [1e9] * no)]).decision == opposite


def test_a_refutation_stands_the_number_of_cells():
    """Five of five refute alone; with another cell beside them that could be chance, and ten of ten are not."""
    good = cell({"n": 0}, [0.01] * 5)
    five, ten = cell({"n": 1}, [0.5] * 5), cell({"n": 1}, [0.5] * 10)
    assert decide(SMALL, [five]).decision == "not supported"
    assert decide(SMALL, [good, five]).decision == "inconclusive"
    assert decide(SMALL, [good, ten]).decision == "not supported"


def test_all_cells_support():
    cells = [cell({"n": n}, [0.01] * 5) for n in range(20)]
    assert decide(SMALL, cells).decision == "supported"
    assert decide(SMALL, [*cells, cell({"n": 20}, [0.01] * 3 + [0.5] * 2)]).decision == "inconclusive"


@pytest.mark.parametrize("proof", ["unmet", "end", "goal", "learnt"])
@given(outcomes=st.lists(st.floats(0, 1), min_size=1, max_size=12), at_most=st.booleans(), mean=st.booleans())
def test_runs_that_have_not_ended_never_refute(proof, outcomes, at_most, mean):
    """Whatever they look like, and whatever the claim."""
    threshold = {"at_most": 0.1} if at_most else {"at_least": 0.1}
    over = "mean" if mean else "runs"
    claim = Claim("", "us", "value", {}, over=over, proof=proof, **threshold)
    unlearnt = {**MOVING, "relative_gap": 0.9}
    assert decide(claim, [cell({}, outcomes, "value", **unlearnt)]).decision != "not supported"
    if proof != "learnt":
        assert decide(claim, [cell({}, outcomes, "value", **MOVING)]).decision != "not supported"


def test_what_is_reached_needs_no_proof():
    reached = Claim("", "us", "value", {}, at_most=0.1, proof="unmet")
    assert decide(reached, [cell({}, [0.01] * 5, "value", **MOVING)]).decision == "supported"
    assert decide(reached, [cell({}, [0.5] * 5, "value", **MOVING)]).decision == "not converged"
    assert decide(reached, [cell({}, [0.5] * 5, "value", **ENDED)]).decision == "not supported"
    missed = Claim("", "us", "value", {}, at_least=0.1, proof="end")
    assert decide(missed, [cell({}, [0.5] * 5, "value", **MOVING)]).decision == "not converged"
    assert decide(missed, [cell({}, [0.5] * 5, "value", **ENDED)]).decision == "supported"
    mean = Claim("", "us", "value", {}, at_least=0.1, proof="end", over="mean")
    assert decide(mean, [cell({}, [0.5, 0.6], "value", **MOVING)]).decision == "not converged"


def test_few_that_have_not_ended_do_not_matter():
    """Where they cannot change the outcome."""
    claim = Claim("", "us", "live_delta_of", {}, at_most=0.1, proof="unmet")

    def runs(reached, moving):
        finals = [{**ENDED, "live_delta_of": 0.01}] * reached + [MOVING] * moving
        return CellResult.of({}, {10 + n: JobResult(final, {}) for n, final in enumerate(finals)})

    assert decide(claim, [runs(9, 1)]).decision == "supported"
    assert decide(claim, [runs(8, 2)]).decision == "not converged"


def test_runs_that_are_missing():
    """A look before the end decides only what the rest cannot change."""
    assert decide(SMALL, [cell({}, [0.01] * 9, seeds=10)]).decision == "supported"
    assert decide(SMALL, [cell({}, [0.01] * 5, seeds=10)]).decision == "not run"
    assert decide(SMALL, [cell({}, [], seeds=10)]).decision == "not run"
    assert decide(SMALL, [cell({}, [0.01] * 7 + [0.5], seeds=10)]).decision == "not run"
    # Eight of ten would not decide, whatever the two that are missing say.
    assert decide(SMALL, [cell({}, [0.01] * 4 + [0.5] * 4, seeds=10)]).decision == "inconclusive"
    reached = Claim("", "us", "value", {}, at_most=0.1, proof="unmet")
    assert decide(reached, [cell({}, [0.5] * 2, "value", seeds=6, **MOVING)]).decision == "not converged"
    assert decide(reached, [cell({}, [0.5], "value", seeds=10, **MOVING)]).decision == "not run"
    assert decide(MEAN, [cell({}, [0.01, 0.011, 0.012], seeds=4)]).decision == "not run"
    assert decide(MEAN, [cell({}, [0.01, 0.011, 0.012])]).decision == "supported"


def test_means():
    assert decide(MEAN, [cell({}, [0.2, 0.21, 0.22])]).decision == "not supported"
    assert decide(MEAN, [cell({}, [0.01, 0.5, 0.01])]).decision == "inconclusive"
    assert decide(MEAN, [cell({}, [0.01])]).decision == "inconclusive"  # one seed has no interval
    assert decide(MEAN, [cell({}, [0.1, 0.1])]).decision == "supported"  # the limit is allowed
    near = Claim("", "us", "x", {"a": 1}, versus={"a": 2}, how="difference", at_most=0.05, at_least=-0.05, over="mean")
    for shift, decision in ((0.0, "supported"), (0.5, "not supported"), (-0.5, "not supported")):
        cells = [cell({"a": 1}, [0.2 + shift, 0.21 + shift, 0.23 + shift], "x"), cell({"a": 2}, [0.2, 0.22, 0.22], "x")]
        assert decide(near, cells).decision == decision
    assert rule_words(near, str) == "x, difference to a 2, at least -0.05 and at most 0.05, on average"


def test_a_mean_is_that_of_the_runs_at_the_gate():
    """One of ten seeds may miss it, and is left out; of two nobody knows what they would have changed."""
    claim = Claim("", "us", "accuracy", {}, at_least=0.7, over="mean", proof="goal")

    def decided(reached, elsewhere):
        at, off = {"angle_bound": 0.0, "live_delta_of": 0.01}, {"angle_bound": 0.0, "live_delta_of": 0.4}
        finals = [{**at, "accuracy": 0.8 + 0.001 * n} for n in range(reached)] + [{**off, "accuracy": 0.1}] * elsewhere
        return decide(claim, [CellResult.of({}, {10 + n: JobResult(final, {}) for n, final in enumerate(finals)})])

    assert decided(10, 0).decision == "supported"
    finding = decided(9, 1)
    assert finding.decision == "supported"
    (part,) = finding.comparisons
    assert part.interval.centre == pytest.approx(0.804)
    assert part.tally.untrained == 1
    assert decided(8, 2).decision == "not converged"
    assert decided(5, 1).decision == "not converged"


def test_how_sure_counts_what_is_not_known_on_both_sides():
    """Of ten runs nine could be told: the tenth may be true or false."""
    claim = Claim("", "us", "live_delta_of", {}, at_most=0.1, proof="unmet")
    finals = [{**ENDED, "live_delta_of": 0.01}] * 9 + [MOVING]
    (part,) = decide(claim, [CellResult.of({}, {10 + n: JobResult(f, {}) for n, f in enumerate(finals)})]).comparisons
    assert part.interval.low == pytest.approx(clopper_pearson(9, 10)[0])
    assert part.interval.high == 1.0
    times = cell({"way": "a"}, [None] * 7, "epochs_to_of", {"epoch": [1, 40]})
    other = cell({"way": "b"}, [None] * 7, "epochs_to_of", {"epoch": [1, 40]})
    slower = Claim("", "us", "epochs_to_of", {"way": "a"}, versus={"way": "b"}, at_most=1.0)
    (part,) = decide(slower, [times, other]).comparisons
    assert (part.interval.low, part.interval.high) == (0.0, 1.0)


def test_several_cells_together():
    """Six cells of one run: none says anything by itself."""
    cells = [cell({"n": n}, [0.01]) for n in range(6)]
    assert decide(SMALL, cells).decision == "inconclusive"
    together = Claim("", "us", "delta_of", {}, at_most=0.1, pooled=True)
    finding = decide(together, cells)
    assert finding.decision == "supported"
    assert finding.comparisons[0].tally.yes == 6
    with pytest.raises(ValueError, match="no common mean"):
        Claim("", "us", "delta_of", {}, at_most=0.1, pooled=True, over="mean")


def test_the_worst_decides():
    refuted, untrained, missing, open_, supported = Decision
    assert Decision.of_all([supported, refuted, open_, untrained]) is refuted
    assert Decision.of_all([supported, untrained, missing]) is untrained
    assert Decision.of_all([supported, open_]) is open_
    assert Decision.of_all([supported, supported]) is supported
    assert Decision.of_all([]) is open_


def test_comparisons_are_seed_by_seed():
    """What a seed does to both falls out: these overlap, and yet each is smaller than its counterpart."""
    mine = cell({"binding": "fixed", "ratio": 1}, [1.0, 10.0, 100.0, 2.0, 3.0])
    theirs = cell({"binding": "none", "ratio": 1}, [2.0, 21.0, 199.0, 4.0, 6.0])
    other = cell({"binding": "none", "ratio": 2}, [0.0] * 5)
    claim = Claim("less", "us", "delta_of", {"binding": "fixed"}, versus={"binding": "none"}, at_most=1.0)
    finding = decide(claim, [other, theirs, mine])
    assert finding.decision == "supported"
    ratios = {10: 1 / 2, 11: 10 / 21, 12: 100 / 199, 13: 0.5, 14: 0.5}
    assert finding.comparisons[0].interval.values == pytest.approx(ratios)
    less = Claim(
        "less", "us", "delta_of", {"binding": "fixed"}, versus={"binding": "none"}, how="difference", at_most=0.0
    )
    assert decide(less, [theirs, mine]).comparisons[0].interval.values[12] == -99


def test_times_that_were_not_reached():
    """They are longer than the run, and nobody knows how much: a ratio is known from one side, or not at all."""
    curve = {"epoch": [1, 40]}
    fast = cell({"way": "a"}, [10, 11, 12, 10, 10], "epochs_to_of", curve)
    never = cell({"way": "b"}, [None] * 5, "epochs_to_of", curve)
    never_too = cell({"way": "c"}, [None] * 5, "epochs_to_of", curve)
    some = cell({"way": "d"}, [10, None, 12, 9, 9], "epochs_to_of", curve)

    def decision(way, versus, **threshold):
        claim = Claim("", "us", "epochs_to_of", {"way": way}, versus={"way": versus}, **threshold)
        return decide(claim, [fast, never, never_too, some]).decision

    assert decision("a", "b", at_most=0.5) == "supported"  # at most 12/40
    assert decision("a", "b", at_most=0.1) == "inconclusive"  # it may be less, or not
    assert decision("a", "b", at_least=0.8) == "not supported"
    assert decision("b", "a", at_least=2.0) == "supported"  # at least 40/12
    assert decision("b", "a", at_least=5.0) == "inconclusive"
    assert decision("b", "a", at_most=2.0) == "not supported"
    for threshold in ({"at_most": 1.0}, {"at_least": 1.0}):
        assert decision("c", "b", **threshold) == "inconclusive"
        assert decision("d", "a", **threshold) == "inconclusive"
    assert decide(Claim("", "us", "epochs_to_of", {"way": "b"}, at_most=5.0), [never]).decision == "not supported"
    assert decide(Claim("", "us", "epochs_to_of", {"way": "b"}, at_most=50.0), [never]).decision == "inconclusive"


def test_a_run_at_the_frame_but_for_rows_that_are_zero_was_not_slow():
    """Its time counts those rows: it may have been there at any time, and says nothing."""
    curve, claim = {"epoch": [1, 40]}, Claim("", "us", "epochs_to_of", {"n": 1}, versus={"n": 2}, at_most=1.0)
    fast = cell({"n": 1}, [10] * 5, "epochs_to_of", curve)
    for distance, yes, unknown in ((0.5, 5, 0), (0.05, 0, 5)):
        slow = cell({"n": 2}, [None] * 5, "epochs_to_of", curve, live_delta_of=distance)
        (part,) = decide(claim, [fast, slow]).comparisons
        assert (part.tally.yes, part.tally.no, part.tally.unknown) == (yes, 0, unknown)
        slower = Claim("", "us", "epochs_to_of", {"n": 2}, versus={"n": 1}, at_least=1.0)
        (part,) = decide(slower, [fast, slow]).comparisons
        assert (part.tally.yes, part.tally.no, part.tally.unknown) == (yes, 0, unknown)


def test_a_run_that_was_thrown_away_from_the_frame_was_not_slow():
    fast = cell({"n": 1}, [10] * 5, "epochs_to_of", {"epoch": [1, 20, 40], "delta_of": [1.0, 0.05, 0.01]})
    claim = Claim("", "us", "epochs_to_of", {"n": 1}, versus={"n": 2}, at_most=1.0)
    for nearest, yes, unknown in ((0.3, 5, 0), (0.05, 0, 5)):
        curve = {"epoch": [1, 20, 40], "delta_of": [1.0, nearest, 0.5]}
        thrown = cell({"n": 2}, [None] * 5, "epochs_to_of", curve, live_delta_of=0.5)
        (part,) = decide(claim, [fast, thrown]).comparisons
        assert (part.tally.yes, part.tally.no, part.tally.unknown) == (yes, 0, unknown)


def test_what_has_not_learnt_is_not_slow():
    curve = {"epoch": [1, 40]}
    fast = cell({"way": "a"}, [10] * 5, "epochs_to_of", curve, relative_gap=0.01)
    slower = Claim("", "us", "epochs_to_of", {"way": "b"}, versus={"way": "a"}, at_least=1.0, proof="learnt")
    for left, decision in ((0.3, "supported"), (0.9, "not converged")):
        slow = cell({"way": "b"}, [None] * 5, "epochs_to_of", curve, relative_gap=left)
        assert decide(slower, [fast, slow]).decision == decision


@pytest.mark.parametrize(
    ("final", "ended"),
    [
        (ENDED, True),
        ({**ENDED, "trend": 0.5}, False),  # a small gap can hide two small classes
        (MOVING, False),
        ({**MOVING, "live_delta_of": 0.05}, True),  # it is at the frame
        ({**MOVING, "trend": 0.0}, False),  # near the frame everything is slow: a stand-still proves nothing
        ({**MOVING, "trend": 0.0, "merged_classes": 2, "gap_trend": 0.01}, True),
        ({**MOVING, "trend": 0.0, "dead_rows": 5, "gap_trend": 0.01}, True),
        ({**MOVING, "trend": 0.0, "merged_classes": 2}, False),  # how the gap moves is not known
        ({**MOVING, "merged_classes": 2}, False),
        ({**MOVING, "trend": 0.0, "merged_classes": 2, "gap_trend": 1.0}, False),  # they may still come apart
        ({**ENDED, "gap_trend": 3.0}, True),  # a gap that is nearly zero falls for ever
        ({**ENDED, "relative_gap": 0.9}, False),  # it has not learnt
        ({"excess": 0.05, "relative_gap": -0.01, "trend": 0.02}, True),
        ({"excess": 0.05, "relative_gap": -0.01, "trend": 0.3}, False),  # the loss is flat there, and angles still move
        ({"excess": 0.6, "relative_gap": 0.0, "trend": 0.0}, False),
        ({"relative_gap": None, "trend": 0.02}, True),  # cross-entropy
        ({"relative_gap": None, "trend": 0.5}, False),
        ({"converged": 1.0}, True),
        ({"converged": 0.0}, False),
        ({}, False),
    ],
)
def test_whether_a_run_has_ended(final, ended):
    assert has_ended(final) is ended


def test_a_loss_at_its_optimum_has_ended_though_distances_move():
    assert has_ended({"excess": 0.05, "relative_gap": -0.01, "trend": 0.3}, "gap")


def test_at_the_frame_other_quantities_may_still_move():
    """A distance below the limit is no reason to say "no" to a claim about the loss."""
    at_frame = {**MOVING, "live_delta_of": 0.03, "angle_bound": 0.4}
    assert has_ended(at_frame)
    assert not has_ended(at_frame, "angle_bound")
    runs = CellResult.of({}, {10 + n: JobResult(at_frame, {}) for n in range(8)})
    claim = Claim("", "us", "angle_bound", {}, at_most=0.1, proof="unmet")
    assert decide(claim, [runs]).decision == "not converged"


def test_runs_without_the_quantity_are_not_missing():
    """They are there, and say nothing."""
    finals = [{"rate": 1.0}] * 7 + [{}] * 3
    runs = CellResult.of({}, {10 + n: JobResult(final, {}) for n, final in enumerate(finals)}, 10)
    finding = decide(Claim("", "us", "rate", {}, at_least=0.5), [runs])
    assert finding.decision == "inconclusive"
    assert (finding.comparisons[0].tally.yes, finding.comparisons[0].tally.unknown) == (7, 3)
    assert finding.comparisons[0].tally.missing == 0


def test_whether_a_run_has_learnt():
    assert has_learnt({"relative_gap": 0.5})
    assert has_learnt({"relative_gap": None})
    assert not has_learnt({"relative_gap": 0.51})


@given(st.floats(-2, 2), st.integers(4, 50))
def test_the_trend_is_the_exponent_of_a_power_law(exponent, points):
    done = [float(n) for n in range(1, points + 1)]
    assert trend(done, [place**exponent for place in done]) == pytest.approx(abs(exponent), abs=1e-6)


def test_trends_that_are_not_known():
    assert trend([1.0], [0.5]) is None
    assert trend([1.0, 2.0], [None, 0.5]) is None
    assert trend([1.0, 2.0], [0.0, 0.5]) is None
    assert trend([1.0, 2.0, 2.0], [0.5, math.nan, 0.25]) == pytest.approx(1.0)


def test_coordinates_agree():
    assert agrees({"a": 1, "b": 2}, {"a": 1})
    assert not agrees({"a": 1}, {"b": 2})
    assert agrees({"a": 1}, {"a": (1, 2)})
    assert not agrees({"a": 3}, {"a": (1, 2)})


def test_a_claim_has_a_threshold():
    with pytest.raises(ValueError, match="threshold"):
        Claim("", "", "delta_of", {})
    said = "loss, ratio to a 1, at most 2, in most runs"
    assert rule_words(Claim("", "", "loss", {}, versus={"a": 1}, at_most=2.0)) == said


def test_of_cells_with_as_many_runs_for_a_claim_the_one_with_more_against_it_is_told():
    cells = [cell({"against": n}, [0.5] * n, seeds=10, **ENDED) for n in (2, 3, 1)]
    assert [part.where["against"] for part in decide(SMALL, cells).worst_first] == [3, 2, 1]


def test_of_equal_counts_the_cell_that_is_nearest_to_the_limit_is_told():
    cells = [cell({"way": way}, [value] * 10, **ENDED) for way, value in (("a", 0.001), ("b", 0.09), ("c", 0.02))]
    assert decide(Claim("", "us", "delta_of", {}, at_most=0.1), cells).deciding.where == {"way": "b"}
    assert decide(Claim("", "us", "delta_of", {}, at_least=0.0), cells).deciding.where == {"way": "a"}
