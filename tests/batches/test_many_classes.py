"""Pairs of 100,000 classes are counted and not stored; what needs all of them is refused with a way out."""

import math
import subprocess
import sys

import numpy as np
import pytest

from orthoframe import BatchPlan, certify, coverage, repair
from orthoframe.batches import _pairs, meeting_counts
from orthoframe.errors import OptionError

MANY = 100_000


# In a process whose address space is limited: tables of all pairs would take tens of gibibytes.
LIMITED = """
import resource
import numpy as np
from orthoframe import BatchPlan, PlanSampler, certify, coverage

resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, 3 * 2**30))
labels = np.repeat(np.arange(100_000), 3)
order = np.random.default_rng(0).permutation(len(labels))
certificate = certify(labels, np.split(order, range(250, len(order), 250)))
print(certificate.holds, len(certificate.missing_pairs), certificate.num_missing_pairs)
whole = certify(labels, [np.arange(len(labels))])
print(whole.holds, whole.num_missing_pairs)
result = coverage([10] * 100_000, 256, 10)
print(result.probability, result.unmet_of([0, 7]).shape[1], coverage([10] * 100_000, 200_000, 400).probability > 0.9)
plan = BatchPlan(np.arange(2_000_000) % 1000, 4)
print(len(plan.batches(0)), len(plan.batches(0)[-1]), len(next(iter(PlanSampler(plan)))))
"""


def test_certificates_coverage_and_plans_are_linear_in_memory():
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    apart, together, covered, plan = (line.split() for line in done.stdout.splitlines())
    assert apart[:2] == ["False", str(MANY)]
    assert int(apart[2]) > 0.99 * math.comb(MANY, 2)
    assert together == ["True", "0"]
    assert covered == ["0.0", str(MANY), "True"]
    assert plan == ["500000", "1004", "1004"]


@pytest.mark.parametrize("seed", range(30))
def test_with_and_without_a_table(monkeypatch, seed):
    """The same certificates, whichever way the pairs are kept."""
    random = np.random.default_rng(seed)
    k, views = int(random.integers(1, 12)), 1 + seed % 2
    labels = np.append(np.arange(k), random.integers(k, size=30))
    batches = [random.integers(len(labels), size=random.integers(0, 9)) for _ in range(random.integers(0, 30))]
    if seed % 3 == 0:  # batches with all classes
        batches = [np.append(batch, np.arange(k)) for batch in batches]
    options = {"views": views, "frame": seed % 5 == 0}
    expected = certify(labels, batches, **options)
    monkeypatch.setattr(_pairs, "_MOST_IN_TABLE", 0)
    monkeypatch.setattr(_pairs, "_CELLS", 20)
    certificate = certify(labels, batches, **options)
    assert certificate.to_dict() == expected.to_dict()
    assert str(certificate) == str(expected)
    witness = certificate.witness()
    assert (witness is None) == expected.holds
    assert witness is None or np.array_equal(witness, expected.witness())


def test_what_needs_all_pairs_is_refused():
    labels, batches = np.arange(5000), [np.arange(5000)]
    with pytest.raises(
        OptionError, match=r"repair has a table .* at most 4096 of them, not 5000; bind the classes with"
    ):
        repair(labels, batches)
    with pytest.raises(OptionError, match="meeting_counts has a table"):
        meeting_counts(labels, batches)
    with pytest.raises(OptionError, match=r"a simulation has a table .* leave out simulations"):
        coverage([2] * 5000, 10, 3, simulations=5)
    with pytest.raises(OptionError, match="ask for a few classes with unmet_of"):
        _ = coverage([2] * 5000, 10, 3).unmet


def test_some_rows_of_the_unmet_pairs():
    for simulations in (0, 50):
        result = coverage([30, 4, 25, 4, 1], 7, 3, simulations=simulations)
        assert np.array_equal(result.unmet_of([3, 0]), result.unmet[[3, 0]])
        assert np.array_equal(result.unmet, result.unmet.T)
        assert not result.unmet.diagonal().any()


def test_bound_batches_are_a_sequence():
    plan = BatchPlan(np.arange(40) % 4, 7, binding="fixed")
    batches, loose = plan.batches(2), BatchPlan(np.arange(40) % 4, 7, binding="none").batches(2)
    bound = np.concatenate(list(plan.examples.values()))
    assert len(batches) == len(loose) == 6
    for got, rows in zip(batches, loose, strict=True):
        assert np.array_equal(got, np.append(rows, bound))
    assert [batch.tolist() for batch in batches[4:]] == [batches[-2].tolist(), batches[5].tolist()]
    with pytest.raises(IndexError):
        batches[6]
