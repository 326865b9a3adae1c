"""A step reads nothing from a device: on a fake GPU, which has no values, and counted on the CPU; and torch.func."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from orthoframe import FrameLoss, SupConLoss, supcon_loss

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


def options_on(device, options):
    return {**options, "class_weights": torch.rand(3, device=device) + 0.5 if options["class_weights"] else None}


@pytest.mark.parametrize("options", FAMILY)
@pytest.mark.parametrize("compare", ["all", "keys"])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_a_step_on_a_gpu_without_values(options, compare, reduction):
    """Forward and backward on a fake CUDA device: reading a value there raises."""
    with FakeTensorMode():
        features, keys = (torch.empty(n, 4, device="cuda", requires_grad=True) for n in (6, 5))
        labels, key_labels = (torch.empty(n, device="cuda", dtype=torch.int64) for n in (6, 5))
        for temperature in (0.1, torch.empty((), device="cuda", requires_grad=True)):
            given = {"keys": keys, "key_labels": key_labels, "compare": compare, "reduction": reduction}
            loss = supcon_loss(features, labels, temperature=temperature, **given, **options_on("cuda", options))
            loss.sum().backward()
            assert features.grad.device.type == "cuda"
        supcon_loss(features, labels, normalize=False).backward()


def test_modules_on_a_gpu_without_values():
    with FakeTensorMode():
        features, labels = torch.empty(6, 4, device="cuda", requires_grad=True), torch.empty(6, device="cuda").long()
        SupConLoss(margin=0.5)(features, labels).backward()
        FrameLoss(3, 4, supcon=0.3, margin=0.5).to("cuda")(features, labels).backward()


@pytest.mark.parametrize("options", FAMILY)
@pytest.mark.parametrize("normalize", [True, False])
def test_no_value_is_read_in_a_step(options, normalize):
    features = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    labels, reads = torch.tensor([0, 0, 1, 1, 2, 1]), Reads()
    given = options_on("cpu", options)
    with reads:
        supcon_loss(features, labels, normalize=normalize, **given).backward()
        supcon_loss(features, labels, normalize=normalize, reduction="none", **given).sum().backward()
        supcon_loss(features, labels, temperature=torch.tensor(0.1), **given).backward()
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
