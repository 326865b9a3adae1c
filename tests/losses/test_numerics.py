"""Precision, extreme temperatures, rows without a direction, memory."""

import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import reference
from orthoframe import frame_loss, loss_floor, supcon_loss
from orthoframe.losses import FrameLoss, _symmetric, _terms

DENOMINATORS = ["all", "sincere", "negatives", "class-average"]


def draw(rows, dim=16, dtype=torch.float32, seed=0):
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("denominator", DENOMINATORS)
@pytest.mark.parametrize("temperature", [0.001, 0.0096, 0.0167, 0.1, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("rows", ["random", "frame", "collapsed", "opposite"])
def test_float32_is_stable(denominator, temperature, rows):
    labels = torch.arange(24) % 4
    features = {
        "random": draw(24),
        "frame": torch.eye(16)[labels],
        "collapsed": torch.ones(24, 16),
        "opposite": torch.ones(24, 16) * (1 - 2 * (labels % 2))[:, None],
    }[rows]

    def run(dtype):
        inputs = features.to(dtype).requires_grad_()
        loss = supcon_loss(inputs, labels, temperature=temperature, denominator=denominator)
        return loss.double(), torch.autograd.grad(loss, inputs)[0].double()

    (loss, gradient), (exact, exact_gradient) = run(torch.float32), run(torch.float64)
    # A similarity in float32 is off by some 1e-7, which the temperature divides; a gradient is divided once more.
    unit = 4e-7 / temperature
    assert abs(loss - exact) <= unit + 1e-6 * abs(exact)
    assert torch.allclose(gradient, exact_gradient, rtol=1e-4, atol=min(1.0, 4 * unit) / temperature / 24 + 1e-7)


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=12),
    st.lists(st.integers(0, 4), max_size=6),
    st.floats(math.log(1e-3), math.log(1e3)).map(lambda value: min(max(math.exp(value), 1e-3), 1e3)),
    st.sampled_from([torch.float32, torch.float64]),
    st.sampled_from(DENOMINATORS),
    st.sampled_from([2, _symmetric.TILE]),
    st.sampled_from(["random", "collapsed", "opposite", "orthogonal", "zero"]),
    st.floats(-11, 30),
    st.integers(0, 2**31 - 1),
)
def test_loss_and_gradient_are_finite(labels, key_labels, temperature, dtype, denominator, tile, kind, length, seed):
    random = torch.Generator().manual_seed(seed)
    total = len(labels) + len(key_labels)
    classes = torch.tensor(labels + key_labels)
    rows = {
        "random": lambda: torch.randn(total, 5, generator=random, dtype=torch.float64),
        "collapsed": lambda: torch.ones(total, 5),
        "opposite": lambda: torch.ones(total, 5) * (1 - 2 * (classes % 2))[:, None],
        "orthogonal": lambda: torch.eye(5)[classes],
        "zero": lambda: torch.eye(5)[classes] * torch.rand(total, 1, generator=random).round(),
    }[kind]()
    rows = (rows * 10.0**length).to(dtype)
    features, keys = (part.clone().requires_grad_() for part in (rows[: len(labels)], rows[len(labels) :]))
    # Small tiles and blocks, none of them kept, as large batches have them.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_symmetric, "TILE", tile)
        patch.setattr(_terms, "BLOCK", tile * total)
        patch.setattr(_symmetric, "KEEP_BYTES", 0 if tile == 2 else _symmetric.KEEP_BYTES)
        for options in ({"reduction": "mean"}, {"reduction": "none"}):
            options |= {"temperature": temperature, "denominator": denominator}
            loss = supcon_loss(
                features, classes[: len(labels)], keys=keys, key_labels=classes[len(labels) :], **options
            )
            assert loss.isfinite().all()
            for gradient in torch.autograd.grad(loss.sum(), (features, keys)):
                assert gradient.isfinite().all()


@pytest.mark.parametrize("temperature", [0.001, 0.1])
def test_thousands_of_equal_rows_do_not_add_up_their_rounding(temperature):
    labels = torch.arange(4096) % 2
    axes = torch.linalg.qr(draw(16, dtype=torch.float64))[0][:2].float()
    loss = supcon_loss(axes[labels], labels, temperature=temperature)
    floor = loss_floor(labels, temperature=temperature)
    # The axes themselves are rounded: their cosines are off by some 1e-7, which the temperature divides.
    assert abs(loss.double() - floor) < 4e-7 / temperature


@pytest.mark.parametrize("length", [1e-9, 1e20, 1e37])
def test_the_length_of_rows_does_not_matter_in_float32(length):
    features, labels = draw(8), torch.arange(8) % 2
    assert torch.allclose(supcon_loss(features * length, labels), supcon_loss(features, labels), rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("denominator", DENOMINATORS)
@pytest.mark.parametrize("autocast", [False, True])
def test_half_precision_is_computed_in_float32(dtype, denominator, autocast):
    labels, features = torch.arange(24) % 4, draw(24, dtype=dtype).requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        loss = supcon_loss(features, labels, denominator=denominator)
        # Under autocast on purpose: a backward pass may be, and must not fall to bfloat16 either.
        loss.backward()
    wide = features.detach().float().requires_grad_()
    exact = supcon_loss(wide, labels, denominator=denominator)
    exact.backward()
    assert loss.dtype == torch.float32
    assert torch.equal(loss, exact)
    assert features.grad.dtype == dtype
    assert torch.equal(features.grad, wide.grad.to(dtype))


@pytest.mark.parametrize("temperature", [0.001, 0.1])
@pytest.mark.parametrize("exponent", [-14, -17, -24])
def test_gradients_of_short_rows_stay_in_the_range_of_float16(temperature, exponent):
    """They grow as rows get shorter; the direction is right, and the length is what the range allows."""
    labels, features = torch.arange(4) % 2, (2.0**exponent * (1 + torch.arange(8.0).view(4, 2) % 3)).half()
    for loss in (
        lambda rows: supcon_loss(rows, labels, temperature=temperature),
        lambda rows: frame_loss(rows, labels, torch.eye(2), temperature=temperature),
        lambda rows: FrameLoss(2, 2, temperature, supcon=1.0)(rows, labels),
    ):
        narrow, wide = features.clone().requires_grad_(), features.float().requires_grad_()
        for rows in (narrow, wide):
            loss(rows).backward()
        assert narrow.grad.isfinite().all()
        short = wide.grad.norm(dim=1, keepdim=True).clamp(min=1e-30)
        scaled = wide.grad / short * short.clamp(max=torch.finfo(torch.float16).max)
        assert torch.allclose(narrow.grad.float(), scaled, rtol=2**-10, atol=2**-14)


@pytest.mark.parametrize("exponent", [-14, 0, 4])
def test_a_scale_of_the_loss_that_is_too_large_shows_in_float16(exponent):
    """A scaler looks for gradients that are not finite; if they were only shortened, it would never learn of it."""
    labels, features = torch.arange(8) % 2, (draw(8) * 2.0**exponent).half().requires_grad_()
    (supcon_loss(features, labels) * 2.0**30).backward()
    assert not features.grad.isfinite().all()


# The logarithm of another weight would be rounded again in a sum.
@pytest.mark.parametrize(("reduction", "weight"), [("mean", 1.0), ("sum", 1.0), ("none", 1.0), ("none", 0.3)])
def test_without_negatives_the_loss_is_not_below_its_floor(reduction, weight):
    """Whatever the rows are: it does not depend on them."""
    labels = torch.zeros(7, dtype=torch.int64)
    for seed in range(20):
        for temperature in (0.001, 0.01, 0.1, 1.0):
            options = {"temperature": temperature, "denominator": "sincere", "class_weights": [weight]}
            loss = supcon_loss(draw(7, 5, seed=seed), labels, reduction=reduction, **options)
            assert (loss >= loss_floor(labels, reduction=reduction, **options).float()).all()


def test_float32_under_autocast_is_not_lowered():
    labels, features = torch.arange(24) % 4, draw(24).requires_grad_()
    plain = supcon_loss(features, labels)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(supcon_loss(features, labels), plain)


@pytest.mark.parametrize("denominator", DENOMINATORS)
@pytest.mark.parametrize("temperature", [0.001, 0.1])
def test_a_zero_row_is_finite(denominator, temperature):
    features, labels = draw(6), torch.tensor([0, 0, 1, 1, 2, 2])
    features[0] = 0.0
    features[4:] = 0.0
    features.requires_grad_()
    loss = supcon_loss(features, labels, denominator=denominator, temperature=temperature)
    loss.backward()
    assert loss.isfinite()
    assert features.grad.isfinite().all()
    assert torch.equal(features.grad[[0, 4, 5]], torch.zeros(3, 16))


def test_a_zero_row_has_similarity_zero():
    features, labels = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 2.0]]), torch.tensor([0, 0, 1])
    terms = supcon_loss(features, labels, temperature=1.0, reduction="none")
    assert torch.allclose(terms, torch.tensor([math.log(2.0), math.log(2.0), 0.0]))


@pytest.mark.parametrize("norm", [1e-3, 30.0])
def test_rows_taken_as_they_are(norm):
    """Long rows leave the range of the fast way, and the loss must notice by itself."""
    features, labels = norm * torch.nn.functional.normalize(draw(8, dtype=torch.float64)), torch.arange(8) % 2
    logits = features @ features.T / 0.1
    terms = []
    for i in range(8):
        others = [j for j in range(8) if j != i]
        positives = [j for j in others if labels[j] == labels[i]]
        terms.append(logits[i, others].logsumexp(0) - logits[i, positives].mean())
    loss = supcon_loss(features.float(), labels, normalize=False)
    assert torch.allclose(loss.double(), torch.stack(terms).mean(), rtol=1e-5)


def test_a_nan_feature_is_not_hidden():
    features = draw(4)
    features[1, 2] = float("nan")
    assert supcon_loss(features, torch.tensor([0, 0, 1, 1])).isnan()


MEMORY = """
import re, torch
from orthoframe import supcon_loss
torch.set_num_threads(1)
def peak():
    # Not ru_maxrss: a child starts with that of the process which started it.
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read()).group(1)) / 1024
labels = torch.arange(64) % 10
small = torch.randn(64, 32, requires_grad=True)
supcon_loss(small, labels, denominator="{denominator}").backward()  # libraries load their code on first use
features = torch.randn({rows}, 32, requires_grad=True)  # pairs take the memory, and products of long rows the time
labels = torch.arange({rows}) % 10
before = peak()
loss = supcon_loss(features, labels, denominator="{denominator}")
loss.backward()
assert features.grad.isfinite().all() and loss.isfinite()
print(peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
@pytest.mark.parametrize(("denominator", "rows"), [("all", 32768), ("sincere", 16384)])
def test_memory_stays_under_one_gibibyte(denominator, rows):
    script = MEMORY.format(denominator=denominator, rows=rows)
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    mebibytes = float(run.stdout)
    gradient = rows * 32 * 4 / 2**20
    assert gradient < mebibytes < 1024  # above the gradient, or the measurement itself is broken
    assert mebibytes < rows * rows * 4 / 2**20 / 2


def test_reference_is_the_formula():
    """The slow version itself, on a case small enough for a pencil: two rows at a right angle to a third."""
    features, labels = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), [0, 0, 1]
    first, second, third = reference.supcon_terms(features, labels, 1.0)
    assert math.isclose(first, math.log(math.e + 1) - 1, rel_tol=1e-6)
    assert math.isclose(second, first, rel_tol=1e-6)
    assert third is None
