"""The studies as they are designed: nothing is run but what takes seconds."""

import math
from dataclasses import fields
from pathlib import Path

import pytest
import torch

from orthoframe.losses import fastest_temperature
from orthoframe.studies import STUDIES, CellResult, FreeFeatures, GradientFlow, Training, agrees, crossing, key
from orthoframe.studies._results import counterpart
from orthoframe.studies._study import coordinate
from orthoframe.training import Settings

SCALES = ("smoke", "desk", "paper")
QUANTITIES = {
    "delta_of",
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
    "live_dimensions",
    "seconds",
    "coverage",
    "certificate_correct",
    "delta_predicted",
    "epochs_to_certify",
    "time_to_of",
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
    assert {*study.columns} <= QUANTITIES
    for scale in ("desk", "paper"):
        cells = [CellResult.of(cell.where, {}) for cell in study.grid(scale)]
        assert len({tuple(cell.where.items()) for cell in cells}) == len(cells)
        seeds = {id(cell): given.seeds for cell, given in zip(cells, study.grid(scale), strict=True)}
        for claim in study.claims:
            assert claim.quantity in QUANTITIES
            deciding = [cell for cell in cells if agrees(cell.where, claim.where)]
            if claim.versus is not None:
                deciding = [cell for cell in deciding if counterpart(cell.where, claim.versus, cells)]
            assert deciding, claim.text
            assert all(seeds[id(cell)] is None for cell in deciding), claim.text
        for panel in study.panels:
            assert panel.quantity in QUANTITIES
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
        for field in fields(Settings):
            if field.name in cell.where and field.name != "features":  # which are of a network, or free
                given, told = getattr(job.settings, field.name), cell.where[field.name]
                given = coordinate(given) if field.name == "temperature" else given
                assert given == told, (cell.where, field.name)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", STUDIES)
def test_every_run_is_one_that_can_be_started(name, scale):
    jobs = STUDIES[name].jobs(scale)
    for job in jobs.values():
        if isinstance(job, Training):
            job.settings.check()
    small = STUDIES[name].jobs(scale, 1)
    assert {key(job) for job in small.values()} < {key(job) for job in jobs.values()}  # another seed is another run
    if scale == "paper":
        networks = [job.settings for job in jobs.values() if isinstance(job, Training)]
        assert all(settings.model != "mlp" for settings in networks)


def test_the_key_is_of_what_decides_the_result():
    one = Training(Settings(seed=1))
    assert key(one) == key(Training(Settings(seed=1, data_dir=Path("elsewhere"), devices=2)))
    assert key(one) != key(Training(Settings(seed=2)))
    assert key(Training(Settings(ratio=10))) == key(Training(Settings(ratio=10.0)))
    assert key(FreeFeatures((2, 2), 4, 0)) != key(GradientFlow((2, 2), 4, 0))


def test_classes_that_no_number_of_epochs_certifies(tmp_path):
    """Single images without binding: the run has its result, without that number."""
    settings = Settings(majority=20, ratio=20, binding="none", width=16, batch_size=32, epochs=1, augment=False)
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

    found = GradientFlow((3, 3), 4, 0, 0.5).run(tmp_path, None)
    reached = found.final["time_to_of"]
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

    from orthoframe.studies.temperature import _BEST

    expected = 1 / (1 + lambertw(60 / 19 / math.e).real)
    assert pytest.approx(expected, abs=1e-3) == _BEST
    assert float(fastest_temperature(19, 60)) == pytest.approx(expected, rel=1e-6)


def test_a_trained_result_has_what_the_studies_ask_for(tmp_path):
    settings = Settings(
        majority=20, epochs=3, width=16, binding="none", augment=False, clean_fraction=0.0, batch_size=32
    )
    result = Training(settings).run(tmp_path, tmp_path / "data")  # which the digits do not need
    assert set(result.final) | {"time_to_of", "coverage", "certificate_correct"} == QUANTITIES
    assert set(map(len, result.curve.values())) == {len(result.curve["epoch"])}
    assert torch.tensor(result.cosines).diagonal().tolist() == pytest.approx([1.0] * 10)
    assert not (tmp_path / "run").exists()
    assert -1 <= result.final["minority_margin"] <= 1
