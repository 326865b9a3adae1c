"""The slow, obvious versions that everything is checked against."""

import math
from fractions import Fraction

import networkx
import torch
from torch import Tensor


def supcon_terms(
    features,
    labels,
    temperature,
    denominator="all",
    keys=None,
    key_labels=None,
    *,
    margin=0.0,
    class_weights=None,
    anchor_weights=None,
    compare="all",
):
    """Each anchor's term, by loops over anchors, positives and rows; None for an anchor that has none."""
    rows = features if keys is None else torch.cat([features, keys])
    classes = [int(y) for y in labels] + ([] if key_labels is None else [int(y) for y in key_labels])
    unit = [row / row.norm() for row in rows]
    terms: list[Tensor | None] = []
    for i in range(len(features)):
        name = classes[i]
        others = [j for j in range(len(features) if compare == "keys" else 0, len(rows)) if j != i]
        positives = [j for j in others if classes[j] == name]
        negatives = [j for j in others if classes[j] != name]
        if not positives or (denominator == "negatives" and not negatives):
            terms.append(None)
            continue

        def exponential(j, i=i, name=name):
            weight = 1.0 if class_weights is None else class_weights[classes[j]]
            return weight * torch.exp((unit[i] @ unit[j] - (margin if classes[j] == name else 0.0)) / temperature)

        term = 0.0
        for j in positives:
            total = 0.0
            if denominator == "all":
                for m in others:
                    total = total + exponential(m)
            elif denominator == "sincere":
                for m in [j, *negatives]:
                    total = total + exponential(m)
            elif denominator == "negatives":
                for m in negatives:
                    total = total + exponential(m)
            else:
                for c in {classes[m] for m in others}:
                    members = [m for m in others if classes[m] == c]
                    for m in members:
                        total = total + exponential(m) / len(members)
            term = term + (torch.log(total) - (unit[i] @ unit[j] - margin) / temperature) / len(positives)
        terms.append(term if anchor_weights is None else anchor_weights[name] * term)
    return terms


def supcon_loss(
    features,
    labels,
    temperature=0.1,
    denominator="all",
    singletons="skip",
    reduction="mean",
    keys=None,
    key_labels=None,
    anchor_weights=None,
    **options,
):
    terms = supcon_terms(
        features, labels, temperature, denominator, keys, key_labels, anchor_weights=anchor_weights, **options
    )
    nothing = features.sum() * 0.0
    if reduction == "none":
        return torch.stack([nothing if term is None else term for term in terms])
    total = sum((term for term in terms if term is not None), start=nothing)
    if reduction == "sum":
        return total
    return total / (anchors_counted(labels, terms, singletons, anchor_weights) or 1)


def anchors_counted(labels, terms, singletons="skip", anchor_weights=None):
    """What a mean is divided by: the anchors that count, or the sum of their weights."""
    counted = [int(y) for y, term in zip(labels, terms, strict=True) if term is not None or singletons == "count"]
    return sum(1.0 if anchor_weights is None else float(anchor_weights[y]) for y in counted)


def floor_terms(
    labels,
    temperature,
    denominator="all",
    key_labels=(),
    *,
    margin=0.0,
    class_weights=None,
    anchor_weights=None,
    compare="all",
):
    """The floor of each anchor's term, counted row by row; None for an anchor that has none."""
    classes = [int(y) for y in labels] + [int(y) for y in key_labels]
    x = math.exp((1 - margin) / temperature)
    floors = []
    for i in range(len(labels)):
        name = classes[i]
        first = len(labels) if compare == "keys" else 0
        others = [classes[j] for j in range(first, len(classes)) if j != i]
        weight = dict.fromkeys(classes, 1.0) if class_weights is None else [float(w) for w in class_weights]
        p, m = others.count(name), sum(weight[y] for y in others if y != name)
        if p == 0 or (denominator == "negatives" and m == 0):
            floors.append(None)
            continue
        floor = {
            "all": math.log(weight[name] * p + m / x),
            "sincere": math.log(weight[name] + m / x),
            "negatives": math.log(m) - 1 / temperature if m else 0.0,
            "class-average": math.log(weight[name] + sum(weight[y] for y in set(others) - {name}) / x),
        }[denominator]
        floors.append(floor if anchor_weights is None else float(anchor_weights[name]) * floor)
    return floors


def frame_terms(features, labels, frame, temperature, shares, margin=0.0):
    """Each row's frame term: the part of its class in a sum over the rows of the frame."""
    terms = []
    for row, y in zip(features, labels, strict=True):
        parts = [
            share * torch.exp((row / row.norm() @ axis - (margin if c == int(y) else 0.0)) / temperature)
            for c, (axis, share) in enumerate(zip(frame, shares, strict=True))
        ]
        terms.append(-torch.log(parts[int(y)] / sum(parts)))
    return torch.stack(terms)


def orthogonal_frame(labels, dim):
    """One axis for each class."""
    names = sorted({int(y) for y in labels})
    return torch.stack([torch.eye(dim, dtype=torch.float64)[names.index(int(y))] for y in labels])


def connected_as_stated(labels, batches):
    """The paper's condition, on the batch interaction graph, by networkx."""
    graph = networkx.Graph()
    graph.add_nodes_from(range(len(labels)))
    for batch in batches:
        graph.add_edges_from((i, j) for i in batch for j in batch if i != j)
    names = sorted(set(labels))
    for name in names:
        if not networkx.is_connected(graph.subgraph([i for i, y in enumerate(labels) if y == name])):
            return False
    pairs = {frozenset((labels[i], labels[j])) for i, j in graph.edges}
    return all(frozenset((a, b)) in pairs for a in names for b in names if a != b)


def effective_pieces(labels, batches, views=1):
    """The sets of samples that coincide at every optimum, by repeating the two rules until nothing changes."""
    pieces = [{i} for i in range(len(labels))]

    def piece(i):
        return next(p for p in pieces if i in p)

    changed = True
    while changed:
        changed = False
        for batch in batches:
            rows = [i for i in batch for _ in range(views)]
            names = {labels[i] for i in rows}
            for name in names:
                members = [i for i in rows if labels[i] == name]
                coincide = any(piece(members[a]) is piece(members[b]) for a in range(len(members)) for b in range(a))
                if len(members) >= 2 and (len(names) > 1 or (len(members) >= 3 and coincide)):
                    for i in members:
                        one, other = piece(members[0]), piece(i)
                        if one is not other:
                            one |= other
                            pieces.remove(other)
                            changed = True
    return pieces


def effective_pairs(labels, batches, views=1):
    """Pairs of classes that some batch pushes apart."""
    met = set()
    for batch in batches:
        rows = [labels[i] for i in batch for _ in range(views)]
        for a in set(rows):
            for b in set(rows) - {a}:
                if max(rows.count(a), rows.count(b)) >= 2:
                    met.add(frozenset((a, b)))
    return met


def certified(labels, batches, views=1):
    """The effective condition."""
    names = set(labels)
    pairs = {frozenset((a, b)) for a in names for b in names if a != b}
    return (
        len(effective_pieces(labels, batches, views)) == len(names) and effective_pairs(labels, batches, views) == pairs
    )


def geometry(features, labels):
    """The measures by their definitions, in float64, a sum at a time."""
    features = features.double() / features.double().norm(dim=1, keepdim=True)
    names = sorted(set(labels))
    k, n, d = len(names), len(labels), features.shape[1]
    means = torch.stack([features[[i for i in range(n) if labels[i] == name]].mean(0) for name in names])
    within = torch.zeros(d, d, dtype=torch.float64)
    for i in range(n):
        apart = features[i] - means[names.index(labels[i])]
        within += torch.outer(apart, apart) / n
    middle = means.mean(0)
    between = sum(torch.outer(mean - middle, mean - middle) for mean in means) / k
    values, vectors = torch.linalg.eigh(between)
    inverse = torch.zeros(d, d, dtype=torch.float64)
    for value, vector in list(zip(values, vectors.T, strict=True))[::-1][: k - 1]:
        if value > 1e-13 * values[-1]:
            inverse += torch.outer(vector, vector) / value

    def distance(gram, target):
        return float((gram / (gram**2).sum().sqrt() - target / (target**2).sum().sqrt()).square().sum().sqrt())

    eye = torch.eye(k, dtype=torch.float64)
    cosines = [float(means[a] @ means[b] / means[a].norm() / means[b].norm()) for a in range(k) for b in range(a)]
    return {
        "delta_of": distance(means @ means.T, eye),
        "delta_etf": distance((means - middle) @ (means - middle).T, eye - 1 / k),
        "collapse_trace": float((within @ inverse).trace()),
        "beta_nc": float((within @ inverse).trace()) / k,
        "mean_cosine": sum(cosines) / len(cosines),
        "max_cosine": max(cosines),
        "norm_ratio": float(max(mean.norm() for mean in means) / min(mean.norm() for mean in means)),
    }


# Neural collapse beside a classifier, from the definitions, a pair and a row at a time.


def cdnv(features, labels):
    """Class-distance normalised variance (Galanti et al.) of rows as they are: the mean over pairs of classes."""
    names = sorted(set(labels))
    members = {name: features[[i for i, label in enumerate(labels) if label == name]].double() for name in names}
    means = {name: sum(rows) / len(rows) for name, rows in members.items()}
    variances = {name: sum(float((row - means[name]) @ (row - means[name])) for row in members[name]) for name in names}
    total, pairs = 0.0, 0
    for a in names:
        for b in names:
            if a < b:
                apart = float((means[a] - means[b]) @ (means[a] - means[b]))
                total += (variances[a] / len(members[a]) + variances[b] / len(members[b])) / (2 * apart)
                pairs += 1
    return total / pairs


def nc3(weights, features, labels):
    """Papyan et al.: the distance of a classifier to the centred class means, both scaled to length 1."""
    names = sorted(set(labels))
    means = [sum(features[i].double() for i in range(len(labels)) if labels[i] == name) for name in names]
    means = [mean / labels.count(name) for mean, name in zip(means, names, strict=True)]
    middle = sum(means) / len(means)
    one, other = weights.double().flatten(), torch.cat([mean - middle for mean in means])
    one, other = one / math.sqrt(float(one @ one)), other / math.sqrt(float(other @ other))
    return math.sqrt(float((one - other) @ (one - other)))


def nc4(weights, bias, features, labels, centres):
    """The part of rows for which a linear classifier and the nearest centre, by angle, say different classes."""
    different = 0
    for row in features.double():
        scores = [float(weight.double() @ row) + float(b) for weight, b in zip(weights, bias, strict=True)]
        cosines = [float(row @ centre / row.norm() / centre.norm()) for centre in centres.double()]
        different += scores.index(max(scores)) != cosines.index(max(cosines))
    return different / len(labels)


def class_walk(labels, quotas, permutation, epochs):
    """The rows of each epoch: every class has the next rows of a list of all its permutations, one after the other.

    The classes up to c have round(e * (quota_0 + ... + quota_c)) rows in the first e epochs, halves rounded up.
    """
    names = sorted(set(labels))
    taken = [0] * len(names)
    draws = []
    for epoch in range(1, epochs + 1):
        rows, total, before = [], Fraction(0), 0
        for c, name in enumerate(names):
            total += Fraction(quotas[c])
            up_to = math.floor(epoch * total + Fraction(1, 2))
            end, before = up_to - before, up_to
            size = sum(label == name for label in labels)
            stream = [row for number in range(end // size + 1) for row in permutation(c, number).tolist()]
            rows += stream[taken[c] : end]
            taken[c] = end
        draws.append(rows)
    return draws


def binomial_tail(successes, trials, share):
    """The probability of as many successes or more."""
    return sum(
        math.comb(trials, count) * share**count * (1 - share) ** (trials - count)
        for count in range(successes, trials + 1)
    )


def clopper_pearson(successes, trials, alpha):
    """The smallest share with which as many successes or more have a probability of `alpha`, and the largest with which
    as few or fewer have; by bisection of sums."""

    def share_with(probability):
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if probability(middle) < alpha else (low, middle)
        return low

    low = 0.0 if successes == 0 else share_with(lambda share: binomial_tail(successes, trials, share))
    failures = trials - successes
    high = 1.0 if failures == 0 else 1 - share_with(lambda share: binomial_tail(failures, trials, share))
    return low, high
