"""A network on given batches: two plans that differ in what the certificate says, and in little else."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from orthoframe.batches import BatchPlan
from orthoframe.training import make_task
from orthoframe_studies._endings import PROVEN_BOUND
from orthoframe_studies._jobs import JobResult, key
from orthoframe_studies._training_job import Training, numbers_of, result_of, train_or_resume

PlanName = Literal["pair never anchored", "certified"]

_PAIR = (1, 8)  # the classes that one of the plans does not push apart: digits that look alike
_CHUNK = 4  # rows of each class in a batch
_CLASSES = 10


def plan_batches(labels: Sequence[int], plan: PlanName) -> list[list[int]]:
    """Batches of as many samples of each digit that connect every class, and in which every two classes meet.

    Half of the batches lack the second class of the pair, and half the first. The pair meets in one more batch, with
    one row each: a class of one row has no term of its own there, so that nothing pushes the two apart. The plan
    `certified` has a second row of the first class in that batch, in place of one of another class.
    """
    members: list[list[int]] = [[] for _ in range(_CLASSES)]
    for sample, label in enumerate(labels):
        members[label].append(sample)
    batches = []
    number = len(members[0]) // _CHUNK
    for place in range(number):
        absent = _PAIR[place % 2]
        batch = []
        for c, samples in enumerate(members):
            if c == absent:
                continue
            # A class that only half of the batches have must bring all of its rows in these.
            half = c in _PAIR
            width, start = (2 * _CHUNK, place // 2) if half else (_CHUNK, place)
            batch += sorted({samples[0], *samples[start * width : (start + 1) * width]})
        batches.append(batch)
    others = [samples[:2] for c, samples in enumerate(members) if c not in _PAIR]
    if plan == "certified":
        others[-1] = others[-1][:1]
    first = members[_PAIR[0]][: 2 if plan == "certified" else 1]
    return [*batches, [*first, members[_PAIR[1]][0], *(row for rows in others for row in rows)]]


class GivenBatches(BatchPlan):
    """Batches as they are given, the same in every epoch."""

    def __init__(self, labels: Sequence[int], batches: Sequence[Sequence[int]]) -> None:
        super().__init__(labels, max(map(len, batches)), scheme="partition", binding="none")
        self._given = [np.array(batch, dtype=np.int64) for batch in batches]

    def batches(self, epoch: int = 0) -> list[NDArray[Any]]:
        """The batches, whatever the epoch."""
        return self._given

    def fingerprint(self) -> str:
        """A short text that is equal for plans with equal batches."""
        rows = repr([batch.tolist() for batch in self._given])
        return hashlib.sha256((super().fingerprint() + rows).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class PlannedTraining(Training):
    """A training on the batches of `plan_batches`."""

    plan: PlanName

    def to_dict(self) -> dict[str, Any]:
        """Everything that decides the result."""
        return {**super().to_dict(), "plan": self.plan, "pair": list(_PAIR)}

    def run(self, folder: Path, data_dir: Path | None) -> JobResult:
        """Train, and measure the pair."""
        labels = make_task(self.settings).train.labels.tolist()
        plan = GivenBatches(labels, plan_batches(labels, self.plan))
        outcome = train_or_resume(self.settings, folder / "run", data_dir, key(self), plan=plan)
        cosines = outcome.evaluation.geometry.cosines.clone().fill_diagonal_(0.0)
        pair = float(cosines[_PAIR])
        cosines[_PAIR], cosines[_PAIR[::-1]] = 0.0, 0.0
        bound = numbers_of(outcome)[0]["angle_bound"]
        return result_of(
            outcome,
            pair_cosine=pair,
            max_other_cosine=float(cosines.max()),
            as_stated=float(outcome.certificate.certificate.holds_as_stated),
            # Of a pair that nothing pushes apart the cosine may move for ever; what the loss can gain is all gained.
            converged=float(bound is not None and bound <= PROVEN_BOUND),
        )
