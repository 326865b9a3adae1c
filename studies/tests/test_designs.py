"""The studies as they are designed: nothing is run but what takes seconds."""

import math
from pathlib import Path

import pytest
import torch

from orthoframe.losses import fastest_temperature
from orthoframe.training import Settings, option_names
from orthoframe_studies import (
    FIRST_SEED,
    FRESH_SEED,
    SCALES,
    STUDIES,
    CellResult,
    FreeClassifier,
    FreeFeatures,
    GradientFlow,
    PlannedTraining,
    Training,
    agrees,
    chance_of_most,
    coordinate,
    crossing,
    estimate,
    has_ended,
    key,
    read_result,
)
from orthoframe_studies._decide import counterpart
from orthoframe_studies._jobs import ELSEWHERE, FIELDS, YOUNGER, decided, training_key
from orthoframe_studies._planned_job import plan_batches
from orthoframe_studies.command import RESULTS

QUANTITIES = {
    "delta_of",
    "live_delta_of",
    "raw_delta_of",
    "delta_etf",
    "beta_nc",
    "mean_cosine",
    "max_cosine",
    "loss",
    "gap",
    "relative_gap",
    "epochs_to_of",
    "balanced_accuracy",
    "worst_accuracy",
    "majority_accuracy",
    "minority_accuracy",
    "margin",
    "minority_margin",
    "certified",
    "dead_rows",
    "merged_classes",
    "angle_bound",
    "trend",
    "gap_trend",
    "live_dimensions",
    "seconds",
    "coverage",
    "certificate_correct",
    "delta_predicted",
    "epochs_to_certify",
    "time_to_of",
}
OTHERS = {
    "excess",
    "rate",
    "rate_to_formula",
    "pair_cosine",
    "max_other_cosine",
    "as_stated",
    "converged",
    "higher_ends",
}


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize("scale", SCALES)
def test_a_place_is_a_cell(name, scale):
    """At smoke scale too, where real images are digits: pictures draw one line for each place."""
    places = [repr(sorted(cell.where.items())) for cell in STUDIES[name].cells(scale)]
    assert len(set(places)) == len(places)
    assert {place for place, _ in STUDIES[name].jobs(scale)} == set(range(len(places)))


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_can_decide_its_claims(name):
    """Every claim has cells that decide it, with several seeds, at the scales that count; every picture has cells."""
    study = STUDIES[name]
    assert study.name == name
    assert study.question.endswith("?")
    assert {*study.columns} <= QUANTITIES | OTHERS
    for scale in ("desk", "paper"):
        cells = [CellResult.of(cell.where, {}) for cell in study.grid(scale)]
        assert len({tuple(cell.where.items()) for cell in cells}) == len(cells)
        seeds = {id(cell): study.seeds(scale, where) for cell, where in zip(cells, study.grid(scale), strict=True)}
        for claim in study.claims:
            assert claim.quantity in QUANTITIES | OTHERS
            deciding = [cell for cell in cells if agrees(cell.where, claim.where)]
            if claim.versus is not None:
                deciding = [cell for cell in deciding if counterpart(cell.where, claim.versus, cells)]
            assert deciding, claim.text
            counts = [seeds[id(cell)] for cell in deciding]
            # Each cell can support it, and one alone can refute it, in spite of Holm's correction.
            enough = [sum(counts)] if claim.pooled else counts
            assert all(chance_of_most(count, count) <= 0.05 for count in enough), claim.text
            if scale == "desk":
                assert chance_of_most(min(enough), min(enough)) * len(enough) <= 0.05, claim.text
        for panel in study.panels:
            assert panel.quantity in QUANTITIES | OTHERS
            assert scale == "paper" or any(agrees(cell.where, panel.where) for cell in cells), panel.title


@pytest.mark.parametrize("scale", ["desk", "paper"])
@pytest.mark.parametrize("name", STUDIES)
def test_cells_are_called_what_they_are(name, scale):
    """Coordinates that are settings have the job's value, and no job stands under two names."""
    study = STUDIES[name]
    cells = study.grid(scale)
    jobs = [cell.make(0) for cell in cells]
    assert len({key(job) for job in jobs}) == len(jobs)
    for cell, job in zip(cells, jobs, strict=True):
        if not isinstance(job, Training):
            continue
        for name, value in decided(job.settings).asked().items():
            if name in cell.where and name != "features":  # which are of a network, or free
                assert coordinate(value) == cell.where[name], (cell.where, name)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", STUDIES)
def test_every_run_is_one_that_can_be_started(name, scale):
    jobs = STUDIES[name].jobs(scale)
    for job in jobs.values():
        if isinstance(job, Training):
            job.settings.check()
    cells = STUDIES[name].cells(scale)
    firsts = {place: min(seed for number, seed in jobs if number == place) for place in range(len(cells))}
    assert firsts == {place: cell.first_seed for place, cell in enumerate(cells)}
    assert set(firsts.values()) <= {FIRST_SEED, FRESH_SEED}
    first_seeds = STUDIES[name].jobs(scale, 1)
    assert {*map(key, first_seeds.values())} <= {*map(key, jobs.values())}  # another seed is another run
    assert len(first_seeds) == len(STUDIES[name].cells(scale))
    if scale == "paper":
        networks = [job.settings for job in jobs.values() if type(job) is Training]
        assert all(settings.encoder.model != "mlp" for settings in networks)


@pytest.mark.parametrize("name", STUDIES)
def test_stored_results_are_of_these_runs(name):
    """Their keys are those of the design: nothing that was computed is lost when the library gains a setting."""
    assert read_result(RESULTS / f"{name}.json").records.keys() == {
        key(job) for job in STUDIES[name].jobs("desk").values()
    }


def test_a_key_knows_every_setting():
    """A new one goes into YOUNGER, with the value that it had for all earlier results, or into ELSEWHERE."""
    assert {*option_names()} == {*FIELDS, *YOUNGER, *ELSEWHERE}


def test_no_later_default_changes_what_is_run():
    settings = Settings.of(recipe="plain", epochs=3)
    assert {*decided(settings).undecided()} <= {*ELSEWHERE}
    assert training_key(decided(settings)) == training_key(settings)


@pytest.mark.parametrize("name", STUDIES)
def test_costs_are_those_of_all_runs(name):
    study = STUDIES[name]
    for scale in SCALES:
        cost = estimate(study, scale, read_result(RESULTS / f"{name}.json"))
        assert cost.runs == len(study.jobs(scale))
        assert cost.unmeasured == (0 if scale == "desk" else cost.runs)
        assert (cost.minutes > 0) == (scale == "desk")


def test_the_plans_differ_in_the_certificate():
    """Both pass the paper's condition; in one nothing pushes two classes apart, and one row more does."""
    from orthoframe.batches import certify

    labels = [c for c in range(10) for _ in range(40)]
    open_, closed = (plan_batches(labels, plan) for plan in ("pair never anchored", "certified"))
    assert open_[:-1] == closed[:-1]
    assert len(open_[-1]) == len(closed[-1])
    assert len(set(open_[-1]) ^ set(closed[-1])) == 2
    assert sorted({row for batch in open_ for row in batch}) == list(range(400))
    certificate, certified = certify(labels, open_), certify(labels, closed)
    assert (certificate.holds, certificate.holds_as_stated, certificate.missing_pairs) == (False, True, ((1, 8),))
    assert (certified.holds, certified.holds_as_stated) == (True, True)


def test_a_network_on_given_batches(tmp_path):
    settings = Settings.of(recipe="plain", imbalance="none", majority=8, epochs=2, width=16, augment=False)
    final = PlannedTraining(settings, "certified").run(tmp_path, None).final
    assert (final["certified"], final["as_stated"]) == (1.0, 1.0)
    assert final["angle_bound"] > 0.1  # it has hardly begun
    assert not has_ended(final)
    assert has_ended({**final, "converged": 1.0}, "pair_cosine")  # what a job with a small bound says


def test_free_features_of_any_sign_are_below_the_floor_of_others(tmp_path):
    """Their gap is that of networks, whose floor is of features that are not negative."""
    final = FreeFeatures((6, 6, 2, 2), 8, 0, temperature=0.5, nonnegative=False).run(tmp_path, None).final
    frame = FreeFeatures((6, 6, 2, 2), 8, 0, temperature=0.5).run(tmp_path, None).final
    assert final["gap"] == pytest.approx(final["loss"] - frame["loss"], abs=1e-9)
    assert final["gap"] < -0.01


def test_only_the_contrastive_loss_has_bound_batches():
    """Bound rows would make classes that cross-entropy sees less imbalanced than R says."""
    jobs = [job for job in STUDIES["cross-entropy"].jobs("desk").values() if isinstance(job, Training)]
    runs = [decided(job.settings) for job in jobs]
    assert {(run.objective.name, run.batches.binding) for run in runs} == {
        ("supcon", "fixed"),
        ("cross-entropy", "none"),
    }


@pytest.mark.parametrize("unit", [True, False])
def test_the_optimum_of_cross_entropy(unit, tmp_path):
    """Directions are a frame; lengths differ with the sizes of classes, unless they are given."""
    final = FreeClassifier((20, 20, 2, 2), 8, 0, unit).run(tmp_path, None).final
    assert final["converged"] == 1.0
    assert final["live_delta_of"] < 0.01
    assert (final["raw_delta_of"] < 0.01) == unit


@pytest.mark.parametrize("unit", [True, False])
def test_one_row_per_class_has_the_optimum_of_all_rows(unit, tmp_path):
    """The lowest of several ends of the loss as it is defined, with a feature for every row."""
    from scipy.optimize import minimize

    counts, dim, decay = (4, 3, 1), 4, 1e-3
    labels = torch.arange(3).repeat_interleave(torch.tensor(counts))
    n = len(labels)

    def loss(x):
        flat = torch.from_numpy(x).requires_grad_()
        rows, weights = flat.view(n + 3, dim).split([n, 3])
        rows = torch.nn.functional.normalize(rows, dim=1) if unit else rows
        lengths = weights.square().sum() + (0 if unit else rows.square().sum(1).mean())
        total = torch.nn.functional.cross_entropy(rows @ weights.T, labels) + decay / 2 * lengths
        total.backward()
        return total.item(), flat.grad.numpy()

    bounds = [(0.0, None)] * (n * dim) + [(None, None)] * (3 * dim)
    starts = torch.rand(10, (n + 3) * dim, generator=torch.Generator().manual_seed(0), dtype=torch.float64).numpy()
    limits = {"maxiter": 5000, "ftol": 1e-14}
    slow = min(minimize(loss, x, jac=True, method="L-BFGS-B", bounds=bounds, options=limits).fun for x in starts)
    assert FreeClassifier(counts, dim, 0, unit).run(tmp_path, None).final["loss"] == pytest.approx(slow, rel=1e-5)


def test_cross_entropy_of_free_features_is_the_formula(tmp_path):
    """Balanced unit features, k classes: all that is left is the length of the classifier's rows."""
    from scipy.optimize import minimize_scalar

    k, decay = 4, 1e-3
    final = FreeClassifier((3,) * k, 8, 0, True, weight_decay=decay).run(tmp_path, None).final

    def loss(scale):
        """Rows of the classifier are scale times (e_c - 1/k), the shortest that tell classes of a frame apart."""
        return math.log(1 + (k - 1) * math.exp(-scale)) + decay / 2 * k * scale**2 * (1 - 1 / k)

    assert final["loss"] == pytest.approx(minimize_scalar(loss, bounds=(0, 50), method="bounded").fun, rel=1e-5)


def test_the_excess_of_features_of_any_sign(tmp_path):
    """0 at the optimum, 1 at the floor of a frame: a network that has hardly begun is far above both."""
    settings = Settings.of(
        recipe="plain",
        **{"majority": 20, "epochs": 2, "width": 16, "binding": "none", "scheme": "full", "activation": "none"},
        **{"augment": False, "clean_fraction": 0.0, "temperature": 0.5},
    )
    final = Training(settings).run(tmp_path, None).final
    assert "angle_bound" not in final
    assert final["excess"] > 1.0


def test_the_key_is_of_what_decides_the_result():
    one = Training(Settings.of(recipe="plain", seed=1))
    assert key(one) == key(Training(Settings.of(recipe="plain", seed=1, data_dir=Path("elsewhere"), devices=2)))
    assert key(one) != key(Training(Settings.of(recipe="plain", seed=2)))
    assert key(Training(Settings.of(recipe="plain", ratio=10))) == key(
        Training(Settings.of(recipe="plain", ratio=10.0))
    )
    assert key(FreeFeatures((2, 2), 4, 0)) != key(GradientFlow((2, 2), 4, 0))


def test_classes_that_no_number_of_epochs_certifies(tmp_path):
    """Single images without binding: the run has its result, without that number."""
    settings = Settings.of(
        recipe="plain", majority=20, ratio=20, binding="none", width=16, batch_size=32, epochs=1, augment=False
    )
    final = Training(settings).run(tmp_path, None).final
    assert "epochs_to_certify" not in final
    assert final["certified"] == 0.0


def test_free_features_end_where_the_certificate_says(tmp_path):
    """Bound they are at the frame; of a partition that falls apart they are not, at the floor of the loss."""
    bound = FreeFeatures((6, 6, 3), 8, 0, 0.5, epochs=1, batch_size=4, scheme="partition", binding="fixed")
    apart = FreeFeatures((6, 6, 3), 8, 0, 0.5, epochs=1, batch_size=4, scheme="partition", binding="none")
    frame, pieces = bound.run(tmp_path, None).final, apart.run(tmp_path, None).final
    assert (frame["certified"], pieces["certified"]) == (1.0, 0.0)
    assert (frame["certificate_correct"], pieces["certificate_correct"]) == (1.0, 1.0)
    assert frame["delta_of"] < 1e-6
    assert pieces["delta_of"] > 0.1
    assert pieces["gap"] == pytest.approx(0.0, abs=1e-9)


def test_the_flow_stops_near_the_frame(tmp_path):
    """Its time is that of one flow over the whole way, whose steps are others."""
    from orthoframe.geometry import measure
    from orthoframe.ufm import gradient_flow, random_rows

    flow = GradientFlow((3, 3), 4, 0, 0.5).run(tmp_path, None)
    reached = flow.final["time_to_of"]
    rows = random_rows(6, 4, True, 0)
    path = gradient_flow([0, 0, 0, 1, 1, 1], rows, [0.0, 0.9 * reached, 1.1 * reached], temperature=0.5)
    deltas = [measure(features, [0, 0, 0, 1, 1, 1]).delta_of for features in path.features]
    assert deltas[1] > 0.01 > deltas[2]


def test_crossing_between_two_measurements():
    assert crossing([1, 5], [0.05, 0.01], 0.1) == 1.0
    assert crossing([1, 5, 9], [1.0, 0.1, 0.05], 0.1) == 5.0
    assert crossing([0, 10], [1.0, 0.0], 0.1) == pytest.approx(0.0, abs=0.1)  # straight down, in the logarithm
    assert crossing([0, 10], [1.0, 0.2], 0.1) is None
    assert crossing([0, 10, 20, 30], [1.0, 0.01, 0.2, 0.05], 0.1) == pytest.approx(25.0)  # for good


def test_the_predicted_temperature_is_the_formula():
    """tau* = 1 / (1 + W(rho / e)), rho = negatives over positives."""
    from scipy.special import lambertw

    from orthoframe_studies.catalogue.temperature import _BEST

    expected = 1 / (1 + lambertw(60 / 19 / math.e).real)
    assert pytest.approx(expected, abs=1e-3) == _BEST
    assert float(fastest_temperature(19, 60)) == pytest.approx(expected, rel=1e-6)


def test_a_trained_result_has_what_the_studies_ask_for(tmp_path):
    settings = Settings.of(
        recipe="plain",
        majority=20,
        epochs=3,
        width=16,
        binding="none",
        augment=False,
        clean_fraction=0.0,
        batch_size=32,
    )
    result = Training(settings).run(tmp_path, tmp_path / "data")  # which the digits do not need
    assert set(result.final) | {"time_to_of", "coverage", "certificate_correct"} == QUANTITIES
    assert result.final["raw_delta_of"] is None
    assert result.final["angle_bound"] > 0.1
    assert set(map(len, result.curve.values())) == {len(result.curve["epoch"])}
    assert torch.tensor(result.cosines).diagonal().tolist() == pytest.approx([1.0] * 10)
    assert not (tmp_path / "run").exists()
    assert -1 <= result.final["minority_margin"] <= 1
