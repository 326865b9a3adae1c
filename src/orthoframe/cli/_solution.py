"""What `orthoframe ufm` found, as JSON and as text."""

from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

if TYPE_CHECKING:
    from orthoframe.batches import Certificate
    from orthoframe.ufm import Solution


def as_dict(solution: "Solution", certificate: "Certificate", predicted: Tensor | None) -> dict[str, Any]:
    """Everything, in types that JSON knows."""
    data = {**solution.to_dict(), "certificate": certificate.to_dict()}
    if predicted is not None:
        data["predicted"] = {
            "cosines": predicted.tolist(),
            "distance": solution.geometry.distance_to(predicted),
            "largest_difference": float((solution.geometry.cosines - predicted).abs().max()),
        }
    return data


def as_text(solution: "Solution", certificate: "Certificate", predicted: Tensor | None) -> str:
    """Tables for a reader."""

    def shown(value: float | None, form: str) -> str:
        return "not known" if value is None else format(value, form)

    rows = [
        ("loss (mean over anchors)", f"{solution.loss:.12f}"),
        ("floor" if predicted is None else "lowest loss, predicted", shown(solution.floor, ".12f")),
        ("gap", shown(solution.gap, ".3e")),
    ]
    if solution.bound is not None and np.isfinite(solution.bound):
        rows.append(("departure from a frame, in any batch", f"at most {solution.bound:.1e}"))
    if predicted is not None:
        largest = float((solution.geometry.cosines - predicted).abs().max())
        rows.append(("distance to prediction for one batch", f"{solution.geometry.distance_to(predicted):.3e}"))
        rows.append(("largest difference of a cosine", f"{largest:.3e}"))
    width = max(len(name) for name, _ in rows)
    table = [f"{name:<{width}}  {value}" for name, value in rows]
    promise = [] if predicted is None else ["What the batches would guarantee with a ReLU:"]
    return "\n".join([solution.sentence(), "", *table, "", str(solution.geometry), "", *promise, str(certificate)])
