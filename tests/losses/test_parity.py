"""The table "Coming from another implementation" of docs/loss.md, line by line."""

import re
from pathlib import Path

import pytest
import torch
from pytorch_metric_learning.losses import SupConLoss as MetricLearningLoss

from orthoframe import supcon_loss

PAGE = Path(__file__).parents[2] / "docs" / "loss.md"
TABLE = dict(re.findall(r"^\| ([^|`]+?) \| `(supcon_loss\(.+)` \|$", PAGE.read_text(), re.MULTILINE))
LABELS = torch.tensor([0, 3, 1, 0, 0, 1, 2, 1])  # 2 and 3 are singletons


def supcontrast(features, labels, t, mode):
    """[samples, views, dim]; zeros count; scaled by t/0.07."""
    views = features.shape[1]
    rows = torch.cat(torch.unbind(features, 1))
    classes = labels.repeat(views)
    anchors = len(labels) if mode == "one" else len(rows)
    logits = rows[:anchors] @ rows.T / t
    other = ~torch.eye(len(rows), dtype=torch.bool)[:anchors]
    same = (classes[:anchors, None] == classes) & other
    log_probability = logits - (logits.exp() * other).sum(1, keepdim=True).log()
    return -(t / 0.07) * ((log_probability * same).sum(1) / same.sum(1).clamp(min=1)).mean()


def stablerep(features, labels, t):
    """A cross-entropy between the uniform distribution over positives and the softmax over other rows."""
    rows = torch.nn.functional.normalize(features)
    logits = (rows @ rows.T / t).fill_diagonal_(-1e9)
    target = (labels[:, None] == labels).to(rows.dtype).fill_diagonal_(0)
    target = target / target.sum(1, keepdim=True).clamp(min=1)
    return -(target * logits.log_softmax(1)).sum(1).mean()


def graf(features, labels, t):
    """Rows without a positive are dropped from the sum, and the sum is divided by all rows."""
    rows = torch.nn.functional.normalize(features)
    total = 0.0
    for i in range(len(rows)):
        others = [j for j in range(len(rows)) if j != i]
        positives = [j for j in others if labels[j] == labels[i]]
        if positives:
            similarities = rows @ rows[i] / t
            total += similarities[others].logsumexp(0) - similarities[positives].mean()
    return total / len(rows)


PEERS = {
    "SupContrast": lambda f, y, t: supcontrast(f, y, t, "all"),
    'SupContrast, contrast_mode="one"': lambda f, y, t: supcontrast(f, y, t, "one"),
    "pytorch-metric-learning": lambda f, y, t: MetricLearningLoss(temperature=t)(f, y),
    "StableRep": stablerep,
    "Graf et al.": graf,
}


def test_every_line_is_tested():
    assert set(TABLE) == set(PEERS)


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("t", [0.07, 0.1, 0.5])
def test_the_line_gives_the_same_number(name, t):
    views, generator = 3, torch.Generator().manual_seed(1)
    shape = (len(LABELS), views, 6) if name.startswith("SupContrast") else (len(LABELS), 6)
    features = torch.randn(shape, generator=generator, dtype=torch.float64)
    features = torch.nn.functional.normalize(features, dim=-1).requires_grad_()
    known = {"supcon_loss": supcon_loss, "features": features, "labels": LABELS, "t": t, "views": views}
    ours, theirs = eval(TABLE[name], known), PEERS[name](features, LABELS, t)
    assert torch.allclose(ours, theirs, rtol=1e-9)
    gradient = torch.autograd.grad(ours, features)[0]
    if not name.startswith("SupContrast"):
        assert torch.allclose(gradient, torch.autograd.grad(theirs, features)[0], rtol=1e-7, atol=1e-9)


def test_where_pytorch_metric_learning_differs():
    """What the page says of it: a batch without negatives gives 0, where the loss is at least log(N - 1)."""
    features = torch.eye(4)
    labels = torch.zeros(4, dtype=torch.long)
    assert MetricLearningLoss(temperature=0.1)(features, labels) == 0
    assert torch.allclose(supcon_loss(features, labels), torch.tensor(3.0).log())
