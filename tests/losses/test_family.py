"""Margins, weights, keys alone and temperatures as tensors: every member of the family against the obvious loops."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from orthoframe import SupConLoss, supcon_loss
from orthoframe.losses import _symmetric, _terms

DENOMINATORS = ("all", "sincere", "negatives", "class-average")


@st.composite
def cases(draw):
    """Features, labels and options, such that singletons, single classes and keys without a class occur."""
    rows, keys, k = draw(st.integers(1, 9)), draw(st.integers(0, 5)), draw(st.integers(1, 4))
    labels = draw(st.lists(st.integers(0, k - 1), min_size=rows + keys, max_size=rows + keys))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    drawn = torch.randn(rows + keys, 3, generator=generator, dtype=torch.float64)
    options = {
        "denominator": draw(st.sampled_from(DENOMINATORS)),
        "temperature": draw(st.sampled_from([0.1, 0.5, 2.0])),
    }
    if options["denominator"] != "negatives":
        options["margin"] = draw(st.sampled_from([0.0, 0.5, -0.3]))
    for name in ("class_weights", "anchor_weights"):
        if draw(st.booleans()):
            options[name] = torch.rand(4, generator=generator, dtype=torch.float64) * 3 + 0.1
    if keys:
        options |= {"keys": drawn[rows:].clone(), "key_labels": torch.tensor(labels[rows:])}
        options["compare"] = draw(st.sampled_from(["all", "keys"]))
    return drawn[:rows].clone(), torch.tensor(labels[:rows]), options


def gradients(loss, features, labels, options, **more):
    """Value, and gradients with respect to features and keys."""
    learnt = {"features": features.clone().requires_grad_()}
    if "keys" in options:
        learnt["keys"] = options["keys"].clone().requires_grad_()
    value = loss(
        learnt["features"], labels, **{**options, **{n: v for n, v in learnt.items() if n != "features"}}, **more
    )
    weights = torch.linspace(1, 2, value.numel(), dtype=torch.float64).view(value.shape)
    grads = torch.autograd.grad(
        (value * weights).sum(), list(learnt.values()), allow_unused=True, materialize_grads=True
    )
    return value.detach(), *grads


def agree(results, expected):
    for one, other in zip(results, expected, strict=True):
        assert torch.allclose(one, other, rtol=1e-9, atol=1e-11)


@settings(deadline=None, max_examples=150)
@given(
    cases(), st.sampled_from(["mean", "sum", "none"]), st.sampled_from(["skip", "count"]), st.sampled_from([2, 1024])
)
def test_equals_the_loops(case, reduction, singletons, tile):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_symmetric, "TILE", tile)
        more = {"reduction": reduction, "singletons": singletons}
        agree(gradients(supcon_loss, *case, **more), gradients(reference.supcon_loss, *case, **more))


@settings(deadline=None, max_examples=100)
@given(cases(), st.sampled_from(["mean", "none"]))
def test_the_general_way_equals_the_loops(case, reduction):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_symmetric, "is_symmetric", lambda *_: False)
        patch.setattr(_terms, "BLOCK", 16)
        agree(
            gradients(supcon_loss, *case, reduction=reduction),
            gradients(reference.supcon_loss, *case, reduction=reduction),
        )


@settings(deadline=None, max_examples=100)
@given(cases(), st.booleans(), st.sampled_from(["mean", "none"]))
def test_temperatures_as_tensors(case, each, reduction):
    """One for all anchors or one for each, with gradients; the loops take one anchor at a time."""
    features, labels, options = case
    options = {**options, "singletons": "count"} if reduction == "mean" else options
    tau = torch.tensor(options.pop("temperature"), dtype=torch.float64)
    if each:
        tau = tau * torch.linspace(0.8, 1.2, len(features), dtype=torch.float64)
    learnt, expected = tau.clone().requires_grad_(), tau.clone().requires_grad_()
    value = supcon_loss(features, labels, temperature=learnt, reduction=reduction, **options)

    rest = {name: value for name, value in options.items() if name != "singletons"}
    terms = [
        reference.supcon_loss(features, labels, temperature=t, reduction="none", **rest)[i]
        for i, t in enumerate(expected.expand(len(features)))
    ]
    slow = torch.stack(terms)
    if reduction == "mean":
        weights = options.get("anchor_weights", torch.ones(4, dtype=torch.float64))[labels]
        slow = slow.sum() / weights.sum()
    assert torch.allclose(value, slow, rtol=1e-10, atol=1e-12)
    fast_gradient, slow_gradient = (
        torch.autograd.grad(result.sum() + 0 * t.sum(), t)[0] for result, t in ((value, learnt), (slow, expected))
    )
    assert torch.allclose(fast_gradient, slow_gradient, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("denominator", DENOMINATORS)
@pytest.mark.parametrize("normalize", [True, False])
def test_gradcheck(denominator, normalize):
    generator = torch.Generator().manual_seed(0)
    features, keys = (torch.randn(n, 3, generator=generator, dtype=torch.float64, requires_grad=True) for n in (6, 3))
    tau = torch.tensor(0.6, dtype=torch.float64, requires_grad=True)
    options = {"denominator": denominator, "margin": 0.0 if denominator == "negatives" else 0.4, "normalize": normalize}

    def loss(features, keys, tau):
        labels, key_labels = torch.tensor([0, 0, 1, 1, 2, 0]), torch.tensor([0, 1, 2])
        weights = torch.tensor([1.0, 3.0, 0.2], dtype=torch.float64)
        return supcon_loss(
            features, labels, keys=keys, key_labels=key_labels, temperature=tau, class_weights=weights, **options
        )

    assert torch.autograd.gradcheck(loss, (features, keys, tau))


def test_the_two_ways_agree_at_tile_borders():
    """Classes across the borders of tiles, keys in several tiles, and more classes than rows of a tile."""
    generator = torch.Generator().manual_seed(1)
    features, keys = torch.randn(53, 5, generator=generator), torch.randn(31, 5, generator=generator)
    for k in (2, 7, 40):
        labels, key_labels = (torch.randint(k, (n,), generator=generator) for n in (53, 31))
        weights = torch.rand(k, generator=generator) + 0.5
        for denominator in DENOMINATORS:
            for compare in ("all", "keys"):
                options = {"denominator": denominator, "class_weights": weights, "compare": compare, "keys": keys}
                options |= {"key_labels": key_labels, "margin": 0.0 if denominator == "negatives" else 0.5}
                for tile in (8, 1024):
                    with pytest.MonkeyPatch.context() as patch:
                        patch.setattr(_symmetric, "TILE", tile)
                        fast = gradients(supcon_loss, features, labels, options)
                        patch.setattr(_symmetric, "is_symmetric", lambda *_: False)
                        safe = gradients(supcon_loss, features, labels, options)
                    for one, other in zip(fast, safe, strict=True):
                        assert torch.allclose(one, other, rtol=1e-4, atol=2e-6)  # float32


def test_a_margin_is_a_weight_of_the_own_class():
    """A margin m multiplies the exponentials of positives by e^(-m/tau), and adds the constant m/tau."""
    features = torch.randn(6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels, tau, margin = torch.tensor([0, 0, 0, 0, 0, 1]), 0.2, 0.3
    plain = supcon_loss(features, labels, temperature=tau, margin=margin)
    weighted = supcon_loss(features, labels, temperature=tau, class_weights=[math.exp(-margin / tau), 1.0])
    assert torch.allclose(plain, weighted + margin / tau)


def test_many_classes_of_two_rows():
    labels = torch.arange(600) // 2
    features = torch.randn(600, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for denominator in ("sincere", "class-average"):
        options = {"denominator": denominator, "margin": 0.2}
        fast = supcon_loss(features, labels, temperature=0.1, **options)
        slow = supcon_loss(features, labels, temperature=torch.tensor(0.1, dtype=torch.float64), **options)
        assert torch.allclose(fast, slow, rtol=1e-12)


def test_module_has_the_options_of_the_function():
    features = torch.randn(8, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels, weights = torch.arange(8) % 3, [1.0, 2.0, 0.5]
    keys, key_labels = torch.eye(3, 4, dtype=torch.float64), torch.arange(3)
    options = {
        "margin": 0.3,
        "class_weights": weights,
        "anchor_weights": weights,
        "compare": "keys",
        "reduction": "sum",
    }
    loss = SupConLoss(0.2, "class-average", **options)
    expected = supcon_loss(
        features, labels, keys=keys, key_labels=key_labels, temperature=0.2, denominator="class-average", **options
    )
    assert torch.equal(loss(features, labels, keys, key_labels), expected)
    assert set(loss.state_dict()) == {"class_weights", "anchor_weights"}
    assert "margin=0.3" in repr(loss)
    assert "compare='keys'" in repr(loss)


def test_a_learnable_temperature_of_a_module():
    loss = SupConLoss(torch.nn.Parameter(torch.tensor(0.1)))
    features = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
    loss(features, torch.arange(8) % 2).backward()
    (temperature,) = loss.parameters()
    assert temperature.grad is not None
    assert temperature.grad != 0


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"margin": 0.5, "denominator": "negatives"}, ValueError, "would only add a constant"),
        ({"margin": math.nan}, ValueError, "margin must be"),
        ({"compare": "rows"}, ValueError, "compare must be one of 'all', 'keys'"),
        ({"compare": "keys"}, ValueError, "give keys and key_labels"),
        ({"class_weights": [1.0, 0.0]}, ValueError, "class_weights must be from 1e-06 to 1e"),
        ({"class_weights": [1.0, math.nan]}, ValueError, "class_weights must be from"),
        ({"anchor_weights": torch.tensor([1.0, -1.0])}, ValueError, "anchor_weights must be from"),
        ({"class_weights": torch.tensor([1, 2])}, ValueError, "floating-point"),
        ({"class_weights": [[1.0, 2.0]]}, ValueError, "one per class"),
        (
            {"class_weights": [1.0]},
            ValueError,
            "label 1 has no weight: class_weights has one for each of the labels 0 to 0",
        ),
        ({"anchor_weights": [1.0]}, ValueError, "label 1 has no weight: anchor_weights"),
        ({"temperature": torch.ones(3)}, ValueError, r"must be a number, a tensor with one value, or have shape \[4\]"),
    ],
)
def test_errors(options, error, message):
    features, labels = torch.eye(4), torch.tensor([0, 0, 1, 1])
    with pytest.raises(error, match=message):
        supcon_loss(features, labels, **options)


def test_a_class_without_a_key():
    features, labels = torch.eye(4), torch.tensor([0, 0, 1, 1])
    with pytest.raises(ValueError, match=r"class 1 \(position 2\) has no key"):
        supcon_loss(features, labels, keys=torch.eye(4), key_labels=[0, 0, 2, 2], compare="keys", singletons="error")
