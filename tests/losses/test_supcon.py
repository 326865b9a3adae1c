"""The loss against the triple loop, on any label multiset."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import reference
from orthoframe import supcon_loss
from orthoframe.losses import _symmetric, _terms

DENOMINATORS = ["all", "sincere", "negatives", "class-average"]
MULTISETS = [
    [0, 0, 1, 1],
    [5, -3, 5, 9, 9, 9, 2],
    [0, 0, 0],
    [1, 2, 3],
    [4],
    [],
    [0] * 9 + [1] * 2 + [2],
]


def draw(rows, dim=5, seed=0, dtype=torch.float64):
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed), dtype=dtype).requires_grad_()


def value_and_gradient(function, *inputs):
    value = function()
    return value.detach(), torch.autograd.grad(value, inputs)


def assert_agrees(labels, denominator, temperature, key_labels=(), **options):
    """Values and gradients equal those of the loop to 1e-12, relative to their size."""
    features, keys = draw(len(labels)), draw(len(key_labels), seed=1)
    extra = {"keys": keys, "key_labels": torch.tensor(key_labels, dtype=torch.long)} if len(key_labels) else {}
    inputs = (features, keys) if extra else (features,)
    labels = torch.tensor(labels, dtype=torch.long)
    options = {"temperature": temperature, "denominator": denominator, **options}
    value, gradients = value_and_gradient(lambda: supcon_loss(features, labels, **extra, **options), *inputs)
    expected, slow = value_and_gradient(
        lambda: reference.supcon_loss(features, labels, **extra, **options) + 0.0 * keys.sum(), *inputs
    )
    assert value.shape == expected.shape
    assert torch.allclose(value, expected, rtol=1e-12, atol=1e-12)
    for gradient, other in zip(gradients, slow, strict=True):
        assert torch.allclose(gradient, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("denominator", DENOMINATORS)
@pytest.mark.parametrize("labels", MULTISETS, ids=str)
@pytest.mark.parametrize("temperature", [0.1, 1.0])
@pytest.mark.parametrize("singletons", ["skip", "count"])
def test_equals_the_triple_loop(labels, denominator, temperature, singletons):
    assert_agrees(labels, denominator, temperature, singletons=singletons)
    assert_agrees(labels, denominator, temperature, key_labels=[0, 1, 9, 9], singletons=singletons)


@pytest.mark.parametrize("denominator", DENOMINATORS)
def test_terms_of_each_row(denominator):
    features, labels = draw(7), torch.tensor([0, 1, 0, 2, 1, 1, 3])
    terms = supcon_loss(features, labels, denominator=denominator, reduction="none")
    expected = reference.supcon_loss(features, labels, denominator=denominator, reduction="none")
    assert torch.allclose(terms, expected, rtol=1e-12, atol=1e-12)
    assert terms[3] == 0
    assert terms[6] == 0
    # Unequal weights take another way through the backward pass than a mean does.
    weights = torch.arange(7.0, dtype=torch.float64)
    gradient = torch.autograd.grad(terms @ weights, features)[0]
    slow = torch.autograd.grad(expected @ weights, features)[0]
    assert torch.allclose(gradient, slow, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("denominator", DENOMINATORS)
@pytest.mark.parametrize("temperature", [0.1, 0.001])  # 0.001 takes the way with subtracted maxima
@pytest.mark.parametrize("normalize", [True, False])
def test_gradcheck(denominator, temperature, normalize):
    labels, key_labels = torch.tensor([0, 1, 0, 1, 1, 2]), torch.tensor([2, 0, 3])
    # Almost collapsed rows, so that derivatives at temperature 0.001 are finite differences of something smooth.
    spread = 1.0 if temperature > 0.01 else 1e-3
    features = (1.0 + spread * draw(6, dim=4).detach()).requires_grad_()
    keys = (1.0 + spread * draw(3, dim=4, seed=2).detach()).requires_grad_()

    def loss(features, keys):
        return supcon_loss(
            features,
            labels,
            keys=keys,
            key_labels=key_labels,
            temperature=temperature,
            denominator=denominator,
            normalize=normalize,
        )

    # Second derivatives scale as 1/tau^2, and so does the error of a finite difference.
    assert torch.autograd.gradcheck(loss, (features, keys), eps=1e-7, atol=1e-5 * max(1.0, (0.01 / temperature) ** 2))


@pytest.mark.parametrize("denominator", DENOMINATORS)
@pytest.mark.parametrize("labels", [[], [3], [0, 1, 2]], ids=str)
def test_nothing_to_learn_is_zero_and_attached(labels, denominator):
    features = draw(len(labels))
    loss = supcon_loss(features, torch.tensor(labels, dtype=torch.long), denominator=denominator)
    assert loss == 0
    assert loss.requires_grad
    loss.backward()
    assert torch.equal(features.grad, torch.zeros_like(features))


def test_one_class_has_no_negatives():
    features = draw(4)
    loss = supcon_loss(features, torch.zeros(4, dtype=torch.long), denominator="negatives")
    loss.backward()
    assert loss == 0
    assert torch.equal(features.grad, torch.zeros_like(features))
    with pytest.raises(ValueError, match="every row of the batch is of class 0"):
        supcon_loss(features, torch.zeros(4, dtype=torch.long), denominator="negatives", singletons="error")


def test_singletons_error_names_class_and_position():
    with pytest.raises(ValueError, match=r"class 7 has 1 row in the batch \(position 2\)"):
        supcon_loss(draw(4), torch.tensor([1, 1, 7, 1]), singletons="error")
    supcon_loss(draw(4), torch.tensor([1, 1, 1, 1]), singletons="error")
    supcon_loss(
        draw(1), torch.tensor([1]), keys=draw(1), key_labels=torch.tensor([1]), singletons="error"
    )  # the key is its positive


@given(labels=st.lists(st.integers(0, 3), min_size=2, max_size=12), seed=st.integers(0, 99))
def test_invariances(labels, seed):
    labels, features = torch.tensor(labels), draw(len(labels), seed=seed).detach()
    loss = supcon_loss(features, labels)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    rotation = torch.linalg.qr(draw(5, seed=seed + 100).detach())[0]
    for other, name in [
        (supcon_loss(features[order], labels[order]), "order"),
        (supcon_loss(features, 17 - 3 * labels), "names of classes"),
        (supcon_loss(features * torch.arange(1.0, 1.0 + len(labels))[:, None], labels), "length of rows"),
        (supcon_loss(features @ rotation, labels), "rotation"),
        (supcon_loss(features, labels.to(torch.int8)), "dtype of labels"),
        (supcon_loss(features, labels, keys=features[:0], key_labels=labels[:0]), "no keys"),
    ]:
        assert torch.allclose(loss, other, rtol=1e-10), name


@pytest.mark.parametrize("denominator", DENOMINATORS)
def test_detached_keys_get_no_gradient_and_change_none(denominator):
    labels, key_labels = torch.tensor([0, 0, 1, 2]), torch.tensor([1, 2, 2])
    results = []
    for learn in (True, False):
        features, keys = draw(4), draw(3, seed=5).detach().requires_grad_(learn)
        supcon_loss(features, labels, keys=keys, key_labels=key_labels, denominator=denominator).backward()
        results.append(features.grad)
        assert (keys.grad is not None) == learn
    assert torch.allclose(*results, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("kept", [0, 3000, 2**30])
@pytest.mark.parametrize("tile", [7, 16, 1024])
def test_tiles_change_nothing(kept, tile, monkeypatch):
    features, keys = draw(50), draw(21, seed=1)
    labels, key_labels = torch.arange(50) % 4, torch.arange(21) % 3

    def result():
        return value_and_gradient(
            lambda: supcon_loss(features, labels, keys=keys, key_labels=key_labels), features, keys
        )

    expected = result()
    monkeypatch.setattr(_symmetric, "TILE", tile)
    monkeypatch.setattr(_symmetric, "KEEP_BYTES", kept)
    for one, other in zip(
        torch.utils._pytree.tree_leaves(result()), torch.utils._pytree.tree_leaves(expected), strict=True
    ):
        assert torch.allclose(one, other, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("denominator", DENOMINATORS)
@pytest.mark.parametrize("block", [1, 100, 2**22])
def test_blocks_change_nothing(denominator, block, monkeypatch):
    features, labels = draw(30), torch.arange(30) % 4
    expected = value_and_gradient(lambda: supcon_loss(features, labels, denominator=denominator), features)
    monkeypatch.setattr(_symmetric, "is_symmetric", lambda *_: False)
    monkeypatch.setattr(_terms, "BLOCK", block)
    value, (gradient,) = value_and_gradient(lambda: supcon_loss(features, labels, denominator=denominator), features)
    assert torch.allclose(value, expected[0], rtol=1e-12)
    assert torch.allclose(gradient, expected[1][0], rtol=1e-11, atol=1e-13)


def test_backward_twice_with_retained_graph():
    features, labels = draw(8), torch.arange(8) % 2
    loss = supcon_loss(features, labels)
    first = torch.autograd.grad(loss, features, retain_graph=True)[0]
    assert torch.equal(first, torch.autograd.grad(loss, features)[0])


def test_a_second_derivative_is_refused():
    features = draw(4)
    loss = supcon_loss(features, torch.tensor([0, 0, 1, 1]))
    (gradient,) = torch.autograd.grad(loss, features, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(gradient.sum(), features)
    each = supcon_loss(features, torch.tensor([0, 0, 1, 1]), reduction="none")
    (gradient,) = torch.autograd.grad(each.sum(), features, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivative"):
        gradient.sum().backward()
