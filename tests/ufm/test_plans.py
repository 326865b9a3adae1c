"""Free features and the batches of a plan: the solver never contradicts the certificate."""

import numpy as np
import pytest
import torch
from tests.ufm.cases import DENOMINATORS, STEP, out_of_place

from orthoframe import BatchPlan, certify, repair, solve_ufm


def random_plan(seed):
    """Small batches over a few classes; some are repaired, so that both verdicts are common."""
    random = np.random.default_rng(seed)
    k = int(random.integers(2, 5))
    n = int(random.integers(2 * k, 4 * k + 1))
    labels = np.concatenate([np.arange(k), np.arange(k), random.integers(0, k, n - 2 * k)])
    batches = [
        random.choice(n, int(random.integers(2, min(n, 7) + 1)), replace=bool(random.random() < 0.2))
        for _ in range(int(random.integers(2, 7)))
    ]
    return labels, repair(labels, batches) if random.random() < 0.4 else batches


@pytest.mark.parametrize(
    ("part", "denominator"), [*((p, "all") for p in range(5)), *((0, d) for d in DENOMINATORS[1:])]
)
def test_solver_and_certificate_never_contradict_each_other(part, denominator):
    verdicts = []
    for seed in range(8 * part, 8 * part + 8):
        labels, batches = random_plan(seed)
        if all(len(set(labels[batch])) == len(batch) for batch in batches):
            continue  # no anchor anywhere: the solver refuses it
        certificate = certify(labels, batches, denominator=denominator)
        verdicts.append(certificate.holds)
        dim = len(labels) + len(set(labels))  # room for whatever the batches leave free
        options = {"batches": batches, "temperature": 1.0, "denominator": denominator}
        solutions = (solve_ufm(labels, dim, seed=start, **options) for start in range(5))
        if certificate.holds:
            solution = next(solutions)
            assert solution.converged, seed
            # A batch of one class feels the fourth power of an angle: 1e-14 above the floor is an angle of 3e-4.
            assert out_of_place(solution) < 2e-3, seed
        else:
            assert any(solution.converged and out_of_place(solution) > 1e-2 for solution in solutions), seed
    assert {True, False} == set(verdicts)


def test_a_frame_term_needs_only_that_every_sample_is_in_a_batch():
    verdicts = []
    for seed in range(12):
        labels, batches = random_plan(seed)
        certificate = certify(labels, batches, frame=True)
        verdicts.append(certificate.holds)
        supcon = 0.0 if all(len(set(labels[batch])) == len(batch) for batch in batches) else 0.5
        solution = solve_ufm(labels, 8, batches=batches, temperature=0.5, frame=True, supcon=supcon)
        assert solution.converged, seed
        frame = torch.eye(len(set(labels))).repeat(1, 8)[:, :8].double()
        off = (solution.features - torch.nn.functional.normalize(frame)[labels]).abs().amax(1)
        assert float(off[np.setdiff1d(np.arange(len(labels)), certificate.absent_samples)].max()) < 1e-4, seed
        assert bool((off[list(certificate.absent_samples)] > 0.1).all()), seed  # they are where they began
    assert {True, False} == set(verdicts)


def test_the_plan_that_the_paper_condition_accepts_and_the_solver_refutes():
    labels, batches = [0, 0, 1, 1, 2, 2], [[0, 2, 4, 5], [0, 1, 4], [2, 3, 5]]
    certificate = certify(labels, batches)
    assert certificate.holds_as_stated
    assert not certificate.holds
    solution = solve_ufm(labels, 12, batches=batches, temperature=1.0)
    assert solution.converged
    assert out_of_place(solution) > 0.01
    mended = solve_ufm(labels, 12, batches=repair(labels, batches), temperature=1.0)
    assert mended.converged
    assert out_of_place(mended) < 1e-5  # the square root of what the loss can tell


@pytest.mark.parametrize("denominator", ["sincere", "negatives"])
def test_a_batch_of_a_single_class_has_no_force_with_some_denominators(denominator):
    labels, batches = [0, 0, 0, 1, 1], [[0, 1, 3, 4], [0, 1, 2], [2, 3, 4]]
    assert certify(labels, batches).holds
    assert not certify(labels, batches, denominator=denominator).holds
    solution = solve_ufm(labels, 8, batches=batches, temperature=1.0, denominator=denominator)
    assert solution.converged
    assert out_of_place(solution) > 0.1


def test_the_views_of_a_plan_are_rows():
    labels = [0, 0, 1, 1, 2, 2]
    plan = BatchPlan(labels, 1, scheme="partition", binding="present", views=2, seed=13)
    assert plan.certificate().holds
    assert out_of_place(solve_ufm(labels, 12, batches=plan, temperature=1.0)) < 2e-3


def test_a_witness_is_where_the_solver_stays():
    labels, batches = random_plan(3)
    certificate = certify(labels, batches)
    assert not certificate.holds
    witness = torch.from_numpy(certificate.witness())
    solution = solve_ufm(labels, witness.shape[1], batches=batches, start=witness, temperature=1.0)
    assert solution.converged
    assert solution.steps == 0
    torch.testing.assert_close(solution.features, witness)


def test_binding_and_prototypes_turn_a_failing_plan_into_a_frame():
    plan = BatchPlan(STEP, 64, scheme="partition", binding="none")
    loose = solve_ufm(STEP, 32, batches=plan, temperature=0.5)
    assert loose.converged
    assert loose.geometry.delta_of > 0.1
    bound = solve_ufm(STEP, 32, batches=BatchPlan(STEP, 64, scheme="partition", binding="fixed"), temperature=0.5)
    fixed = solve_ufm(STEP, 32, batches=plan, temperature=0.5, prototypes=torch.eye(10, 32))
    for solution in (bound, fixed):
        assert solution.converged
        assert solution.geometry.delta_of < 1e-9
    axes = fixed.geometry.ownership.owners[:10]
    assert axes.tolist() == list(range(10))  # each class is at its prototype
