"""torch.compile of a function that calls the loss."""

import shutil

import pytest
import torch

from orthoframe import SupConLoss, supcon_loss

COMPILER = shutil.which("g++") or shutil.which("clang++")
BACKENDS = [
    "aot_eager",
    pytest.param("inductor", marks=pytest.mark.skipif(COMPILER is None, reason="inductor needs a C++ compiler")),
]


@pytest.fixture(autouse=True)
def _fresh():
    torch.compiler.reset()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_agrees(backend):
    weights = torch.randn(5, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()

    def step(inputs, labels, keys, denominator):
        features = torch.relu(inputs @ weights)
        key_labels = torch.arange(3)
        return supcon_loss(features, labels, keys=keys, key_labels=key_labels, denominator=denominator)

    compiled = torch.compile(step, backend=backend, fullgraph=True)
    for rows in (12, 20):  # a second size, so that the graph is compiled for any
        inputs = torch.randn(rows, 5, generator=torch.Generator().manual_seed(rows), dtype=torch.float64)
        labels = torch.arange(rows) % 4
        keys = torch.eye(3, 8, dtype=torch.float64).requires_grad_()
        for denominator in ("all", "sincere", "negatives", "class-average"):
            eager, fast = step(inputs, labels, keys, denominator), compiled(inputs, labels, keys, denominator)
            assert torch.allclose(eager, fast, rtol=1e-12)
            for one, other in zip(
                torch.autograd.grad(eager, (weights, keys)), torch.autograd.grad(fast, (weights, keys)), strict=True
            ):
                assert torch.allclose(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
def test_compiled_module_and_bad_batch():
    loss = torch.compile(SupConLoss(singletons="error", temperature=0.005), backend="aot_eager", fullgraph=True)
    features = torch.randn(4, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    labels = torch.tensor([0, 0, 1, 1])
    assert torch.allclose(loss(features, labels), SupConLoss(temperature=0.005)(features, labels))
    with pytest.raises(ValueError, match="class 1 has 1 row"):
        loss(features, torch.tensor([0, 0, 1, 0]))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
def test_compiled_with_a_temperature_that_changes():
    features, labels = torch.randn(4, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 0, 1, 1])
    compiled = torch.compile(
        lambda temperature: supcon_loss(features, labels, temperature=temperature), backend="aot_eager", fullgraph=True
    )
    for temperature in (0.1, 0.2, 0.3):
        assert torch.allclose(compiled(temperature), supcon_loss(features, labels, temperature=temperature))


def test_the_operator_keeps_its_promises():
    """torch's own check of a custom operator: schema, fake shapes, autograd, tracing with dynamic sizes."""
    from orthoframe.losses._autograd import terms_operator

    rows = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    torch.library.opcheck(terms_operator, (rows, torch.tensor([0, 1, 0, 1, 2, 2]), 5, 0.1, "all", True, True, False))
