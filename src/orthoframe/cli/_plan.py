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
    """Samples per batch, for every scheme but full."""
    power: Annotated[float | None, tyro.conf.arg(metavar="POWER")] = None
    """With --scheme weighted, rows are sampled in proportion to class size^POWER (default: 0.5; 1 samples as in the
    data, 0 all classes equally often)."""
    binding: Binding = "none"
    """Examples that bind each batch; fixed adds the same example of each class."""
    epochs: int = 1
    """Take the batches of this many epochs together."""
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
