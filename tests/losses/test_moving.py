"""The table of docs/moving.md, line by line, against formulas written from definitions; and the reasons it gives."""

import math
import re
from pathlib import Path

import pytest
import torch
from pytorch_metric_learning import losses as metric_learning

from orthoframe import supcon_loss
from orthoframe.losses import decay_rate

PAGE = Path(__file__).parents[2] / "docs" / "moving.md"
TABLE = dict(re.findall(r"^\| ([^|`]+?) \| `(.*supcon_loss\(.+)` \|$", PAGE.read_text(), re.MULTILINE))
LABELS = torch.tensor([0, 3, 1, 0, 0, 1, 2, 1])  # 2 and 3 are singletons
PAIRED = torch.tensor([0, 3, 1, 0, 0, 3, 2, 1, 2])  # none is
VIEWS, CLASSES, EPSILON = 3, torch.arange(4), 0.25
OLDER, QUEUED = torch.tensor([1, 0, 3, 2, 2]), torch.arange(10) % 4
MASK = torch.tensor([False, True, False, False, True, False, True, False, False])


def unit(rows):
    return torch.nn.functional.normalize(rows, dim=-1)


def log_probability(anchor, others, t):
    """Logits of one anchor, minus the logarithm of the sum of their exponentials."""
    logits = others @ anchor / t
    return logits - logits.logsumexp(0)


def against(anchors, labels, rows, row_labels, t, places=None):
    """L_out of anchors against rows, one anchor at a time; row `places[i]` is anchor i or its copy, and left out."""
    terms = []
    for i, anchor in enumerate(anchors):
        keep = torch.arange(len(rows)) != (-1 if places is None else places[i])
        same = row_labels[keep] == labels[i]
        log_p = log_probability(anchor, rows[keep], t)
        terms.append(-log_p[same].mean() if same.any() else anchor.sum() * 0)
    return torch.stack(terms).mean()


def rows_of(features, labels):
    """[samples, views, dim], view by view."""
    return torch.cat(features.unbind(1)), labels.repeat(features.shape[1])


def supcontrast(features, labels, t, anchors=None):
    """Rows as they are; zeros count; scaled by t/0.07."""
    rows, classes = rows_of(features, labels)
    return t / 0.07 * against(rows[:anchors], classes[:anchors], rows, classes, t, range(len(rows)))


def stablerep(features, labels, t):
    """A cross-entropy between the uniform distribution over positives and the softmax over other rows."""
    rows = unit(features)
    logits = (rows @ rows.T / t).fill_diagonal_(-1e9)
    target = (labels[:, None] == labels).to(rows.dtype).fill_diagonal_(0)
    target = target / target.sum(1, keepdim=True).clamp(min=1)
    return -(target * logits.log_softmax(1)).sum(1).mean()


def graf(features, labels, t):
    """Rows without a positive are dropped from the sum, and the sum is divided by all rows."""
    rows = unit(features)
    total = 0.0
    for i in range(len(rows)):
        others = [j for j in range(len(rows)) if j != i]
        positives = [j for j in others if labels[j] == labels[i]]
        if positives:
            similarities = rows @ rows[i] / t
            total += similarities[others].logsumexp(0) - similarities[positives].mean()
    return total / len(rows)


def pairwise(rows, labels, t, denominator, taken=0.0):
    """Mean over anchors, then positives, of -log(e^s/D): D sums over negatives, and has e^(s - taken) if that is in."""
    terms = []
    for i in range(len(rows)):
        logits = rows @ rows[i] / t
        negatives = logits[labels != labels[i]].exp().sum()
        positives = [logits[j] for j in range(len(rows)) if j != i and labels[j] == labels[i]]
        included = [(s - taken).exp() if denominator == "one positive" else 0.0 for s in positives]
        terms.append(sum((negatives + e).log() - s for s, e in zip(positives, included, strict=True)) / len(positives))
    return torch.stack(terms).mean()


def inside(features, labels, t):
    """The logarithm of the part that the positives have of all exponentials."""
    exponentials = (unit(features) @ unit(features).T / t).exp()
    same = labels[:, None] == labels
    positives = (exponentials * (same & ~torch.eye(len(labels), dtype=torch.bool))).sum(1)
    return -(positives / (positives + (exponentials * ~same).sum(1))).log().mean()


def balanced(features, labels, centres, t):
    """Exponentials divided by the rows of their class, centres counted, the anchor not."""
    rows, classes = rows_of(features, labels)
    everything, all_classes = torch.cat([rows, centres]), torch.cat([classes, CLASSES])
    terms = []
    for i in range(len(rows)):
        logits, others = everything @ rows[i] / t, [j for j in range(len(everything)) if j != i]
        sizes = {c: sum(int(all_classes[j]) == c for j in others) for c in range(len(CLASSES))}
        total = sum(logits[j].exp() / sizes[int(all_classes[j])] for j in others)
        positives = [j for j in others if all_classes[j] == classes[i]]
        terms.append(total.log() - logits[positives].mean())
    return torch.stack(terms).mean()


def clip(images, texts, t):
    logits, target = unit(images) @ unit(texts).T / t, torch.arange(len(images))
    entropy = torch.nn.functional.cross_entropy
    return (entropy(logits, target) + entropy(logits.T, target)) / 2


def moco(queries, keys, queue, t):
    """The own key is the first of the logits, and the queue the others."""
    logits = torch.cat([(queries * keys).sum(1, keepdim=True), queries @ queue.T], 1) / t
    return torch.nn.functional.cross_entropy(logits, torch.zeros(len(queries), dtype=torch.long))


def paco(queries, keys, labels, queue, centres, t, alpha=1.0, beta=1.0):
    """Positives weigh alpha, and the centre of the class beta."""
    rows = torch.cat([queries, keys, queue, centres])
    classes = torch.cat([labels, labels[: len(keys)], QUEUED[: len(queue)], CLASSES[: len(centres)]])
    weights = torch.full((len(rows),), alpha, dtype=rows.dtype)
    weights[-len(centres) :] = beta
    terms = []
    for i in range(len(queries)):
        keep = torch.arange(len(rows)) != i
        targets = weights[keep] * (classes[keep] == labels[i])
        terms.append(-(targets * log_probability(queries[i], rows[keep], t)).sum() / targets.sum())
    return torch.stack(terms).mean()


def memorized(features, labels, older, t, mask=None):
    memory = metric_learning.CrossBatchMemory(metric_learning.SupConLoss(temperature=t), 6, memory_size=100)
    memory(older, OLDER)
    return memory(features, labels, enqueue_mask=mask)


def memory_of(features, labels, older, mask=None):
    """What the memory holds then, and which row of the batch it is."""
    mask = torch.ones(len(labels), dtype=torch.bool) if mask is None else mask
    place = torch.cat([torch.full((len(older),), -1), torch.arange(len(labels))[mask]])
    memory = torch.cat([older, features[mask]]).detach()
    return {"memory": memory, "memory_labels": torch.cat([OLDER, labels[mask]]), "place": place}


def case(shapes, names, peer, labels=LABELS, length=None, more=None):
    """Tensors to draw, unit if `length` is "unit"; the method; the labels; and what else the line names."""
    return {"shapes": shapes, "names": names, "peer": peer, "labels": labels, "length": length, "more": more}


N, P = len(LABELS), len(PAIRED)
VIEWED, ROWS, FREE = [(N, VIEWS, 6)], [(N, 6)], [(P, 6)]
PEERS = {
    "SupContrast": case(VIEWED, "features", supcontrast, length="unit"),
    'SupContrast, contrast_mode="one"': case(
        VIEWED, "features", lambda f, y, t: supcontrast(f, y, t, len(y)), length="unit"
    ),
    "SupContrast, rows that are not unit": case(VIEWED, "features", supcontrast),
    "pytorch-metric-learning, SupConLoss": case(
        ROWS, "features", lambda f, y, t: metric_learning.SupConLoss(temperature=t)(f, y)
    ),
    "pytorch-metric-learning, ref_emb": case(
        [*ROWS, (10, 6)],
        "features ref_emb",
        lambda f, r, y, t: metric_learning.SupConLoss(temperature=t)(f, y, ref_emb=r, ref_labels=QUEUED),
        more=lambda *_: {"ref_labels": QUEUED},
    ),
    "pytorch-metric-learning, CrossBatchMemory with enqueue_mask": case(
        [*FREE, (5, 6)],
        "features older",
        lambda f, older, y, t: memorized(f, y, older, t, MASK),
        PAIRED,
        more=lambda f, older: {"mask": MASK, **memory_of(f, PAIRED, older, MASK)},
    ),
    "pytorch-metric-learning, CrossBatchMemory": case(
        [*FREE, (5, 6)],
        "features older",
        lambda f, older, y, t: memorized(f, y, older, t),
        PAIRED,
        more=lambda f, older: memory_of(f, PAIRED, older),
    ),
    "pytorch-metric-learning, NTXentLoss, classes of equal size": case(
        ROWS, "features", lambda f, y, t: metric_learning.NTXentLoss(temperature=t)(f, y), torch.arange(N) % 4
    ),
    "StableRep": case(ROWS, "features", stablerep),
    "Graf et al.": case(ROWS, "features", graf),
    "google-research": case(VIEWED, "features", lambda f, y, t: 0.07 * supcontrast(f, y, t), length="unit"),
    "google-research, ONE_POSITIVE": case(
        VIEWED, "features", lambda f, y, t: t * pairwise(*rows_of(f, y), t, "one positive"), length="unit"
    ),
    "google-research, ONLY_NEGATIVES": case(
        VIEWED, "features", lambda f, y, t: t * pairwise(*rows_of(f, y), t, "only negatives"), length="unit"
    ),
    "solo-learn (L_in)": case(FREE, "features", inside, PAIRED),
    "BCL, its balanced contrastive part": case(
        [(N, VIEWS, 6), (4, 6)], "features centres", lambda f, c, y, t: balanced(f, y, c, t), length="unit"
    ),
    "SINCERE": case(FREE, "features", lambda f, y, t: pairwise(unit(f), y, t, "one positive"), PAIRED),
    "epsilon-SupInfoNCE": case(
        FREE, "features", lambda f, y, t: pairwise(unit(f), y, t, "one positive", EPSILON), PAIRED
    ),
    "InfoNCE, SimCLR": case(
        VIEWED, "features", lambda f, y, t: supcontrast(f, torch.arange(N), t) * 0.07 / t, length="unit"
    ),
    "CLIP": case([(N, 6), (N, 6)], "images texts", lambda a, b, y, t: clip(a, b, t)),
    "MoCo, keys of the batch enqueued first": case(
        [(N, 6), (N, 6), (10, 6)],
        "queries keys queue",
        lambda q, k, queue, y, t: torch.nn.functional.cross_entropy(
            q @ torch.cat([k, queue]).T / t, torch.arange(len(q))
        ),
        length="unit",
    ),
    "MoCo v1 and v2": case(
        [(N, 6), (N, 6), (10, 6)], "queries keys queue", lambda q, k, queue, y, t: moco(q, k, queue, t), length="unit"
    ),
    "KCL, all positives": case(
        [*ROWS, (10, 6)], "features queue", lambda f, q, y, t: against(f, y, q, QUEUED, t), length="unit"
    ),
    "TSC, all positives and a target of equal weight": case(
        [*ROWS, (10, 6), (4, 6)],
        "features queue targets",
        lambda f, q, c, y, t: against(f, y, torch.cat([q, c]), torch.cat([QUEUED, CLASSES]), t),
        length="unit",
    ),
    "PaCo, weights of 1 and no prior": case(
        [(N, 6), (N, 6), (10, 6), (4, 6)],
        "queries keys queue centres",
        lambda q, k, queue, c, y, t: paco(q, k, y, queue, c, t),
    ),
}


def test_every_line_is_tested():
    assert set(TABLE) == set(PEERS)


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("t", [0.1, 0.5])
def test_the_line_gives_the_same_value_and_gradient(name, t):
    peer, generator = PEERS[name], torch.Generator().manual_seed(1)
    drawn = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in peer["shapes"]]
    names = peer["names"].split()
    learnt = [rows.requires_grad_() for each, rows in zip(names, drawn, strict=True) if each != "older"]
    tau = t
    if name == "CLIP":
        learnt.append(tau := torch.tensor(t, dtype=torch.float64, requires_grad=True))
    rows = [unit(each) for each in drawn] if peer["length"] == "unit" else drawn
    variables = {"torch": torch, "supcon_loss": supcon_loss, "labels": peer["labels"], "t": tau, "views": VIEWS}
    variables |= {"classes": CLASSES, "ids": torch.arange(N), "queue_labels": QUEUED, "epsilon": EPSILON}
    variables |= dict(zip(names, rows, strict=True)) | (peer["more"](*rows) if peer["more"] else {})
    ours, theirs = eval(TABLE[name], variables), peer["peer"](*rows, peer["labels"], tau)
    assert torch.allclose(ours, theirs, rtol=1e-9)
    slopes, expected = (torch.autograd.grad(loss, learnt, retain_graph=True) for loss in (ours, theirs))
    for one, other in zip(slopes, expected, strict=True):
        assert torch.allclose(one, other, rtol=1e-7, atol=1e-9)


def test_where_pytorch_metric_learning_differs():
    """What the page says of it: a batch without negatives gives 0, where the loss is at least log(N - 1)."""
    features = torch.eye(4)
    labels = torch.zeros(4, dtype=torch.long)
    assert metric_learning.SupConLoss(temperature=0.1)(features, labels) == 0
    assert torch.allclose(supcon_loss(features, labels), torch.tensor(3.0).log())


def test_a_memory_as_keys_has_the_value_of_cross_batch_memory_and_another_gradient():
    generator = torch.Generator().manual_seed(0)
    features, older = (torch.randn(n, 6, generator=generator, dtype=torch.float64) for n in (P, 5))
    features.requires_grad_()
    ours = supcon_loss(features, PAIRED, keys=older, key_labels=OLDER, temperature=0.2)
    theirs = memorized(features, PAIRED, older, 0.2)
    assert torch.allclose(ours, theirs)
    one, other = (torch.autograd.grad(loss, features)[0] for loss in (ours, theirs))
    assert (one - other).norm() > 0.1 * other.norm()


def test_the_floor_of_l_in():
    """That of L_out less log P, attained at the frame; elsewhere L_in is lower than L_out, by convexity."""
    frame, labels = torch.eye(4, 6, dtype=torch.float64)[PAIRED], PAIRED
    positives = (labels[:, None] == labels).sum(1) - 1.0
    shift = positives.double().log().mean()
    assert torch.allclose(inside(frame, labels, 0.2), supcon_loss(frame, labels, temperature=0.2) - shift)
    features = torch.rand(P, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert inside(features, labels, 0.2) < supcon_loss(features, labels, temperature=0.2) - shift


def test_l_in_of_a_positive_that_is_opposite():
    """In float32 the two calls cancel to inf, and to NaN in the gradient; float64 has the digits, up to a limit."""
    features = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [1.0, 0.1]], requires_grad=True)
    labels, line = torch.tensor([0, 0, 1, 1]), TABLE["solo-learn (L_in)"]
    for rows in (features, torch.tensor([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [1.0, 0.0]], requires_grad=True)):
        variables = {"torch": torch, "supcon_loss": supcon_loss, "features": rows, "labels": labels, "t": 0.1}
        ours, theirs = eval(line, variables), inside(rows.double(), labels, 0.1)
        # The largest term is log(1 + 2 e^20) = 20.693; both calls round it, and the part of the positives is e^-20.693.
        slack = 4 * torch.finfo(torch.float64).eps * 20.7 * math.exp(20.7)
        assert torch.allclose(ours, theirs, rtol=0, atol=slack)
        slope, expected = (torch.autograd.grad(loss, rows)[0] for loss in (ours, theirs))
        assert torch.allclose(slope, expected, rtol=1e-4, atol=10 * slack)  # gradients are larger by 1/t
    variables["t"] = 0.05  # a term of 40.7, beyond the limit that the page tells
    assert eval(line, variables).isinf()


def spread(angle, rows=12):
    """Two classes of non-negative unit rows: a frame at angle 0; each row turns towards an axis of its own."""
    labels = torch.arange(2).repeat_interleave(rows // 2)
    first, private = torch.eye(2, rows + 2, dtype=torch.float64)[labels], torch.eye(rows, rows + 2).double().roll(2, 1)
    return math.cos(angle) * first + math.sin(angle) * private, labels


def drawn_positives(features, labels, k, t):
    """KCL in expectation: the own view and k of the others are positives; all rows are in the denominator."""
    terms = []
    for i in range(len(features)):
        log_p, same = log_probability(features[i], features, t), labels == labels[i]
        weights = k / (k + 1) / (same.sum() - 1) * same
        weights[i] = 1 / (k + 1)
        terms.append(-(weights * log_p).sum())
    return torch.stack(terms).mean()


@pytest.mark.parametrize("t", [0.1, 0.5])
def test_what_is_not_offered_moves_the_optimum(t):
    """A small spread within classes lowers these losses, under the conditions that the page tells, and not ours."""
    (frame, labels), (near, _) = spread(0.0), spread(0.05)
    assert supcon_loss(near, labels, temperature=t) > supcon_loss(frame, labels, temperature=t)
    x, of_class, others = math.exp(1 / t), 6, 6
    for k in (1, 3, 5):
        moves = (of_class - 1) / (of_class + others / x) > k / (k + 1)
        assert (drawn_positives(near, labels, k, t) < drawn_positives(frame, labels, k, t)) == moves, k
    centres, none = torch.eye(2, frame.shape[1], dtype=torch.float64), frame[:0]
    for alpha, moves in ((0.05, True), (1.0, False)):
        assert (alpha < 1 / (1 + (others + 1) / x)) == moves
        values = [paco(rows, none, labels, none, centres, t, alpha) for rows in (frame, near)]
        assert (values[1] < values[0]) == moves, alpha


def test_with_the_factor_of_supcontrast_rates_grow_with_the_temperature():
    rates = [float(decay_rate(9, 81, temperature=t)) * t for t in (0.05, 0.1, 0.3, 0.476, 0.8, 2.0, 10.0)]
    assert rates == sorted(rates)
