"""Options of the batches that a verb makes, and the plan that they describe."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from numpy.typing import NDArray

from orthoframe.errors import Option, OptionError
from orthoframe.options import Binding, Denominator, Scheme

if TYPE_CHECKING:
    from orthoframe.batches import BatchPlan


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """How batches are made, in commands that make them."""

    scheme: Scheme = "reshuffle"
    """How batches are made; full is one batch of all samples."""
    batch_size: Annotated[int | None, tyro.conf.arg(metavar="ROWS")] = None
    """Rows of a batch, for every scheme but full."""
    power: Annotated[float | None, tyro.conf.arg(metavar="POWER")] = None
    """With --scheme weighted, classes have rows in proportion to their size to this power: 0 equally many, 1 as in the
    data (default: 0.5)."""
    binding: Binding = "none"
    """What is added to each batch."""
    epochs: int = 1
    """Number of epochs whose batches are taken together."""
    seed: int = 0
    """Seed of everything that is random."""

    def make(self, labels: NDArray[Any], views: int = 1) -> "BatchPlan":
        """The plan of these options."""
        from orthoframe.batches import BatchPlan

        return BatchPlan(
            labels,
            self.batch_size,
            scheme=self.scheme,
            binding=self.binding,
            seed=self.seed,
            views=views,
            power=self.power,
        )


def check_repair(repair: bool, denominator: Denominator) -> None:
    """Refuse to repair batches for a denominator with which additions guarantee nothing."""
    if repair and denominator in ("sincere", "negatives"):
        loss = Option("denominator", denominator)
        raise OptionError(Option("repair"), " guarantees nothing with ", loss, "; use ", Option("binding", "fixed"))
