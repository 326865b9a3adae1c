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
        # The loss is one operator: what surrounds it is compiled to machine code alike for every denominator.
        for denominator in ("all", "sincere", "negatives", "class-average")[: 1 if backend == "inductor" else None]:
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
    rows, tau = (torch.rand(shape, dtype=torch.float64, requires_grad=True) for shape in ((6, 3), (5,)))
    labels, weights = torch.tensor([0, 1, 0, 1, 2, 2]), torch.rand(3, dtype=torch.float64)
    for denominator in ("all", "sincere"):
        for temperatures, temperature in ((None, 0.1), (tau, None)):
            inputs = (rows, temperatures, labels, weights, None, 5)
            spec = (temperature, denominator, 0.5, "all", True, True)
            torch.library.opcheck(torch.ops.orthoframe.supcon_terms, (*inputs, *spec))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
def test_a_temperature_in_a_tensor_is_not_compiled_again():
    features = torch.randn(4, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    labels = torch.tensor([0, 0, 1, 1])
    compiled = torch.compile(
        lambda temperature: supcon_loss(features, labels, temperature=temperature), backend="aot_eager", fullgraph=True
    )
    with torch.compiler.set_stance("default"):
        compiled(torch.tensor(0.1))
    with torch.compiler.set_stance("fail_on_recompile"):
        for step in range(20):
            temperature = torch.tensor(0.1 + step / 50)
            assert torch.allclose(compiled(temperature), supcon_loss(features, labels, temperature=temperature))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
def test_compiled_family_agrees():
    generator = torch.Generator().manual_seed(0)
    features, keys = (torch.randn(n, 5, generator=generator).requires_grad_() for n in (12, 6))
    labels, weights = torch.arange(12) % 3, torch.tensor([1.0, 2.0, 0.5])
    tau = torch.tensor(0.2, requires_grad=True)

    def step(compare, temperature):
        options = {"margin": 0.3, "class_weights": weights, "anchor_weights": weights, "compare": compare}
        return supcon_loss(
            features, labels, keys=keys, key_labels=torch.arange(6) % 3, temperature=temperature, **options
        )

    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    for compare in ("all", "keys"):
        for temperature, learnt in ((0.2, (features, keys)), (tau, (features, keys, tau))):
            one, other = step(compare, temperature), compiled(compare, temperature)
            assert torch.allclose(one, other)
            for a, b in zip(torch.autograd.grad(one, learnt), torch.autograd.grad(other, learnt), strict=True):
                assert torch.allclose(a, b, rtol=1e-4, atol=1e-6)


def test_which_operators_cuda_graphs_may_record():
    """Terms and gradients read no value on a GPU; only the refusal of singletons does."""
    operators = torch.ops.orthoframe
    unsafe = {
        name: torch.Tag.cudagraph_unsafe in getattr(operators, name).default.tags
        for name in ("supcon_terms", "supcon_gradients", "refuse_singletons")
    }
    assert unsafe == {"supcon_terms": False, "supcon_gradients": False, "refuse_singletons": True}


def test_a_label_without_a_weight_is_named_when_compiled():
    loss = torch.compile(SupConLoss(class_weights=[1.0, 1.0]), backend="aot_eager", fullgraph=True)
    with pytest.raises(ValueError, match="label 5 has no weight: class_weights"):
        loss(torch.rand(4, 8), torch.tensor([0, 0, 5, 5]))
