"""Free features: at the floor, at a frame, and honest where they are not."""

import json
import warnings

import numpy as np
import pytest
import torch
from tests.ufm.cases import DENOMINATORS, OTHER_LOSSES, STEP

from orthoframe import loss_floor, make_frame, predict_gram, solve_ufm
from orthoframe.ufm import Reason


@pytest.mark.parametrize("temperature", [1.0, 0.1])
@pytest.mark.parametrize("seed", range(4))
def test_imbalanced_classes_reach_the_floor_and_the_frame(temperature, seed):
    solution = solve_ufm(STEP, 32, temperature=temperature, seed=seed)
    assert solution.converged
    assert solution.reason == "floor"
    assert solution.steps <= 100
    assert solution.gap < 1e-12
    assert solution.geometry.delta_of < 1e-9
    assert solution.floor == pytest.approx(float(loss_floor(STEP, temperature=temperature)), rel=1e-14)
    assert solution.bound < 1e-10
    features = solution.features
    assert features.dtype == torch.float64
    assert bool((features >= 0).all())
    torch.testing.assert_close(features.norm(dim=1), torch.ones(275, dtype=torch.float64))
    # In a frame of the orthant each dimension belongs to one class; all other entries are exactly zero.
    owners = torch.stack([(features[torch.tensor(STEP) == c] > 0).any(0) for c in range(10)])
    assert int(owners.sum(0).max()) == 1


@pytest.mark.parametrize("denominator", DENOMINATORS)
@pytest.mark.parametrize("temperature", [1.0, 0.2])
def test_every_denominator_ends_at_the_frame(denominator, temperature):
    solution = solve_ufm(STEP, 25, temperature=temperature, denominator=denominator)
    assert solution.converged
    assert solution.geometry.delta_of < 1e-9
    assert solution.floor == pytest.approx(
        float(loss_floor(STEP, temperature=temperature, denominator=denominator)), abs=1e-13
    )


@pytest.mark.parametrize("options", OTHER_LOSSES.values(), ids=OTHER_LOSSES)
@pytest.mark.parametrize("temperature", [1.0, 0.1])
def test_other_paths_end_at_the_frame(options, temperature):
    solution = solve_ufm(STEP, 32, temperature=temperature, **options)
    assert solution.converged
    assert solution.reason == "floor"
    assert solution.geometry.delta_of < 1e-7
    assert solution.bound < 1e-7
    if options.get("frame"):
        frame = make_frame(10, 32, dtype=torch.float64)
        torch.testing.assert_close(solution.features, frame[STEP], atol=1e-4, rtol=0)  # squares are what the loss sees


def test_a_frame_term_goes_to_prototypes_if_there_are_any():
    prototypes = torch.eye(5, dtype=torch.float64)[[4, 1, 0]]
    solution = solve_ufm([0, 0, 1, 1, 2], 5, prototypes=prototypes, frame=True, temperature=0.5)
    assert solution.converged
    torch.testing.assert_close(solution.features, prototypes[[0, 0, 1, 1, 2]], atol=1e-5, rtol=0)


def test_a_frame_term_without_the_constraint_has_no_known_floor():
    solution = solve_ufm([0, 0, 1, 1], 4, frame=True, nonnegative=False, temperature=0.5)
    assert solution.floor is solution.bound is None
    assert float(solution.geometry.cosines[0, 1]) < -0.1  # not a frame


def test_it_works_where_gradients_are_switched_off():
    expected = solve_ufm([0, 0, 1, 1], 4)
    with torch.no_grad():
        assert torch.equal(solve_ufm([0, 0, 1, 1], 4).features, expected.features)
        predict_gram([5, 3, 3])
    with torch.inference_mode():
        labels, start = torch.tensor([0, 0, 1, 1]), torch.rand(4, 4)
        assert solve_ufm(labels, 4, start=start, prototypes=torch.eye(2, 4)).converged
        predict_gram([5, 3, 3])


def test_numbers_of_float32_are_good_enough():
    prototypes = torch.kron(torch.eye(3), torch.ones(1, 3)) / 3**0.5
    solution = solve_ufm([0, 0, 1, 1, 2, 2], 9, prototypes=prototypes, temperature=np.float32(0.5))
    assert solution.converged is True
    json.dumps(solution.to_dict(), allow_nan=False)


@pytest.mark.parametrize("counts", [[5, 5], [5, 1], [5, 2], [8, 8, 8], [5, 1, 1]])
def test_few_rows_without_the_constraint_at_a_small_temperature(counts):
    labels = np.repeat(np.arange(len(counts)), counts)
    solution = solve_ufm(labels, 6, nonnegative=False)
    assert solution.converged
    for a, b in ((0, 1), (0, len(counts) - 1)):
        predicted = float(predict_gram(counts)[a, b])
        # Opposed classes pull with e^(-20): an angle of 0.01 changes the loss by less than rounding.
        assert float(solution.geometry.cosines[a, b]) == pytest.approx(predicted, abs=1e-3)


def test_a_start_is_where_it_begins():
    labels = np.repeat(np.arange(4), [20, 20, 2, 2])
    first = solve_ufm(labels, 6, nonnegative=False)
    again = solve_ufm(labels, 6, nonnegative=False, start=first.features)
    assert again.steps == len(again.losses) - 1  # none at another temperature
    assert again.losses[0] == pytest.approx(first.loss, abs=1e-14)
    torch.testing.assert_close(again.features, first.features, atol=1e-6, rtol=0)


def test_where_the_lowest_loss_is_not_known_all_starts_are_tried():
    batches = [list(range(12))] * 2
    options = {"batches": batches, "nonnegative": False, "temperature": 1.0}
    stuck = solve_ufm([0] * 6 + [1] * 6, 4, start=torch.ones(12, 4), **options)
    assert not stuck.converged  # all rows coincide: a maximum
    assert solve_ufm([0] * 6 + [1] * 6, 4, **options).starts == 5


def test_a_spurious_stationary_point_is_not_claimed_and_another_start_is_tried():
    stuck = [solve_ufm(STEP, 11, temperature=1.0, starts=1, seed=seed) for seed in range(6)]
    failed = [solution for solution in stuck if not solution.converged]
    assert failed
    for solution in failed:
        assert solution.reason == "stationary"
        assert solution.gap > 1e-4
        assert "spurious" in str(solution)
    for seed in range(6):
        solution = solve_ufm(STEP, 11, temperature=1.0, seed=seed)
        assert solution.converged
        assert solution.geometry.delta_of < 1e-9
    assert any(solve_ufm(STEP, 11, temperature=1.0, seed=seed).starts > 1 for seed in range(6))


def test_too_few_dimensions():
    with pytest.warns(UserWarning, match="4 dimensions are too few for 10 classes"):
        warm = solve_ufm(STEP, 4, temperature=1.0)
    assert not warm.converged
    assert "the floor may need 10 dimensions" in warm.sentence()
    off = warm.geometry.cosines[~torch.eye(10, dtype=torch.bool)]
    assert float(torch.minimum(off.abs(), (1 - off).abs()).max()) < 1e-6  # whole classes merge, the rest is orthogonal
    with pytest.warns(UserWarning, match="too few"):
        cold = solve_ufm([c for c in range(10) for _ in range(5)], 4, temperature=0.1)
    off = cold.geometry.cosines[~torch.eye(10, dtype=torch.bool)]
    assert float(off.max()) < 0.95  # a code: no two classes at one place
    assert not cold.converged


@pytest.mark.parametrize("temperature", [1.0, 0.1])
@pytest.mark.parametrize("denominator", DENOMINATORS)
@pytest.mark.parametrize("weighted", [False, True])
def test_without_the_constraint_it_ends_where_it_is_predicted_to(temperature, denominator, weighted):
    counts = [30, 30, 12, 4, 4]
    labels = np.repeat(np.arange(5), counts)
    options = {"temperature": temperature, "denominator": denominator}
    if weighted:
        options |= {"margin": 0.0 if denominator == "negatives" else 0.2, "class_weights": [1.0, 2.0, 1.0, 3.0, 3.0]}
        options |= {"anchor_weights": [1.0, 1.0, 0.5, 2.0, 2.0]}
    solution = solve_ufm(labels, 9, nonnegative=False, **options)
    assert solution.converged
    assert abs(solution.gap) < 1e-13
    assert solution.bound is None
    torch.testing.assert_close(solution.geometry.cosines, predict_gram(counts, **options), atol=1e-7, rtol=0)


def test_without_the_constraint_several_batches_have_no_known_floor():
    solution = solve_ufm([0, 0, 0, 1, 1, 1], 4, batches=[[0, 1, 3], [2, 4, 5]], nonnegative=False)
    assert solution.floor is solution.gap is solution.bound is None
    assert solution.reason == "stationary"
    assert solution.converged
    assert "is not known" in str(solution)


def test_small_temperatures_are_honest():
    solution = solve_ufm(STEP, 32, temperature=0.02, max_steps=300)
    assert solution.bound > 1e-3  # float64 cannot tell the frame from what is near it, and the bound says so
    assert "says little about angles" in solve_ufm([0, 0, 1, 1, 2, 2], 5, temperature=0.005).sentence()


def test_the_same_seed_gives_the_same_bytes_and_labels_may_be_names():
    first, again = solve_ufm(STEP, np.int64(32)), solve_ufm([f"class {label}" for label in STEP], 32)
    assert first.features.numpy().tobytes() == again.features.numpy().tobytes()
    assert first.losses == again.losses
    other = solve_ufm(STEP, 32, seed=1)
    assert not torch.equal(first.features, other.features)
    assert json.loads(json.dumps(first.to_dict()))["steps"] == first.steps


def test_the_reason_is_a_value_that_carries_its_sentence():
    solution = solve_ufm([0, 0, 1, 1], 4)
    assert solution.reason is Reason.FLOOR
    assert solution.sentence().startswith(Reason.FLOOR.sentence)
    assert json.loads(json.dumps(solution.to_dict()))["reason"] == "floor"
    assert Reason("steps") is Reason.STEPS


def test_on_step_is_told_every_step():
    seen = []
    solution = solve_ufm([0, 0, 1, 1], 4, on_step=lambda start, loss: seen.append((start, loss)))
    assert seen == [(1, loss) for loss in solution.losses[1:]]


def test_one_class_and_few_steps():
    alone = solve_ufm([0, 0, 0], 2)
    assert alone.converged  # any equiangular rows are at the floor
    short = solve_ufm(STEP, 32, max_steps=3, starts=2)
    assert short.reason == "steps"
    assert not short.converged
    assert short.starts == 2
    assert "allow more" in short.sentence()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dim": 0}, "dim must be at least 1, not 0"),
        ({"dim": 2.5}, "dim must be a whole number"),
        ({"starts": 0}, "starts must be"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"max_steps": 0}, "max_steps must be"),
        ({"tolerance": 0.0}, "tolerance must be positive"),
        ({"temperature": 0.0}, "^temperature must be"),
        ({"denominator": "some"}, "^denominator must be"),
        ({"margin": 0.5, "denominator": "negatives"}, "^margin=0.5 "),
        ({"class_weights": [1.0, 2.0, 3.0]}, "^class_weights must have"),
        ({"anchor_weights": [1.0, 0.0]}, "anchor_weights must be positive"),
        ({"supcon": 0.0}, "supcon=0 leaves nothing to minimise"),
        ({"supcon": -1.0, "frame": True}, "supcon must be at least 0"),
        ({"dim": 1, "frame": True}, "dim must be at least 2"),
        ({"batches": [], "frame": True}, "no batch holds a row"),
        ({"labels": []}, "labels are empty"),
        ({"labels": [0, 1, 2]}, "no batch holds two rows of a class"),
        ({"batches": [[0, 7]]}, "batch 0 holds index 7"),
        ({"batches": [[0, 1], [0, -1]]}, "batch 1 holds index -1"),
        ({"batches": []}, "no batch holds two rows"),
        ({"prototypes": torch.ones(2, 4)}, "unit norm"),
        ({"prototypes": torch.eye(3, 4)}, r"prototypes must have shape \[2, dim\]"),
        ({"prototypes": torch.eye(2, 5)}, "prototypes have 5 dimensions and features 4"),
        ({"prototypes": -torch.eye(2, 4)}, "must not be negative"),
        ({"prototypes": torch.tensor([[1.0, 0, 0, 0], [0.6, 0.8, 0, 0]])}, "must be orthogonal"),
        ({"start": torch.ones(3, 4)}, r"start must have shape \[4, dim\]"),
        ({"start": torch.ones(4, 3)}, "start has 3 dimensions, but dim is 4"),
        ({"start": -torch.ones(4, 4)}, "start must not be negative"),
        ({"start": torch.zeros(4, 4)}, "without rows of zeros"),
    ],
    ids=str,
)
def test_what_is_refused(arguments, message):
    labels, dim = arguments.pop("labels", [0, 0, 1, 1]), arguments.pop("dim", 4)
    with warnings.catch_warnings(), pytest.raises(ValueError, match=message):
        solve_ufm(labels, dim, **arguments)
