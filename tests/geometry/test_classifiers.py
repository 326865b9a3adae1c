"""The nearest centre and its accuracy against loops over rows."""

import math
import statistics

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from orthoframe import NearestCentre
from orthoframe.geometry import accuracy_of

NAN = float("nan")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: NearestCentre(torch.ones(3)), r"centres must have shape \[classes, dim\], not \[3\]"),
        (lambda: NearestCentre("a"), "centres must be"),
        (lambda: NearestCentre(torch.eye(3)).predict(torch.ones(2, 4)), r"shape \[rows, 3\].*not \[2, 4\]"),
        (lambda: NearestCentre(torch.eye(3)).predict(torch.ones(3)), r"shape \[rows, 3\].*not \[3\]"),
        (lambda: NearestCentre.fitted(torch.eye(3), [3, 2, 1], torch.ones(2, 3), [0, 3]), "from 0 to 2.* not 3"),
        (lambda: NearestCentre.fitted(torch.eye(3), [3, 2, 1], torch.ones(2, 3), [0]), r"shape \[2\].* not \[1\]"),
        (
            lambda: NearestCentre.fitted(
                torch.eye(3), [3, 2, 1], torch.tensor([[1.0, 0, 0], [torch.nan, 0, 0]]), [0, 1]
            ),
            "finite, and row 1 is not",
        ),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        call()


def draw(rows, dim, seed=0):
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_rule_of_training_rows_has_their_means_and_sizes():
    rows, names = draw(9, 4), ["b", "a", "b", "b", "c", "a", "b", "c", "b"]
    rule = NearestCentre.of(3 * rows, names)
    for number, name in enumerate("abc"):
        members = [row / row.norm() for row, other in zip(rows, names, strict=True) if other == name]
        torch.testing.assert_close(rule.centres[number], sum(members) / len(members))
    assert list(rule.shares) == [2, 5, 2]


def cosine(row, other):
    lengths = math.sqrt(sum(x * x for x in row)) * math.sqrt(sum(x * x for x in other))
    return sum(x * y for x, y in zip(row, other, strict=True)) / lengths if lengths else 0.0


@given(k=st.integers(1, 5), dim=st.integers(1, 6), seed=st.integers(0, 999))
def test_scores_are_cosines(k, dim, seed):
    features, centres = draw(7, dim, seed), draw(k, dim, seed + 1)
    features[3], centres[0] = 0.0, centres[0] * 100
    cosines = NearestCentre(centres).scores(features)
    expected = [[cosine(row, centre) for centre in centres.tolist()] for row in features.tolist()]
    assert torch.allclose(cosines, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-12)


def test_centres_that_are_missing_or_zero():
    centres = torch.tensor([[1.0, 0.0], [0.0, 1.0], [NAN, NAN], [0.0, 0.0]])
    classifier = NearestCentre(centres)
    features = torch.tensor([[0.9, 0.2], [0.1, 0.3], [5.0, 5.1], [-1.0, -1.0]])
    assert classifier.predict(features).tolist() == [0, 1, 1, 3]
    scores = classifier.scores(features)
    assert bool((scores[:, 2] == -torch.inf).all())
    assert bool((scores[:, 3] == 0).all())
    assert classifier.scores(features.bfloat16()).dtype == torch.float64


@given(
    labels=st.lists(st.integers(0, 4), min_size=1, max_size=30),
    counts=st.lists(st.integers(1, 9), min_size=5, max_size=5),
    seed=st.integers(0, 999),
)
def test_accuracy_equals_its_definition(labels, counts, seed):
    scores, names = draw(len(labels), 5, seed), ["a", "b", "c", "d", "e"]
    accuracy = accuracy_of(scores, torch.tensor(labels), names, torch.tensor(counts))
    rates, margins = {}, {}
    for c in sorted(set(labels)):
        rows = [row for row, label in zip(scores.tolist(), labels, strict=True) if label == c]
        rates[c] = statistics.mean(max(range(5), key=row.__getitem__) == c for row in rows)
        margins[c] = statistics.mean(row[c] - max(row[:c] + row[c + 1 :]) for row in rows)
    by_size = sorted(rates, key=lambda c: -counts[c])
    half = math.ceil(len(by_size) / 2)
    hits = sum(rates[label] for label in labels)  # each row brings the rate of its class
    assert accuracy.by_class == pytest.approx([rates.get(c) for c in range(5)])
    assert accuracy.overall == pytest.approx(hits / len(labels))
    assert accuracy.balanced == pytest.approx(statistics.mean(rates.values()))
    assert accuracy.worst == rates[names.index(accuracy.worst_class)] == min(rates.values())
    assert accuracy.majority == pytest.approx(statistics.mean(rates[c] for c in by_size[:half]))
    assert accuracy.minority == pytest.approx(statistics.mean(rates[c] for c in by_size[-half:]))
    assert accuracy.margin == pytest.approx(statistics.mean(margins.values()))
    assert accuracy.minority_margin == pytest.approx(statistics.mean(margins[c] for c in by_size[-half:]))
    predicted = accuracy_of(scores.argmax(1), torch.tensor(labels), names, torch.tensor(counts))
    assert predicted.by_class == accuracy.by_class
    assert predicted.margin is None


def test_margins_that_are_not_known():
    alone = accuracy_of(torch.ones(3, 1), torch.zeros(3).long(), ["a"])
    assert (alone.overall, alone.margin, alone.minority_margin) == (1.0, None, None)
    scores = torch.tensor([[0.5, 0.25, -torch.inf], [0.5, 0.25, -torch.inf]])
    accuracy = accuracy_of(scores, torch.tensor([0, 2]), ["a", "b", "c"])  # class c has no centre
    assert (accuracy.by_class, accuracy.margin) == ((1.0, None, 0.0), 0.25)
    with pytest.raises(ValueError, match="no rows"):
        accuracy_of(torch.empty(0, 3), torch.empty(0).long(), ["a", "b", "c"])
