"""How a run ended: how accurate it is, whether the frame is reached, and the verdict in words."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from orthoframe._rows import class_members
from orthoframe.batches import RunCertificate
from orthoframe.errors import brief, spelled
from orthoframe.geometry import COLLAPSE, Geometry, near_pairs
from orthoframe.runs import CauseRecord, Ending, EpochRecord, Question, Signature, TestRecord, VerdictRecord
from orthoframe.training._causes import WORST, LikelyCause, Spell, accuracy_causes, explanation
from orthoframe.training._evaluation import Evaluation
from orthoframe.training._settings import Settings
from orthoframe.training._task import Task

# The means of two classes share a direction with cosines above this; at most this many groups and classes are named.
_SHARED, _GROUPS, _NAMED = 0.9, 3, 8


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """How a run ended.

    Attributes:
        question: What the run was made to answer.
        signature: What the features look like.
        ending: How the run was moving; None where the frame is reached, or was not asked for, or where the causes
            explain everything.
        causes: Likely causes, most severe first.
        geometry: Of the training images.
        test: Of the test images: their accuracy, and what they were taken for.
        settling: Balanced validation accuracy before the run settled onto the frame, and at its end; None for one that
            did not settle, or without validation images.
    """

    question: Question
    signature: Signature
    ending: Ending | None
    causes: tuple[LikelyCause, ...]
    geometry: Geometry
    test: TestRecord
    settling: tuple[float, float] | None = None

    @property
    def reached(self) -> bool:
        """Whether the frame is reached."""
        return self.signature is Signature.FRAME

    @property
    def merged(self) -> tuple[tuple[int | str, ...], ...]:
        """Groups of classes, each of which shares its direction with another of the group; the largest first."""
        names = self.geometry.names
        pairs, k = near_pairs(self.geometry.means, _SHARED).numpy(), len(names)
        if not pairs.size:
            return ()
        near = coo_array((np.ones(pairs.shape[1]), pairs), shape=(k, k))
        count, components = connected_components(near, directed=False)
        members = class_members(components, count)
        shared = sorted((group.tolist() for group in members if len(group) > 1), key=lambda group: (-len(group), group))
        return tuple(tuple(names[c] for c in group) for group in shared)

    def sentence(self) -> str:
        """The answer to the question."""
        return self._accuracy() if self.question is Question.ACCURACY else self._geometry()

    def _accuracy(self) -> str:
        """How accurately the test images are classified, and which classes are worst."""
        accuracy = self.test.accuracy
        rates = zip(accuracy.by_class, self.test.confusion.names, strict=True)
        worst = sorted((rate, str(name)) for rate, name in rates if rate is not None)[:WORST]
        named = ", ".join(f"{brief(name, 30)} {rate:.3f}" for rate, name in worst)
        return f"Balanced test accuracy {accuracy.balanced:.3f}{accuracy.over()}; the worst classes: {named}."

    def _geometry(self) -> str:
        """Whether the frame is reached."""
        geometry = self.geometry
        numbers = f"distance to the frame {geometry.delta_of:.4f}, beta_NC {geometry.beta_nc:.2g}"
        if geometry.spread > COLLAPSE >= geometry.beta_nc:
            numbers += f", mean squared distance to the class mean {geometry.spread:.2g}"
        if why := geometry.exception():
            numbers += f", {why}"
        sentence = f"The frame is {'' if self.reached else 'not '}reached: {self.signature.sentence} ({numbers})"
        if self.reached and self.question is Question.FRAME:
            accuracy = self.test.accuracy
            sentence += f"; balanced test accuracy {accuracy.balanced:.3f}{accuracy.over()}"
        if self.test.frame_balanced is not None:
            sentence += f"; the nearest axis of the frame has balanced test accuracy {self.test.frame_balanced:.3f}"
        sentence += _merged_words(self.merged, len(self.test.confusion.names))
        if self.settling is not None:
            before, after = self.settling
            sentence += f"; settling took balanced validation accuracy from {before:.3f} to {after:.3f}"
        return f"{sentence}."

    def record(self, spell: Spell = str) -> VerdictRecord:
        """What `verdict.json` says, with options as the reader writes them."""
        causes = tuple(
            CauseRecord(likely.cause, likely.sentence(spell), spelled(likely.advice, spell)) for likely in self.causes
        )
        return VerdictRecord(
            sentence=self.sentence(),
            reached=self.reached,
            signature=self.signature,
            ending=self.ending,
            causes=causes,
            merged=self.merged,
            test=self.test,
            question=self.question,
            geometry=self._geometry() if self.question is Question.ACCURACY else "",
        )


def diagnose(
    task: Task, certified: RunCertificate, records: Sequence[EpochRecord], evaluation: Evaluation
) -> Diagnosis:
    """Answer the question of a run; where the answer could be better, say why that may be, and what to try."""
    geometry = evaluation.geometry
    signature = {
        (True, True): Signature.FRAME,
        (True, False): Signature.NOT_COLLAPSED,
        (False, True): Signature.NOT_ORTHOGONAL,
        (False, False): Signature.NEITHER,
    }[geometry.orthogonal, geometry.collapsed]
    causes: list[LikelyCause] = []
    ending = None
    assert evaluation.final_test is not None  # it is the last evaluation
    question = Question.ACCURACY if task.settings.is_for_accuracy else Question.FRAME
    if question is Question.ACCURACY:
        causes = accuracy_causes(task, records, evaluation.final_test)
    elif signature is not Signature.FRAME:
        causes, ending = explanation(task, certified, records, geometry)
    return Diagnosis(
        question=question,
        signature=signature,
        ending=ending,
        causes=tuple(causes),
        geometry=geometry,
        test=evaluation.final_test,
        settling=_settling(task.settings, records),
    )


def _settling(settings: Settings, records: Sequence[EpochRecord]) -> tuple[float, float] | None:
    """Balanced validation accuracy before the run settles, and at the end; of losses with a frame."""
    schedule, objective = settings.schedule, settings.objective
    settles = schedule.settling_epoch < schedule.epochs and (settings.images.augment or objective.classifier_leaves)
    if not settles or not objective.has_head or settings.evaluation.probe:  # which classifies only at the end
        return None
    augmented = [record for record in records if not schedule.is_clean(record.epoch - 1)]
    before = augmented[-1].validation_balanced_accuracy if augmented else None
    after = records[-1].validation_balanced_accuracy
    return None if before is None or after is None else (before, after)


def _merged_words(groups: Sequence[Sequence[int | str]], classes: int) -> str:
    """The groups in words: `; classes 3, 7 and 12 share a direction`."""
    if not groups:
        return ""
    if len(groups[0]) == classes:
        return f"; {'both' if classes == 2 else f'all {classes}'} classes share a direction"
    words = []
    for group in groups[:_GROUPS]:
        *names, last = (brief(name, 30) for name in group[:_NAMED])
        if len(group) > _NAMED:
            names, last = [*names, last], f"{len(group) - _NAMED} more"
        words.append(f"{', '.join(names)} and {last}")
    more = len(groups) - len(words)
    others = [f", and so do {each}" for each in words[1:]]
    if more:
        others.append(f", and so do {more} more groups" if more > 1 else ", and so does one more group")
    return f"; classes {words[0]} share a direction{''.join(others)}"
