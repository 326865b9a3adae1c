"""What the tests of floors, rates and gaps have in common."""

import torch
from hypothesis import strategies as st

import reference

DENOMINATORS = ["all", "sincere", "negatives", "class-average"]
denominators = st.sampled_from(DENOMINATORS)
temperatures = st.sampled_from([0.05, 0.1, 0.5, 1.0, 10.0])
weights = st.none() | st.lists(st.sampled_from([0.01, 0.3, 1.0, 2.5, 40.0]), min_size=5, max_size=5)


@st.composite
def losses(draw, compared=("all", "keys")):
    """The options of a loss, but for its labels: margin, weights, temperature, denominator."""
    denominator = draw(denominators)
    return {
        "temperature": draw(temperatures),
        "denominator": denominator,
        "margin": 0.0 if denominator == "negatives" else draw(st.sampled_from([0.0, 0.0, -0.3, 0.4, 1.0, 1.7])),
        "class_weights": draw(weights),
        "anchor_weights": draw(weights),
        "compare": draw(st.sampled_from(compared)),
    }


def mixed_rows(labels, dim, mix, seed):
    """Non-negative rows between noise and an orthogonal frame."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.rand(len(labels), dim, generator=generator, dtype=torch.float64)
    # Sparse and almost orthogonal rows come nearer to the floor than dense ones.
    rows = rows * (torch.rand(rows.shape, generator=generator) < 0.4) + 1e-9 * rows
    return mix * rows / rows.norm(dim=1, keepdim=True) + (1 - mix) * reference.orthogonal_frame(labels, dim)


def slow_terms(rows, labels, key_labels, **options):
    """The terms of the definition, with 0 where there is none."""
    anchors, keys = rows[: len(labels)], {"keys": rows[len(labels) :], "key_labels": key_labels}
    return reference.supcon_loss(anchors, labels, reduction="none", **keys, **options)


def roundings(terms, options):
    """The error of a term: a few roundings of its exponents, times its weight."""
    heaviest = max(options["anchor_weights"] or [1.0])
    return 1e-13 * heaviest * (10 + (2 + abs(options["margin"])) / options["temperature"])
