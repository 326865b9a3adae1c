"""Claims: a sentence, and the rule that decides it; and what may be decided."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from orthoframe.options import FRAME_DISTANCE

# Quantities that are None where the frame was not reached: the time is longer than the run, by an unknown amount.
TIME_QUANTITIES = ("epochs_to_of", "time_to_of")
# Spread over orders of magnitude, or in two clusters, as counts of what went wrong: their median and range are shown.
UNEVEN_QUANTITIES = {
    *TIME_QUANTITIES,
    *("delta_of", "live_delta_of", "raw_delta_of", "delta_etf", "delta_predicted", "beta_nc"),
    *("gap", "relative_gap", "angle_bound", "excess", "trend", "gap_trend"),
    *("dead_rows", "merged_classes", "rate_to_formula"),
}

Proof = Literal["none", "learnt", "unmet", "end", "goal"]
"""What a run must have shown before its outcome counts.

- `none`: nothing; a time is what it is, however the run ended.
- `learnt`: that it has begun to learn.
- `unmet`: that it has ended, if it does not do what is claimed; one that does needs no proof.
- `end`: that it has ended, whatever its outcome.
- `goal`: that it is at the frame, if features are not negative; others are judged as they were trained.
"""


class Decision(StrEnum):
    """What results say about a claim, from the worst to the best for it.

    Attributes:
        status: Its colour on a page: `good`, `wait` or `bad`.
        agreement: Whether the claim agrees with what was found, in a word or two.
    """

    NOT_SUPPORTED = "not supported", "bad", "no"
    NOT_CONVERGED = "not converged", "wait", "not converged"
    NOT_RUN = "not run", "wait", "not run yet"
    INCONCLUSIVE = "inconclusive", "wait", "undecided"
    SUPPORTED = "supported", "good", "yes"

    status: str
    agreement: str

    def __new__(cls, word: str, status: str, agreement: str) -> "Decision":
        member = str.__new__(cls, word)
        member._value_ = word
        member.status, member.agreement = status, agreement
        return member

    @classmethod
    def of_all(cls, decisions: Sequence["Decision"]) -> "Decision":
        """The worst; inconclusive if there are none."""
        return min(decisions, key=list(cls).index, default=cls.INCONCLUSIVE)


@dataclass(frozen=True)
class Claim:
    """A sentence, and the rule that decides it, fixed before the runs that it is decided on.

    In each cell that agrees with `where`, a quantity must keep to the thresholds: in most runs (`over="runs"`), or in
    the mean over seeds (`over="mean"`). With `versus` it is the ratio or difference, seed by seed, to the cell with
    these other coordinates that is otherwise alike.
    """

    text: str
    source: str  # where it comes from, such as `paper` or `our theory`
    quantity: str  # a name in `final` of the results
    where: Mapping[str, Any]  # coordinates of the cells that decide; a tuple allows several values
    versus: Mapping[str, Any] | None = None  # coordinates of the cell to compare with
    how: Literal["ratio", "difference"] = "ratio"  # whether to compare by ratio or by difference
    at_most: float | None = None  # the largest value that is allowed
    at_least: float | None = None  # the smallest; one of the two is given, or both
    # Whether runs are counted, or their mean is taken: for accuracies, which vary little.
    over: Literal["runs", "mean"] = "runs"
    proof: Proof = "none"  # what a run must have shown before its outcome counts
    # Whether the runs of all cells are counted together, where each cell has too few to be judged alone.
    pooled: bool = False

    def __post_init__(self) -> None:
        if self.at_most is None and self.at_least is None:
            raise ValueError("a claim needs a threshold: at_most, at_least or both")
        if self.pooled and self.over == "mean":
            raise ValueError("runs of several cells can be counted together, and have no common mean")

    def kept(self, low: float, high: float) -> bool | None:
        """Whether a value between two bounds keeps to the thresholds; None if they do not tell."""
        least = float("-inf") if self.at_least is None else self.at_least
        most = float("inf") if self.at_most is None else self.at_most
        if least <= low and high <= most:
            return True
        return False if high < least or low > most else None


def reaches_frame(text: str, source: str, **where: Any) -> Claim:
    """A claim that runs at these coordinates end at the orthogonal frame."""
    return Claim(text, source, "live_delta_of", where, at_most=FRAME_DISTANCE, proof="unmet")


def misses_frame(text: str, source: str, **where: Any) -> Claim:
    """A claim that runs at these coordinates end elsewhere than at the orthogonal frame."""
    return Claim(text, source, "live_delta_of", where, at_least=FRAME_DISTANCE, proof="end")


def faster(text: str, source: str, where: Mapping[str, Any], *, versus: Mapping[str, Any]) -> Claim:
    """A claim that runs need fewer epochs to the frame than those that they are compared with."""
    return Claim(text, source, "epochs_to_of", where, versus=versus, at_most=1.0, proof="learnt")


def agrees(where: Mapping[str, Any], conditions: Mapping[str, Any]) -> bool:
    """Whether coordinates are those that are wanted; a tuple or list allows several values.

    Examples:
        >>> agrees({"ratio": 10, "data": "digits"}, {"ratio": (10, 100)})
        True
    """
    return all(
        name in where and where[name] in (value if isinstance(value, tuple | list) else (value,))
        for name, value in conditions.items()
    )
