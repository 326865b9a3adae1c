"""Rows of any length and arrays of any kind: every room takes them, and reads them alike."""

import math

import numpy as np
import pytest
import torch

from orthoframe import (
    FrameHead,
    GeometryMetric,
    NearestCentre,
    SupConLoss,
    explain,
    loss_floor,
    measure,
    predict_gram,
    solve_ufm,
    supcon_loss,
)
from orthoframe._rows import SMALLEST_NORM, Labels, count_array, feature_tensor, label_array, label_tensor
from orthoframe.geometry import ClassStatistics, accuracy_of

DIM, ROWS = 6, 60
# Powers of ten from the smallest subnormal number to the longest row that still has finite entries.
RANGES = {
    torch.float64: (-324.0, 308.0),
    torch.float32: (-46.0, 38.4),
    torch.bfloat16: (-41.0, 38.4),
    torch.float16: (-8.0, 4.7),
}


def rows_of_every_length(dtype, seed):
    """Rows `[ROWS, DIM]` whose lengths cover the dtype; their directions in float64, zero for those that are short."""
    random = np.random.default_rng(seed)
    low, high = RANGES[dtype]
    directions = random.normal(size=(ROWS, DIM))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    exponents = random.uniform(low, high, size=(ROWS, 1))
    if dtype != torch.float16:
        exponents[::4] = random.uniform(-13.0, -11.0, size=exponents[::4].shape)  # near the limit too
    # In two factors, because 10^-324 alone is zero.
    rows = torch.from_numpy(directions * 10.0 ** (exponents / 2) * 10.0 ** (exponents / 2)).to(dtype)
    norms = [math.hypot(*row) for row in rows.double().tolist()]
    exact = [
        [value / norm if norm > SMALLEST_NORM else 0.0 for value in row]
        for row, norm in zip(rows.double().tolist(), norms, strict=True)
    ]
    assert rows.isfinite().all()
    return rows, torch.tensor(norms, dtype=torch.float64), torch.tensor(exact, dtype=torch.float64)


@pytest.mark.parametrize("dtype", RANGES, ids=str)
@pytest.mark.parametrize("seed", [0, 1])
def test_every_room_agrees_on_zero_rows_and_on_directions(dtype, seed):
    rows, norms, exact = rows_of_every_length(dtype, seed)
    zero = norms <= SMALLEST_NORM
    assert 0 < int(zero.sum()) < ROWS or dtype == torch.float16  # float16 has no row that is so short, except zero
    # The inverse of a norm above 8.5e37 is subnormal in float32, where numbers are 2^-149 apart.
    unit = 4.0 * torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps
    allowed = unit + norms * (2.0**-149 if dtype != torch.float64 else 0.0)
    expected = (~zero).double()

    geometry = measure(rows, range(ROWS))
    assert geometry.dead_rows == int(zero.sum())
    assert ((geometry.means - exact).abs().amax(1) <= allowed).all()
    assert torch.equal(geometry.cosines.diagonal().isnan(), zero)

    metric = GeometryMetric(ROWS, DIM)
    metric.update(rows, torch.arange(ROWS))
    assert metric.geometry().dead_rows == int(zero.sum())

    assert ((NearestCentre(exact).scores(rows).diagonal() - expected).abs() <= 4 * allowed).all()
    assert ((NearestCentre(rows).scores(exact).diagonal() - expected).abs() <= 4 * allowed).all()
    assert torch.equal(explain(rows, torch.eye(DIM)).unowned == 1.0, zero)
    head = FrameHead(activation="none")(rows.float() if dtype in (torch.float16, torch.bfloat16) else rows)
    assert ((head.double() - exact).abs().amax(1) <= allowed).all()

    for i in range(ROWS):
        # A positive in the exact direction and a negative without one: the term is log(1 + e^-s).
        free = rows[i : i + 1].clone().requires_grad_()
        keys = torch.stack([exact[i], torch.zeros(DIM, dtype=torch.float64)]).to(rows.dtype)
        if zero[i]:
            keys[0, 0] = 1.0
        term = supcon_loss(free, torch.tensor([0]), keys=keys, key_labels=torch.tensor([0, 1]), temperature=1.0)
        key = keys[0].double() / keys[0].double().norm()
        cosine = float(key @ exact[i])
        assert float(term.detach()) == pytest.approx(math.log1p(math.exp(-cosine)), abs=4 * float(allowed[i]))
        term.backward()
        assert not bool(free.grad.isnan().any())
        if zero[i]:
            assert not free.grad.any()


@pytest.mark.parametrize("denominator", ["all", "sincere", "negatives", "class-average"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_length_of_rows_changes_neither_loss_nor_direction_of_the_gradient(denominator, dtype):
    rows, norms, exact = rows_of_every_length(dtype, 2)
    labels = torch.arange(ROWS) % 4

    def run(features):
        features = features.clone().requires_grad_()
        loss = supcon_loss(features, labels, denominator=denominator)
        loss.backward()
        return loss.detach().double(), features.grad.double()

    (loss, gradient), (expected, expected_gradient) = run(rows), run(exact)
    assert math.isclose(loss, expected, rel_tol=1e-4 if dtype == torch.float32 else 1e-12)
    usual = (norms > 1e-9) & (norms < 1e30)  # others have gradients out of the range of float32
    assert torch.allclose(
        (gradient * norms[:, None])[usual],
        expected_gradient[usual],
        rtol=0,
        atol=1e-4 if dtype == torch.float32 else 1e-12,
    )
    assert gradient.isfinite().all()


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_rows_that_are_not_finite_are_not_hidden(value):
    rows = torch.rand(6, 3)
    rows[1, 1] = value
    labels = torch.arange(6) % 2
    for denominator in ("all", "sincere", "negatives", "class-average"):
        for dtype in (torch.float32, torch.float64, torch.float16):
            assert supcon_loss(rows.to(dtype), labels, denominator=denominator).isnan()
    assert NearestCentre(torch.eye(3)).scores(rows)[1].isnan().all()
    for refusing in (lambda: measure(rows, labels), lambda: explain(rows, torch.eye(3))):
        with pytest.raises(ValueError, match=r"features\[1, 1\] is .*must be finite"):
            refusing()


def test_class_means_that_cancel_have_no_direction():
    """Opposite rows leave 1e-17 of their length, which is rounding and not an angle."""
    rows = torch.randn(4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    geometry = measure(torch.cat([rows, -rows, torch.eye(2, 8)]), [0, 0, 1, 1, 0, 0, 1, 1, 2, 3])
    assert geometry.cosines[:2].isnan().all()
    assert geometry.mean_cosine == 0.0
    assert geometry.norm_ratio == math.inf


# Arrays


FEATURES = np.random.default_rng(0).random((8, 4))
LABELS = np.arange(8) % 2


def read_only(array):
    array = array.copy()
    array.setflags(write=False)
    return array


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "form",
    [
        lambda x: x,
        read_only,
        lambda x: x.astype(">f8"),
        lambda x: x.astype(">f4"),
        lambda x: x.astype(np.float16),
        lambda x: np.asfortranarray(x),
        lambda x: x[::-1, ::-1],
        lambda x: np.repeat(x, 2, axis=1)[:, ::2],
        lambda x: x.tolist(),
    ],
    ids=[
        "array",
        "read-only",
        "big-endian",
        "big-endian float32",
        "float16",
        "columns",
        "reversed",
        "strided",
        "lists",
    ],
)
def test_arrays_are_taken_wherever_tensors_are(form):
    rows = form(FEATURES)
    tensor = torch.tensor(np.asarray(rows, dtype=np.asarray(rows).dtype.newbyteorder("=")).copy())
    labels = torch.from_numpy(LABELS)
    loss = supcon_loss(rows, LABELS, keys=rows, key_labels=LABELS.tolist())
    assert torch.equal(loss, supcon_loss(tensor, labels, keys=tensor, key_labels=labels))
    assert isinstance(loss, torch.Tensor)
    assert not loss.requires_grad
    assert torch.equal(SupConLoss()(rows, LABELS), SupConLoss()(tensor, labels))
    assert measure(rows, LABELS).to_dict() == measure(tensor, labels).to_dict()
    assert torch.equal(NearestCentre(rows).predict(rows), NearestCentre(tensor).predict(tensor))
    assert torch.equal(explain(rows, rows).shares, explain(tensor, tensor).shares)
    ours, theirs = ClassStatistics(2, 4), ClassStatistics(2, 4)
    ours.update(rows, LABELS)
    theirs.update(tensor, labels)
    assert torch.equal(ours.means, theirs.means)
    metric = GeometryMetric(2, 4)
    metric.update(rows, LABELS)
    reference = GeometryMetric(2, 4)
    reference.update(tensor, labels)
    assert torch.equal(metric.geometry().means, reference.geometry().means)
    assert solve_ufm(LABELS, 4, start=rows).loss == solve_ufm(LABELS, 4, start=tensor).loss


def test_keys_that_learn_beside_an_array():
    keys = torch.eye(2, 4, dtype=torch.float64).requires_grad_()
    supcon_loss(FEATURES, LABELS, keys=keys, key_labels=[0, 1]).backward()
    assert keys.grad.abs().sum() > 0


def test_scores_and_labels_as_arrays():
    scores = np.array([[0.9, 0.1], [0.6, 0.3]])
    assert accuracy_of(scores, [0, 1], ["cat", "dog"], [5, 2]).by_class == (1.0, 0.0)


@pytest.mark.parametrize(
    "features",
    [FEATURES.astype(np.int64), FEATURES.astype(complex), FEATURES.astype(np.longdouble), [["a", "b"]], None],
)
def test_features_that_are_not_converted(features):
    with pytest.raises(TypeError, match="features must be float64, float32, float16 or bfloat16, not "):
        feature_tensor(features)
    for room in (supcon_loss, measure):
        with pytest.raises((TypeError, ValueError), match=r"features must be float|features must have shape"):
            room(features, LABELS)


# Labels and counts

NAMES = [2**62, -1, -(2**63), 2**62]


@pytest.mark.parametrize("kind", [np.uint64, ">u8", np.uint8, ">i4", torch.uint64, torch.uint16, torch.bool])
def test_labels_of_every_integer_type(kind):
    labels = torch.from_numpy(LABELS).to(kind) if isinstance(kind, torch.dtype) else LABELS.astype(kind)
    assert supcon_loss(FEATURES, labels) == supcon_loss(FEATURES, LABELS)
    assert loss_floor(labels) == loss_floor(LABELS)
    assert measure(FEATURES, labels, num_classes=2).counts == (4, 4)
    assert measure(FEATURES, labels).counts == (4, 4)


@pytest.mark.parametrize("form", [list, np.array, lambda names: np.array(names, dtype=object)])
def test_labels_are_names_of_64_bits(form):
    assert Labels.of(form(NAMES)).names == (-(2**63), -1, 2**62)
    assert loss_floor(form(NAMES)) == loss_floor([0, 1, 2, 0])
    unsigned = np.array([2**64 - 1, 2**63, 2**64 - 1], dtype=np.uint64)
    assert Labels.of(unsigned).names == (2**63, 2**64 - 1)


@pytest.mark.parametrize(
    "labels",
    [
        [2**70] * 8,
        np.array([2**63, -1] * 4, dtype=object),
        np.full(8, 2**64 - 1, dtype=np.uint64),
        torch.full((8,), 2**64 - 1, dtype=torch.uint64),
        [-(2**63) - 1] * 8,
    ],
    ids=["list", "objects", "uint64", "torch.uint64", "below"],
)
def test_labels_that_int64_does_not_hold_are_refused_where_they_are_sent(labels):
    message = r"labels must be integers of at most 64 bits with a sign, below 2\^63"
    for room in (
        lambda: supcon_loss(FEATURES, labels),
        lambda: SupConLoss()(FEATURES, labels),
        lambda: measure(FEATURES, labels, num_classes=2),
        lambda: ClassStatistics(2, 4).update(FEATURES, labels),
    ):
        with pytest.raises(ValueError, match=message):
            room()


def test_large_labels_of_two_types_are_not_mixed_up():
    """As float64, which is what numpy makes of both together, the two would be one class."""
    large, small = np.array([2**63, 2**63], dtype=np.uint64), np.array([2**63 - 1, 2**63 - 1])
    with pytest.raises(TypeError, match="labels must be integers or strings, not float64"):
        loss_floor(large, key_labels=small)
    # As int64, into which it would be wrapped around, this label would be -1.
    with pytest.raises(ValueError, match="labels must be integers of at most 64 bits"):
        supcon_loss(FEATURES[:2], np.full(2, 2**64 - 1, np.uint64), keys=FEATURES[:2], key_labels=np.full(2, -1))


def test_labels_of_no_kind_are_refused():
    for wrong in ([0.5, 1.0], [None, 1], ["a", 1.5, None], torch.tensor([0.5]), [[1], [1, 2]], np.zeros((2, 2), int)):
        with pytest.raises((TypeError, ValueError), match=r"^labels must be "):
            label_array(wrong)
    for wrong in ([0.5], None, ["a"], torch.tensor([0.5])):
        with pytest.raises(TypeError, match=r"^labels must be integers, not "):
            label_tensor(wrong, torch.device("cpu"))
    assert label_tensor([], torch.device("cpu")).tolist() == []


def test_counts_are_exact():
    assert count_array([2**52] * 2).sum() == 2**53
    assert count_array([1, 2]).dtype == np.int64
    assert count_array(torch.tensor([3], dtype=torch.uint64)).tolist() == [3]
    for wrong, message in (
        ([0.5], "integers, not float64"),
        ([True], "integers, not bool"),
        (["3"], "integers, not strings"),
        ([-1], "not be negative, not -1"),
        ([2**53, 2], r"be of at most 2\^53 rows"),
        ([10**400], r"be integers of at most 64 bits"),
        (3, "one-dimensional"),
        ([[1], [2, 3]], "lists of equal lengths"),
    ):
        with pytest.raises(
            (TypeError, ValueError), match=f"class_counts must be .*{message}|class_counts must {message}"
        ):
            count_array(wrong)
    with pytest.raises(ValueError, match=r"at most 2\^53 rows"):
        predict_gram([2**60, 2])


def test_a_number_and_its_text_are_not_one_class():
    """numpy makes strings of a list of both."""
    for labels in ([1, "1"], ["a", 1.5], [True, "True"], np.array([1, "1"], dtype=object)):
        with pytest.raises(TypeError, match="labels must be all integers or all strings"):
            Labels.of(labels)
    assert Labels.of([b"b", b"a"]).names == Labels.of(["b", "a"]).names == ("a", "b")
