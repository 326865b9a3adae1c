"""What the tests of free features have in common."""

import math

STEP = [c for c in range(10) for _ in range(50 if c < 5 else 5)]
DENOMINATORS = ["all", "sincere", "negatives", "class-average"]


def out_of_place(solution):
    """How far features are from a frame: of class means, and of rows from their class mean."""
    return max(solution.geometry.delta_of, math.sqrt(float(solution.geometry.spreads.max())))
