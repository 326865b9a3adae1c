"""A step reads nothing from a device: on a fake GPU, which has no values, and counted on the CPU; and torch.func."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from orthoframe import FrameLoss, SupConLoss, supcon_loss
from orthoframe.losses._autograd import _SupConGradients, _SupConTerms, _SupConTotal
from orthoframe.losses._batch import LossInputs, LossSpec

FAMILY = [
    {"denominator": denominator, "margin": margin, "class_weights": weights}
    for denominator in ("all", "sincere", "negatives", "class-average")
    for margin in ((0.0,) if denominator == "negatives" else (0.0, 0.5))
    for weights in (False, True)
]


class Reads(TorchDispatchMode):
    """Counts the values that are read from tensors."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


class Indexing(TorchFunctionMode):
    """Indices and slices by `select` and `narrow`: torch's own indexing asks a device for a guard, also a fake one."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func.__name__ == "__getitem__":
            return taken(*args)
        if func.__name__ == "__setitem__":
            return taken(*args[:2]).zero_().add_(args[2])  # `copy_` asks for the guard, too
        return func(*args, **(kwargs or {}))


def taken(tensor, index):
    dim = 0
    for each in index if isinstance(index, tuple) else (index,):
        if each is None:
            tensor = tensor.unsqueeze(dim)
        elif isinstance(each, int):
            tensor, dim = tensor.select(dim, each), dim - 1
        else:
            start, stop, _ = each.indices(tensor.shape[dim])
            tensor = tensor.narrow(dim, start, stop - start)
        dim += 1
    return tensor


def options_on(device, options):
    return {**options, "class_weights": torch.rand(3, device=device) + 0.5 if options["class_weights"] else None}


@pytest.mark.parametrize("options", FAMILY)
@pytest.mark.parametrize("compare", ["all", "keys"])
def test_a_step_on_a_gpu_without_values(options, compare):
    """On a fake CUDA device reading a value raises. Without CUDA torch records no graph there, so what the backward
    pass computes is called by itself."""
    with FakeTensorMode(), Indexing():
        features, keys = (torch.empty(n, 4, device="cuda") for n in (6, 5))
        labels, key_labels = (torch.empty(n, device="cuda", dtype=torch.int64) for n in (6, 5))
        options_there = {"keys": keys, "key_labels": key_labels, "compare": compare, **options_on("cuda", options)}
        for tau in (0.1, torch.empty((), device="cuda"), torch.empty(6, device="cuda")):
            assert supcon_loss(features, labels, temperature=tau, **options_there).shape == ()
            assert supcon_loss(features, labels, temperature=tau, reduction="none", **options_there).shape == (6,)
            learnt = tau if isinstance(tau, torch.Tensor) else None
            weights = options_there["class_weights"]
            inputs = LossInputs(
                torch.cat([features, keys]), learnt, torch.cat([labels, key_labels]), weights, weights, 6
            )
            spec = LossSpec(None if learnt is not None else tau, options["denominator"], options["margin"], compare)
            spec = spec._replace(key_gradient=True)
            mean, skip, learns = True, True, True
            *_, row_gradient, temperature_gradient = _SupConTotal.forward(*inputs, spec, mean, skip, learns)
            assert row_gradient.shape == (11, 4)
            assert temperature_gradient.shape == ((0,) if learnt is None else learnt.shape)
            values, _, sums = _SupConTerms.forward(*inputs, spec)
            assert _SupConGradients.forward(values, sums, *inputs, spec)[0].shape == (11, 4)


def test_modules_on_a_gpu_without_values():
    with FakeTensorMode(), Indexing():
        features, labels = torch.empty(6, 4, device="cuda"), torch.empty(6, device="cuda").long()
        assert supcon_loss(features, labels, normalize=False).device.type == "cuda"
        assert SupConLoss(margin=0.5)(features, labels).device.type == "cuda"
        with torch.device("cuda"):
            loss = FrameLoss(3, 4, supcon=0.3, margin=0.5)
        assert loss(features, labels).device.type == "cuda"


@pytest.mark.parametrize("options", FAMILY)
@pytest.mark.parametrize("normalize", [True, False])
def test_no_value_is_read_in_a_step(options, normalize):
    features = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    labels, reads = torch.tensor([0, 0, 1, 1, 2, 1]), Reads()
    on_cpu = options_on("cpu", options)
    with reads:
        supcon_loss(features, labels, normalize=normalize, **on_cpu).backward()
        supcon_loss(features, labels, normalize=normalize, reduction="none", **on_cpu).sum().backward()
        supcon_loss(features, labels, temperature=torch.tensor(0.1), **on_cpu).backward()
    assert reads.count == 0


def test_grad_and_vmap_of_torch_func():
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(3, 6, 4, generator=generator, dtype=torch.float64)
    labels = torch.stack([torch.randperm(6, generator=generator) % 2 for _ in range(3)])
    temperatures = torch.tensor([0.1, 0.2, 0.5], dtype=torch.float64)
    for options in ({}, {"margin": 0.4}, {"denominator": "sincere"}, {"reduction": "none"}):

        def loss(rows, targets, tau, options=options):
            return supcon_loss(rows, targets, temperature=tau, **options).sum()

        mapped = torch.func.vmap(torch.func.grad(loss, argnums=(0, 2)))(features, labels, temperatures)
        fixed = torch.func.vmap(torch.func.grad(lambda rows, targets: loss(rows, targets, 0.1)))(features, labels)
        for i in range(3):
            rows, tau = features[i].clone().requires_grad_(), temperatures[i].clone().requires_grad_()
            expected = torch.autograd.grad(loss(rows, labels[i], tau), (rows, tau))
            assert torch.allclose(mapped[0][i], expected[0])
            assert torch.allclose(mapped[1][i], expected[1])
            assert torch.allclose(fixed[i], torch.autograd.grad(loss(rows, labels[i], 0.1), rows)[0])
            assert torch.allclose(torch.func.grad(loss)(features[i], labels[i], 0.1), fixed[i])


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("compare", ["all", "keys"])
def test_backward_through_vmap(reduction, compare):
    """Inside of vmap tensors do not say that they require a gradient; features, keys and temperatures get theirs."""
    generator = torch.Generator().manual_seed(0)
    shapes = ((3, 6, 4), (3, 5, 4), (3,))
    learnt = [torch.rand(shape, generator=generator, dtype=torch.float64).add(0.1).requires_grad_() for shape in shapes]

    def loss(rows, keys, tau):
        options = {"keys": keys, "key_labels": torch.arange(5) % 2, "compare": compare, "reduction": reduction}
        return supcon_loss(rows, torch.arange(6) % 2, temperature=tau, **options).sum()

    for inputs in (learnt, learnt[:2]):
        fixed = () if len(inputs) == 3 else (0.1,)
        mapped = torch.func.vmap(lambda *tensors, fixed=fixed: loss(*tensors, *fixed))(*inputs).sum()
        slow = sum(loss(*each, *fixed) for each in zip(*inputs, strict=True))
        for one, other in zip(torch.autograd.grad(mapped, inputs), torch.autograd.grad(slow, inputs), strict=True):
            assert torch.allclose(one, other)
