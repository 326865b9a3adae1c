"""Rows that are of no known class, told by their distance from all that are."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from orthoframe._rows import unit_rows
from orthoframe.errors import Option, OptionError
from orthoframe.geometry._classifiers import NearestCentre
from orthoframe.options import check_number

_ROUNDING = 1e-12  # relative, of decimal fractions such as 0.07 * 100


@dataclass(frozen=True)
class Familiarity:
    """How much rows are like those of known classes: the largest cosine to a class mean, and what is usual for it.

    Attributes:
        means: `[k, d]`, of unit rows; NaN for a class without rows.
        held_out: `[n]`, the familiarity of rows of known classes that the means do not have.
    """

    means: Tensor
    held_out: Tensor

    @classmethod
    def fitted(cls, rows: Tensor, labels: Tensor, num_classes: int, held_out: Tensor) -> "Familiarity":
        """The means of labelled rows `[rows, d]`, and how familiar held-out rows `[n, d]` of these classes are."""
        sums = torch.zeros(num_classes, rows.shape[1], dtype=torch.float64)
        sums.index_add_(0, labels, unit_rows(rows.double())[0])
        usual = cls(sums / torch.bincount(labels, minlength=num_classes)[:, None], torch.empty(0))
        return replace(usual, held_out=usual.of(held_out))

    def of(self, rows: Tensor) -> Tensor:
        """The familiarity of each row, `[rows]`, in float64."""
        return NearestCentre(self.means).scores(rows).amax(1)

    def refused(self, rows: Tensor, error: float) -> Tensor:
        """Which rows are of no known class, `[rows]`: those that are less familiar than the threshold, or not finite.

        Args:
            rows: `[rows, d]`.
            error: As `threshold` takes it.
        """
        return ~(self.of(rows) >= self.threshold(error))

    def threshold(self, error: float) -> float:
        """The familiarity below which rows are refused, if rows of known classes may be with a probability of `error`.

        It is the j-th smallest of the n held-out rows, j = floor(error (n + 1)). A new row of a known class has any
        rank among these n + 1 with the same probability, whatever their distribution, if it is drawn as the held-out
        rows were and these were not trained on. So it is refused with a probability of at most j / (n + 1), and of
        exactly that if no two are equal. This is a mean over held-out rows, too: for those that there are, the fraction
        that is refused has the distribution Beta(j, n + 1 - j). Of rows of unknown classes it says nothing, and of
        single classes neither.

        Raises:
            OptionError: For an error that is not between 0 and 1, or below 1 / (n + 1), which would refuse nothing.

        Examples:
            >>> Familiarity(torch.eye(2), torch.arange(99.0)).threshold(0.05)  # the fifth
            4.0
            >>> Familiarity(torch.eye(2), torch.arange(9.0)).threshold(0.05)
            Traceback (most recent call last):
            orthoframe.errors.OptionError: reject must be at least 0.1 with 9 validation images, not 0.05
        """
        check_number("reject", error, above=0, below=1)
        n = len(self.held_out)
        rank = math.floor(error * (n + 1) * (1 + _ROUNDING))
        if rank:
            return float(self.held_out.double().kthvalue(min(rank, n)).values)
        digits = 2 + math.floor(math.log10(n + 1))
        least = math.ceil(10**digits / (n + 1) * (1 - _ROUNDING)) / 10**digits  # rounded up
        raise OptionError(
            Option("reject"), f" must be at least {least:g} with {n} validation image{'s' * (n != 1)}, not {error:g}"
        )
