"""Wrong input: the sentence names what was given and what is allowed."""

import numpy as np
import pytest
import torch

from orthoframe import supcon_loss

FEATURES, LABELS = torch.rand(4, 3), torch.tensor([0, 0, 1, 1])


@pytest.mark.parametrize(
    ("features", "labels", "options", "kind", "message"),
    [
        (FEATURES[0], LABELS, {}, ValueError, r"features must have shape \[rows, dim\], not \[3\]"),
        (FEATURES[:, None], LABELS, {}, ValueError, r"flatten\(0, 1\) and labels.repeat_interleave\(views\)"),
        (FEATURES.long(), LABELS, {}, TypeError, "features must be float64, float32, float16 or bfloat16"),
        (FEATURES.long().tolist(), LABELS, {}, TypeError, "features must be float64, float32, .* not int64"),
        ([[0.5], [0.5, 1.0]], LABELS, {}, ValueError, "features must be an array, or lists of equal lengths"),
        (FEATURES, LABELS[:3], {}, ValueError, r"labels must have shape \[4\].*not \[3\]"),
        (FEATURES, LABELS[:, None], {}, ValueError, r"labels must have shape \[4\]"),
        (FEATURES, LABELS.float(), {}, TypeError, "labels must be integers, not torch.float32"),
        (FEATURES, None, {}, TypeError, "labels must be integers, not NoneType"),
        (FEATURES, ["a", "a", "b", "b"], {}, TypeError, "labels must be integers, not strings; number the classes"),
        (FEATURES, LABELS, {"temperature": True}, TypeError, "temperature must be a number, not bool"),
        (FEATURES, LABELS, {"temperature": "warm"}, TypeError, "temperature must be a number, not str"),
        (FEATURES, LABELS, {"denominator": "out"}, ValueError, "denominator must be one of 'all', 'sincere'"),
        (FEATURES, LABELS, {"singletons": "drop"}, ValueError, "singletons must be one of 'skip', 'count', 'error'"),
        (FEATURES, LABELS, {"reduction": "max"}, ValueError, "reduction must be one of 'mean', 'sum', 'none'"),
        (FEATURES, LABELS, {"keys": FEATURES}, ValueError, "keys was given without key_labels"),
        (FEATURES, LABELS, {"key_labels": LABELS}, ValueError, "key_labels was given without keys"),
        (
            FEATURES,
            LABELS,
            {"keys": torch.rand(2, 5), "key_labels": LABELS[:2]},
            ValueError,
            "keys have dimension 5 and features 3",
        ),
        (
            FEATURES,
            LABELS,
            {"keys": FEATURES, "key_labels": LABELS[:2]},
            ValueError,
            r"key_labels must have shape \[4\], one per row of keys",
        ),
    ],
)
def test_refused(features, labels, options, kind, message):
    with pytest.raises(kind, match=message):
        supcon_loss(features, labels, **options)


@pytest.mark.parametrize("labels", [[0, 0, 1, 1], np.array([0, 0, 1, 1]), LABELS.bool(), LABELS.to(torch.uint8)])
def test_labels_of_other_kinds(labels):
    assert torch.equal(supcon_loss(FEATURES, labels), supcon_loss(FEATURES, LABELS))
