"""The recipe as one module: its loss is that of `orthoframe train`, and it learns what it is for."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from orthoframe import BatchPlan, FrameRecipe, PlanLoader, make_frame
from orthoframe.training import Settings, make_task


def test_the_loss_is_the_formula():
    torch.manual_seed(0)
    recipe = FrameRecipe([6, 3, 1], in_features=5, out_features=7, temperature=0.3, classifier=0.4).double()
    rows, labels = torch.randn(12, 5, dtype=torch.float64), torch.tensor([0, 1, 2] * 4)
    loss = recipe(rows, labels)
    priors = torch.tensor([0.6, 0.3, 0.1]).log()
    cosines = recipe.head(rows) @ make_frame(3, 7, dtype=torch.float64).T
    slow = 0.0
    for i, y in enumerate(labels.tolist()):
        slow -= (cosines[i] / 0.3 + priors).log_softmax(0)[y] / 12
        slow -= 0.4 * (recipe.classifier(rows)[i] + priors).log_softmax(0)[y] / 12
    assert loss.item() == pytest.approx(slow.item(), abs=1e-6)  # the classifier's part is in float32


def test_the_loss_is_that_of_training():
    """With the weights of a run, the recipe gives the loss that the run minimises."""
    settings = Settings.of(data="digits", recipe="accurate", majority=30, model="mlp", features=128, epochs=1)
    task = make_task(settings)
    network, plan = task.network(), task.plan
    recipe = FrameRecipe(plan.shares(), task.encoder.backbone.out_features)
    recipe.head.load_state_dict(network.encoder.head.state_dict())
    recipe.classifier.load_state_dict(network.classifier.state_dict())
    batch = torch.from_numpy(plan.batches(0)[0])
    pixels, labels = task.normaliser(task.train.pixels[batch]), task.train.labels[batch]
    backbone, criterion = copy.deepcopy(network.encoder.backbone), task.criterion(torch.device("cpu"), 1)
    criterion.set_epoch(0)
    outputs = network(pixels)
    expected = criterion.minimised(criterion.loss(outputs, labels, len(batch)), outputs, labels, len(batch))
    assert recipe(backbone(pixels), labels).item() == pytest.approx(expected.item(), rel=1e-6)


def test_it_learns_small_classes_and_approaches_the_frame():
    torch.manual_seed(0)
    labels = torch.tensor([0] * 200 + [1] * 40 + [2] * 8)
    centres = 2 * torch.eye(3, 16)
    rows = centres[labels] + 0.3 * torch.randn(248, 16)
    plan = BatchPlan(labels.numpy(), batch_size=32, scheme="weighted", binding="none")
    backbone, recipe = nn.Sequential(nn.Linear(16, 64), nn.ReLU()), FrameRecipe(plan.shares(), 64)
    optimizer = torch.optim.SGD([*backbone.parameters(), *recipe.parameters()], lr=0.05, momentum=0.9)
    for _ in range(20):
        for batch, batch_labels in PlanLoader(torch.utils.data.TensorDataset(rows, labels), plan):
            optimizer.zero_grad()
            recipe(backbone(batch), batch_labels).backward()
            optimizer.step()
    recipe.eval()
    fresh = torch.arange(3).repeat_interleave(50)
    features = backbone(centres[fresh] + 0.3 * torch.randn(150, 16))
    right = recipe.predict(features) == fresh
    assert all(right[fresh == c].float().mean() > 0.95 for c in range(3))
    means = torch.stack([F.normalize(recipe.head(features)[fresh == c].mean(0), dim=0) for c in range(3)])
    assert (means @ means.T - torch.eye(3)).abs().max() < 0.2


def test_the_adjustment_helps_small_classes():
    recipe = FrameRecipe([90, 10], in_features=2)
    with torch.no_grad():
        recipe.classifier.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
        recipe.classifier.bias.zero_()
    rows = torch.tensor([[0.9, 0.1], [0.8, 0.3], [0.7, 0.2], [0.5, 0.6], [0.6, 0.5], [0.4, 0.5]])
    labels = torch.tensor([0, 0, 0, 1, 1, 1])
    before = (recipe.predict(rows) == labels).sum()
    assert recipe.fit_adjust(rows, labels) > 0
    assert (recipe.predict(rows) == labels).sum() > before
    assert recipe.state_dict()["adjust"] > 0


def test_rows_in_half_precision():
    recipe, rows, labels = FrameRecipe([2, 1], in_features=4), torch.rand(6, 4), torch.tensor([0, 0, 0, 0, 1, 1])
    expected = recipe(rows.half().float(), labels)
    assert torch.equal(recipe(rows.half(), labels), expected)


def test_bad_input():
    with pytest.raises(ValueError, match="shares must be positive"):
        FrameRecipe([1, 0], in_features=2)
    with pytest.raises(ValueError, match="two classes or more, not 1"):
        FrameRecipe([1], in_features=2)
    recipe = FrameRecipe([1, 2], in_features=2)
    with pytest.raises(ValueError, match=r"\[rows, 2\], as in_features says"):
        recipe(torch.rand(4, 3), torch.tensor([0, 1, 0, 1]))
    for labels in ([], [1, 1, 1]):
        with pytest.raises(ValueError, match="validation rows must be of two classes"):
            recipe.fit_adjust(torch.rand(len(labels), 2), torch.tensor(labels, dtype=torch.int64))
