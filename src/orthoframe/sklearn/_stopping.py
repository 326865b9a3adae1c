"""When to stop: the floor of the loss is known, so nobody has to guess the number of epochs."""

import math
from typing import Literal

Reason = Literal["floor", "plateau", "epochs"]
"""Why a training ended: at the floor of the loss, where the gap no longer fell, or at the upper limit."""

_SLOWER = 0.1  # the learning rate on the last stretch, as a part of that before
_FALLS = 0.99  # a gap that is not below this part of the best one has not fallen


class Stopping:
    """Watch the gap to the floor, an epoch at a time.

    The gap is given as a part of the way from features that are all alike (1) to the floor (0). A training ends below
    `tol`; or, where the gap no longer falls, after a last stretch with a tenth of the learning rate.

    Args:
        tol: The part below which the floor counts as reached.
        patience: Epochs in which the gap must fall by a hundredth of itself.

    Attributes:
        slowdown: What the learning rate is multiplied with.

    Examples:
        >>> stopping = Stopping(tol=0.01, patience=2)
        >>> [stopping.after(part) for part in (0.9, 0.5, 0.5, 0.5, 0.4, 0.4, 0.4)]
        [None, None, None, None, None, None, 'plateau']
        >>> Stopping(tol=0.01, patience=2).after(0.001)
        'floor'
    """

    def __init__(self, tol: float, patience: int) -> None:
        self.tol, self.patience = tol, patience
        self.slowdown = 1.0
        self._best, self._since = math.inf, 0

    def after(self, part: float) -> Reason | None:
        """Why to stop after an epoch that ended with this gap, or None to go on."""
        if part <= self.tol:
            return "floor"
        if part < _FALLS * self._best:
            self._best, self._since = part, 0
        else:
            self._since += 1
        if self._since < self.patience:
            return None
        if self.slowdown < 1.0:
            return "plateau"
        self.slowdown, self._since = _SLOWER, 0
        return None
