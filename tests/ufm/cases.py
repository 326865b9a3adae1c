"""What the tests of free features have in common."""

import math

STEP = [c for c in range(10) for _ in range(50 if c < 5 else 5)]
OTHER_LOSSES = {  # other paths to the same frame, for STEP
    "margin": {"margin": 0.5},
    "weights": {"class_weights": [0.2] * 3 + [3.0] * 7, "anchor_weights": [1.0] * 5 + [10.0] * 5},
    "both": {"margin": 0.3, "class_weights": range(1, 11), "denominator": "sincere"},
    "frame term": {"frame": True, "supcon": 0.0},
    "frame term with a margin, and the loss": {"frame": True, "supcon": 0.3, "margin": 0.4},
}
DENOMINATORS = ["all", "sincere", "negatives", "class-average"]


def out_of_place(solution):
    """How far features are from a frame: of class means, and of rows from their class mean."""
    return max(solution.geometry.delta_of, math.sqrt(float(solution.geometry.spreads.max())))
