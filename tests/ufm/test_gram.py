"""The predicted Gram matrix: the published table, a proof of optimality, its symmetries."""

import math
import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from orthoframe import predict_gram
from orthoframe.geometry import distance_to_gram, frame_gram
from orthoframe.ufm import gram_loss

DENOMINATORS = ["all", "sincere", "negatives", "class-average"]


@pytest.mark.parametrize(
    ("temperature", "majority", "ratio", "cosines"),
    [
        (1.0, 50, 1, (-0.1111, -0.1111, -0.1111)),
        (1.0, 500, 10, (-0.2429, -0.0431, 0.1613)),
        (1.0, 5000, 100, (-0.2499, -0.0055, 0.2447)),
        (0.1, 5000, 10, (-0.1454, -0.1289, -0.0017)),
        (0.1, 5000, 100, (-0.1536, -0.1592, 0.1606)),
        (0.1, 5000, 1000, (-0.153, -0.191, 0.340)),
    ],
)
def test_step_imbalance(temperature, majority, ratio, cosines):
    gram = predict_gram([majority] * 5 + [majority // ratio] * 5, temperature=temperature)
    optimum = (float(gram[0, 1]), float(gram[0, 9]), float(gram[8, 9]))
    assert optimum == pytest.approx(cosines, abs=1e-4 if ratio < 1000 else 1e-3)


@pytest.mark.parametrize(("ratio", "distance"), [(1, 0.3204), (10, 0.3387), (100, 0.4396)])
def test_distance_to_the_frame(ratio, distance):
    gram = predict_gram([5000] * 5 + [5000 // ratio] * 5)
    assert distance_to_gram(gram, frame_gram(10)) == pytest.approx(distance, abs=1e-4)


def excess(gram, counts, temperature, denominator, margin=0.0, class_weights=None, anchor_weights=None):
    """How far above the optimum the loss of a Gram matrix can be, relative to the pull: 0 is a proof that it is none.

    The loss f is convex in G. With D its gradient and S = D - diag(DG), any other X with unit diagonal has
    f(X) - f(G) >= tr(S X) - tr(S G), and tr(S X) >= k min(0, smallest eigenvalue of S).
    """
    variable = gram.clone().requires_grad_()
    counts = torch.tensor(counts, dtype=torch.float64)
    on_rows, on_anchors = (torch.tensor(w or [1.0] * len(counts)).double() for w in (class_weights, anchor_weights))
    weights = on_rows * (torch.ones_like(counts) if denominator == "class-average" else counts)
    positives = {"all": counts - 1, "negatives": torch.zeros_like(counts)}.get(denominator, torch.ones_like(counts))
    table = weights.expand(len(counts), -1).clone()
    table.diagonal().copy_(on_rows * positives * math.exp(-margin / temperature))
    terms = torch.log((table * ((variable - 1) / temperature).exp()).sum(1))
    (slope,) = torch.autograd.grad((on_anchors * counts * terms)[counts > 1].sum(), variable)
    slope = (slope + slope.T) / 2
    slope.fill_diagonal_(0.0)
    dual = slope - torch.diag((slope @ gram).diagonal())
    scale = float(slope.abs().max()) * len(counts)
    smallest = float(torch.linalg.eigvalsh(dual)[0])
    return (abs(float((dual * gram).sum())) - len(counts) * min(0.0, smallest)) / scale


@settings(max_examples=40)
@given(
    st.lists(st.sampled_from([1, 2, 3, 10, 50, 200, 1000]), min_size=2, max_size=9).filter(lambda c: max(c) > 1),
    st.sampled_from([0.05, 0.1, 0.5, 1.0, 2.0]),
    st.sampled_from(DENOMINATORS),
)
def test_a_dual_certificate_proves_the_optimum(counts, temperature, denominator):
    gram = predict_gram(counts, temperature=temperature, denominator=denominator)
    torch.testing.assert_close(gram.diagonal(), torch.ones(len(counts), dtype=torch.float64))
    assert float(torch.linalg.eigvalsh(gram)[0]) > -1e-9
    # The slope comes from exponentials in plain arithmetic: 1e-7 of the pull is what float64 leaves of it.
    assert excess(gram, counts, temperature, denominator) < 1e-7


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.sampled_from([1, 2, 10, 200]), st.sampled_from([0.1, 1.0, 5.0]), st.sampled_from([0.2, 1.0, 4.0])),
        min_size=2,
        max_size=7,
    ).filter(lambda classes: max(classes)[0] > 1),
    st.sampled_from([0.1, 0.5, 1.0]),
    st.sampled_from(DENOMINATORS),
    st.sampled_from([-0.2, 0.3, 0.8]),
)
def test_margins_and_weights(classes, temperature, denominator, margin):
    """The same proof: the loss is convex with them too."""
    counts, class_weights, anchor_weights = map(list, zip(*classes, strict=True))
    options = {"temperature": temperature, "denominator": denominator}
    options |= {"margin": 0.0 if denominator == "negatives" else margin}
    options |= {"class_weights": class_weights, "anchor_weights": anchor_weights}
    gram = predict_gram(counts, **options)
    assert float(torch.linalg.eigvalsh(gram)[0]) > -1e-9
    assert excess(gram, counts, **options) < 1e-7


@pytest.mark.parametrize(
    ("counts", "temperature", "cosine"),
    [([10**6] * 5 + [2] * 5, 5.0, 0.2500), ([10**9] * 3 + [3] * 7, 0.5, 0.6193)],
)
def test_extreme_ratios(counts, temperature, cosine):
    """Against a reference in forty digits."""
    assert float(predict_gram(counts, temperature=temperature)[-2, -1]) == pytest.approx(cosine, abs=1e-4)


def test_the_cosines_are_right_to_1e_8():
    """Two groups have three unknowns on the boundary of the cone: minimise over two angles, to the last digit."""
    import numpy as np
    from scipy.optimize import minimize

    counts, tau = [40, 40, 40, 6, 6], 0.3
    gram = predict_gram(counts, temperature=tau)
    k = np.array([3.0, 2.0])
    n = np.array([40.0, 6.0])

    def cosines(angles):
        # Lengths of the common parts of both groups; they point in opposite directions.
        p, q = np.cos(angles)
        return (k[0] * p * p - 1) / (k[0] - 1), -p * q, (k[1] * q * q - 1) / (k[1] - 1)

    def loss(angles):
        a, b, c = cosines(angles)
        big = (k[0] - 1) * n[0] * np.exp((a - 1) / tau) + k[1] * n[1] * np.exp((b - 1) / tau)
        small = k[0] * n[0] * np.exp((b - 1) / tau) + (k[1] - 1) * n[1] * np.exp((c - 1) / tau)
        return k[0] * n[0] * np.log1p(big / (n[0] - 1)) + k[1] * n[1] * np.log1p(small / (n[1] - 1))

    best = min(
        (
            minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-14, "fatol": 0, "maxiter": 4000})
            for start in ([1.2, 1.2], [1.4, 0.8])
        ),
        key=lambda minimum: minimum.fun,
    )
    # Nelder-Mead sees values only: it finds an angle to the square root of rounding.
    assert [float(gram[0, 1]), float(gram[0, 4]), float(gram[3, 4])] == pytest.approx(list(cosines(best.x)), abs=3e-8)
    assert excess(gram, counts, tau, "all") < 1e-12


def test_the_order_of_classes_does_not_matter():
    counts = [5, 40, 5, 9]
    order = torch.tensor([2, 3, 0, 1])
    shuffled = predict_gram([counts[i] for i in order])
    torch.testing.assert_close(shuffled, predict_gram(counts)[order][:, order], atol=1e-9, rtol=0)


def test_groups_agree_with_classes_that_are_nearly_alike():
    """Counts that differ a little are ten groups of one class; they must be close to two groups of five."""
    alike = predict_gram([100_000] * 5 + [10_000] * 5)
    apart = predict_gram([100_000 + i for i in range(5)] + [10_000 + i for i in range(5)])
    torch.testing.assert_close(alike, apart, atol=1e-3, rtol=0)


def test_balanced_classes_form_a_simplex():
    for k in (2, 3, 10):
        gram = predict_gram([7] * k)
        expected = torch.full((k, k), -1 / (k - 1), dtype=torch.float64).fill_diagonal_(1.0)
        torch.testing.assert_close(gram, expected, atol=1e-9, rtol=0)


def test_many_classes_of_few_sizes_are_quick():
    counts = [count for count in (5000, 3000, 1800, 1080, 640, 390, 230, 140, 83, 50) for _ in range(100)]
    start = time.perf_counter()
    gram = predict_gram(counts)
    assert time.perf_counter() - start < 10
    assert gram.shape == (1000, 1000)
    assert excess(gram, counts, 0.1, "all") < 1e-9


def test_more_unknowns_than_a_matrix_is_made_for():
    counts = [int(500 * 100 ** (-c / 44)) for c in range(45)]
    assert len(set(counts)) > 31
    assert excess(predict_gram(counts), counts, 0.1, "all") < 1e-7


def test_the_loss_of_a_gram_matrix_is_that_of_its_features():
    import reference

    counts = [4, 3, 2, 1]
    labels = [c for c, count in enumerate(counts) for _ in range(count)]
    generator = torch.Generator().manual_seed(0)
    means = torch.nn.functional.normalize(torch.randn(4, 6, dtype=torch.float64, generator=generator))
    weights = {"class_weights": [0.5, 1.0, 2.0, 3.0], "anchor_weights": [1.0, 4.0, 0.1, 1.0]}
    for denominator in DENOMINATORS:
        for options in ({}, weights if denominator == "negatives" else {"margin": 0.4, **weights}):
            terms = reference.supcon_terms(means[labels], labels, 0.3, denominator, **options)
            expected = float(sum(term for term in terms if term is not None))
            options = {"temperature": 0.3, "denominator": denominator, **options}
            assert gram_loss(means @ means.T, torch.tensor(counts), **options) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("counts", "options", "message"),
    [
        ([], {}, "at least one count"),
        (torch.tensor([2, 0], dtype=torch.uint16), {}, "at least 1, not 0"),
        ([[1, 2]], {}, "must be one-dimensional"),
        ([2.0, 3.0], {}, "must be integers"),
        ([2, 0], {}, "at least 1, not 0"),
        ([1, 1], {}, "every class has a single row"),
        ([2, 2], {"temperature": -1.0}, "^temperature must be"),
        ([2, 2], {"denominator": "none"}, "^denominator must be"),
        ([2, 2], {"denominator": "negatives", "margin": 0.1}, "^margin=0.1 "),
        ([2, 2], {"class_weights": [1.0]}, "^class_weights must have"),
        ([2, 2], {"anchor_weights": [1.0, -1.0]}, "anchor_weights must be positive"),
    ],
)
def test_what_is_refused(counts, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        predict_gram(counts, **options)


def test_one_class():
    assert predict_gram([5]).tolist() == [[1.0]]
