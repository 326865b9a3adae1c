"""The head against its formula, its invariances, and the rows that have no direction."""

import math
from typing import get_args

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from orthoframe.encoders import FrameHead, ResNet, is_nonnegative
from orthoframe.options import Activation

ACTIVATIONS = get_args(Activation)

SCALE_FREE = ("relu", "abs", "square", "leaky-relu", "none")
ORTHANT = ("relu", "abs", "square", "softplus")


def draw(rows, dim, seed=0, dtype=torch.float64):
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def by_hand(row, activation):
    """One row, one number at a time."""
    value = {
        "relu": lambda x: max(x, 0.0),
        "abs": abs,
        "square": lambda x: x * x,
        "softplus": lambda x: math.log1p(math.exp(x)),
        "gelu": lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))),
        "leaky-relu": lambda x: x if x > 0 else 0.01 * x,
        "none": lambda x: x,
    }[activation]
    values = [value(x) for x in row]
    norm = math.sqrt(sum(v * v for v in values))
    return [v / norm if norm else 0.0 for v in values]


def tables(largest):
    """Rows of numbers that are zero or clearly not: what is nearly zero is the subject of tests of its own."""
    numbers = st.floats(-largest, largest).filter(lambda x: x == 0 or abs(x) > 1e-3)
    return st.integers(1, 6).flatmap(lambda dim: st.lists(st.lists(numbers, min_size=dim, max_size=dim), min_size=1))


def test_activations_that_lead_to_the_orthant():
    assert tuple(filter(is_nonnegative, ACTIVATIONS)) == ORTHANT


@pytest.mark.parametrize("activation", ACTIVATIONS)
@given(table=tables(3))
def test_equals_the_formula(activation, table):
    features = FrameHead(activation=activation)(torch.tensor(table, dtype=torch.float64))
    expected = torch.tensor([by_hand(row, activation) for row in table], dtype=torch.float64)
    # GELU loses three digits of its sixteen at -3, where 1 + erf is 0.003.
    torch.testing.assert_close(features, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@given(table=tables(1e3))
def test_rows_are_unit_or_zero(activation, table):
    head = FrameHead(activation=activation)
    features = head(torch.tensor(table))
    norms = features.norm(dim=1)
    assert torch.where(norms == 0, 1.0, norms).sub(1).abs().max() < 1e-6  # a few roundings of float32
    assert head.nonnegative == (activation in ORTHANT)
    if head.nonnegative:
        assert features.min() >= 0


@pytest.mark.parametrize("activation", SCALE_FREE)
@given(table=tables(1e3), exponent=st.integers(-8, 15))
def test_length_does_not_matter(activation, table, exponent):
    head = FrameHead(activation=activation)
    rows = torch.tensor(table)
    torch.testing.assert_close(head(rows * 10.0**exponent), head(rows), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradient(activation):
    head = FrameHead(4, 3, activation).double()
    rows = draw(5, 4).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x, w, b: torch.func.functional_call(head, {"linear.weight": w, "linear.bias": b}, (x,)),
        (rows, head.linear.weight, head.linear.bias),
    )
    assert torch.autograd.gradcheck(FrameHead(activation=activation), rows)


def test_linear_layer_comes_first():
    head = FrameHead(4, 7).double()
    rows = draw(5, 4)
    expected = F.normalize(F.relu(rows @ head.linear.weight.T + head.linear.bias))
    torch.testing.assert_close(head(rows), expected)
    assert list(head.state_dict()) == ["linear.weight", "linear.bias"]
    assert not FrameHead().state_dict()


@pytest.mark.parametrize("activation", ["relu", "abs", "square", "gelu", "leaky-relu", "none"])
def test_a_dead_row_stays_zero_and_gets_no_gradient(activation):
    rows = draw(3, 4, dtype=torch.float32).abs()
    rows[1] *= -1 if activation == "relu" else 0
    rows.requires_grad_()
    features = FrameHead(activation=activation)(rows)
    features.sum().backward()
    assert not features[1].any()
    assert not rows.grad[1].any()
    assert rows.grad.isfinite().all()
    assert rows.grad[[0, 2]].any(1).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_half_precision_comes_out_as_float32(activation, dtype):
    rows = (3000 * draw(6, 8)).to(dtype).requires_grad_()  # squares of these leave the range of float16
    features = FrameHead(activation=activation)(rows)
    assert features.dtype == torch.float32
    torch.testing.assert_close(features, FrameHead(activation=activation)(rows.double()).float(), rtol=1e-5, atol=1e-6)
    features[:, 0].sum().backward()
    assert rows.grad.isfinite().all()


def test_squares_that_leave_float32():
    rows = 1e25 * draw(6, 8, dtype=torch.float32)
    torch.testing.assert_close(FrameHead(activation="square")(rows), F.normalize((rows.double() / 1e25) ** 2).float())


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_under_autocast(activation):
    head, rows = FrameHead(8, 6, activation), draw(10, 8, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        features = head(rows)
    assert features.dtype == torch.float32
    assert (features.norm(dim=1) - 1).abs().max() < 1e-6  # unit to the rounding of float32, not of bfloat16
    # Two roundings to 8 bits and a sum of eight.
    assert (features - head(rows)).abs().max() < 0.03
    features[:, 0].sum().backward()
    assert head.linear.weight.grad.any()


# One graph each, run as it is; tests/training/test_runs.py has a network that is compiled to machine code.
COMPILED = [*(("eager", activation) for activation in ACTIVATIONS), ("aot_eager", "square")]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(("backend", "activation"), COMPILED)
def test_compiled(backend, activation):
    torch.compiler.reset()
    head = FrameHead(4, 6, activation)
    rows = draw(5, 4, dtype=torch.float32)
    rows[2] = 0
    features = torch.compile(head, backend=backend, fullgraph=True)(rows)
    torch.testing.assert_close(features, head(rows))
    fast = torch.autograd.grad(features[:, 0].sum(), head.linear.weight)
    torch.testing.assert_close(fast, torch.autograd.grad(head(rows)[:, 0].sum(), head.linear.weight))


def test_the_start_leaves_units_and_rows_alive():
    """Pooled maps of an untrained network have much in common, and a plain layer lets that decide."""
    torch.manual_seed(0)
    steps = torch.arange(20) / 4
    waves = (1 + 4 * torch.rand(128, 2, 1, 1)) * torch.stack(torch.meshgrid(steps, steps, indexing="ij"))
    images = torch.cos(waves.sum(1, keepdim=True) + 6 * torch.rand(128, 1, 1, 1))
    with torch.no_grad():
        maps = ResNet((1, 20, 20), width=8)(images)
        start, plain = FrameHead(64, 64)(maps), F.normalize(F.relu(torch.nn.Linear(64, 64)(maps)))
    assert start.any(1).all()
    assert start.any(0).all()
    assert not plain.any(0).all()
    assert (start @ start.T).mean() < 0.5 < 0.8 < (plain @ plain.T).mean()
    assert FrameHead(1, 3).linear.weight.all()


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_normalisation_before_the_activation(activation):
    head = FrameHead(4, 3, activation, norm="batch").double()
    with torch.no_grad():
        head.norm.weight.copy_(torch.tensor([1.0, 2.0, 0.5]))
        head.norm.bias.copy_(torch.tensor([0.1, -0.2, 0.3]))
    rows = draw(9, 4)

    def normalised(outputs, mean, variance):
        return (outputs - mean) / (variance + 1e-5).sqrt() * head.norm.weight + head.norm.bias

    outputs = rows @ head.linear.weight.T
    mean, variance = outputs.mean(0), outputs.var(0, correction=0)
    expected = [by_hand(row, activation) for row in normalised(outputs, mean, variance).tolist()]
    torch.testing.assert_close(head(rows), torch.tensor(expected, dtype=torch.float64))
    before = head.before_norm(rows)
    torch.testing.assert_close(head(rows), F.normalize(before))
    head.eval()
    with torch.no_grad():
        later = normalised(outputs, head.norm.running_mean, head.norm.running_var)
        torch.testing.assert_close(head(rows), FrameHead(activation=activation)(later))
    assert "activation" in str(head)
    assert "BatchNorm1d" in str(head)


def test_names_of_the_weights_of_a_normalised_head():
    names = ["linear.weight", "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var"]
    assert list(FrameHead(4, 3, norm="batch").state_dict()) == [*names, "norm.num_batches_tracked"]
    torch.manual_seed(0)
    plain = FrameHead(4, 3)
    torch.manual_seed(0)
    assert torch.equal(FrameHead(4, 3, norm="batch").linear.weight, plain.linear.weight)


def test_gradient_of_a_normalised_head():
    head = FrameHead(4, 3, "abs", norm="batch").double()
    names = ["linear.weight", "norm.weight", "norm.bias"]
    weights = [dict(head.named_parameters())[name] for name in names]
    assert torch.autograd.gradcheck(
        lambda x, *values: torch.func.functional_call(head, dict(zip(names, values, strict=True)), (x,)),
        (draw(5, 4).requires_grad_(), *weights),
    )


def test_a_normalised_head_spreads_rows_that_are_nearly_parallel():
    torch.manual_seed(0)
    rows = 10 + 0.1 * torch.rand(64, 16)
    features = FrameHead(16, 32, norm="batch")(rows)
    assert 0.4 < features.gt(0).float().mean() < 0.6
    assert features.any(0).all()
    assert (features @ features.T).mean() < 0.5


def test_a_normalised_head_in_half_precision():
    head, rows = FrameHead(8, 6, norm="batch"), draw(10, 8, dtype=torch.float32)
    expected = head(rows)
    with torch.autocast("cpu", torch.bfloat16):
        features = head(rows)
    assert features.dtype == torch.float32
    # The linear layer rounds inputs and outputs to 8 bits, and the variance of its outputs may be a tenth.
    assert (features - expected).abs().max() < 0.05


def test_printed():
    assert "activation='abs'" in str(FrameHead(4, 2, "abs"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"in_features": 4}, "in_features was given without out_features; give both for a linear layer, or neither"),
        ({"out_features": 4}, "out_features was given without in_features"),
        ({"in_features": 4, "out_features": 0}, "out_features must be at least 1, not 0"),
        ({"norm": "batch"}, "norm='batch' needs a linear layer; give in_features and out_features"),
        ({"in_features": 4, "out_features": 2, "norm": "layer"}, "norm must be one of 'none', 'batch', not 'layer'"),
        ({"activation": "tanh"}, "activation must be one of 'relu', 'abs', .*, 'none', not 'tanh'"),
    ],
)
def test_options_that_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        FrameHead(**options)


def test_rows_that_are_refused():
    with pytest.raises(ValueError, match=r"features must have shape \[rows, dim\], not \[2, 3, 4, 4\]"):
        FrameHead()(torch.zeros(2, 3, 4, 4))
    with pytest.raises(TypeError, match=r"features must be floating point, not torch.int64"):
        FrameHead()(torch.zeros(2, 3, dtype=torch.long))
