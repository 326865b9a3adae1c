"""The named choices of the supervised contrastive loss."""

from typing import Literal

Denominator = Literal["all", "sincere", "negatives", "class-average"]
"""What an anchor's positives are compared with.

- `all`: every other row (SupCon's L_out, the paper's).
- `sincere`: for each positive, that positive and the negatives.
- `negatives`: the negatives alone.
- `class-average`: every other row, each class's exponentials averaged, the anchor's own class without the anchor.
"""

Singletons = Literal["skip", "count", "error"]
"""What to do with an anchor that has no positive: leave it out of the mean, count it as 0, or raise."""

Reduction = Literal["mean", "sum", "none"]
"""How the anchors' terms become the result."""
