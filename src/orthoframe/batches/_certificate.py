"""A proof, or a counterexample, that a list of batches leads to the orthogonal frame."""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orthoframe._rows import AnyLabels, Integers, Labels
from orthoframe.batches._lists import index_lists
from orthoframe.batches._repair import additions_to_connect
from orthoframe.batches._scan import Scan, scan
from orthoframe.files import json_ready
from orthoframe.options import Denominator, check_choice, check_count

_COMPUTED = ("num_missing_pairs", "missing_pairs", "singleton_pairs", "absent_samples")
_LISTED = 100_000  # pairs of classes that are listed
_SHOWN = 3  # components per class, and samples per component, that are listed
# The angle by which a witness leans: far from both 0 and a right angle.
_COSINE = 0.8
_SINE = math.sqrt(1 - _COSINE**2)


@dataclass(frozen=True)
class ClassReport:
    """How the batches connect one class."""

    name: int | str
    samples: int
    absent: int  # samples that are in no batch
    components: int  # groups that an optimum may place apart; 1 if the class is connected
    components_as_stated: int  # connected components of the batch interaction graph
    smallest: tuple[tuple[int, ...], ...]  # a few samples of the smallest components, if there are several


@dataclass(frozen=True)
class Certificate:
    """The verdict on a list of batches; `str()` is a sentence and a small table.

    Attributes:
        holds: Whether the orthogonal frame is the only optimum (an exact condition).
        holds_as_stated: Whether the batch interaction graph satisfies the condition as stated in the paper, which
            overlooks that two singletons do not push each other apart, and that a batch of a single class does not
            make the class collapse.
        classes: One report per class.
        num_batches: Number of batches.
        memberships: Total size of the batches, before views.
        single_class_batches: Number of batches that hold a single class.
        absent: Number of samples that are in no batch; `absent_samples` are their indices.
        additions_to_connect: Number of samples that `repair` adds to connect every class, which is minimal if batches
            are disjoint. Class pairs that do not meet may need more. With a frame term, the samples in no batch.
        frame: Whether the loss has a frame term, which has a unique optimum for each sample, if there are at least
            two classes.
    """

    holds: bool
    holds_as_stated: bool
    classes: tuple[ClassReport, ...]
    num_batches: int
    memberships: int
    single_class_batches: int
    absent: int
    additions_to_connect: int
    frame: bool
    _scan: Scan = field(repr=False)

    @property
    def _by_frame(self) -> bool:
        return _frame_acts(self.frame, self._scan.labels)

    @cached_property
    def num_missing_pairs(self) -> int:
        """Number of pairs of classes that no batch pushes apart."""
        return self._scan.met.num_missing()

    @property
    def missing_pairs(self) -> tuple[tuple[int | str, int | str], ...]:
        """Pairs of classes that no batch pushes apart; the first 100,000 of `num_missing_pairs`."""
        return self._named(self._scan.met.missing(_LISTED))

    @property
    def singleton_pairs(self) -> tuple[tuple[int | str, int | str], ...]:
        """The missing pairs that do share batches, but only with a single row each; the first 100,000 of them."""
        return self._named(self._scan.met.missing(_LISTED, among=self._scan.touched))

    def _named(self, pairs: list[tuple[int, int]]) -> tuple[tuple[int | str, int | str], ...]:
        names = self._scan.labels.names
        return tuple((names[a], names[b]) for a, b in pairs)

    @property
    def absent_samples(self) -> tuple[int, ...]:
        """Indices of the samples that are in no batch."""
        return tuple(np.flatnonzero(~self._scan.seen).tolist())

    @property
    def components(self) -> dict[int | str, int]:
        """Number of components of each class."""
        return {report.name: report.components for report in self.classes}

    def piece_sizes(self) -> dict[int | str, list[int]]:
        """Sizes of the components of each class, the largest first."""
        labels, numbers = self._scan.labels, self._scan.components.numbers
        _, first, sizes = np.unique(numbers, return_index=True, return_counts=True)
        owners = labels.classes[first]
        return {name: sorted(sizes[owners == c].tolist(), reverse=True) for c, name in enumerate(labels.names)}

    def witness(self) -> NDArray[np.float64] | None:
        """Features `[samples, dim]` that show why it fails; None if it holds.

        They are non-negative unit rows that reach the loss floor on every batch but are not an orthogonal frame: each
        class is on its own axis, except for what the batches leave free. Two classes that no batch pushes apart may
        lean towards each other. If a class has several components, one may lean into an extra dimension; components
        that share a batch of that class alone must stay equiangular, so they lean together, each into its own
        dimension. With a frame term, a sample that is in no batch may lean towards another class.
        """
        if self.holds:
            return None
        result, classes, k = self._scan, self._scan.labels.classes, len(self.classes)
        if self._by_frame:
            features = np.eye(k)[classes]
            free = self.absent_samples[0]
            features[free] = np.roll(features[free], 1) * _SINE + features[free] * _COSINE
            return features
        axes = np.eye(k)
        for a, b in result.met.missing(1):
            axes[b] = _COSINE * axes[a] + _SINE * axes[b]
            return axes[classes]
        numbers = result.components.numbers
        leaning = _leaning_components(result, numbers)
        features = np.pad(axes[classes], ((0, 0), (0, len(leaning))))
        for extra, piece in enumerate(leaning, start=k):
            features[numbers == piece] *= _COSINE
            features[numbers == piece, extra] = _SINE
        return features

    def sentence(self) -> str:
        """The verdict, and what to do."""
        if self.frame and not self._by_frame:
            return f"{self._verdict()} The frame term of a single class is 0, so the loss alone decides."
        return self._verdict()

    def _verdict(self) -> str:
        if self.holds:
            features = f"with non-negative features of at least {len(self.classes)} dimensions"
            if self._by_frame:
                each = "the frame term has a unique optimum for every sample"
                return f"Certified: {features}, {each}, and every sample is in a batch."
            return f"Certified: {features}, the orthogonal frame is the only optimum of these batches."
        if self._by_frame:
            return f"Not certified: {self.reasons()}; the frame term never reaches them. Add them to any batch."
        if self._scan.company.differs:
            anew = "If each epoch draws its batches anew, more epochs cost nothing; if not, bind or repair the batches."
            return f"Not certified: {self.reasons()}. {anew}"
        count = self.additions_to_connect
        cost = ""
        if any(report.components > 1 for report in self.classes):
            cost = f": {count} addition{'s connect' if count > 1 else ' connects'} every class"
        return f"Not certified: {self.reasons()}. Bind the batches, or repair them{cost}."

    def reasons(self) -> str:
        """Why it does not hold, without a full stop; empty if it holds."""
        if self._by_frame:
            return self._named_absent() if self.absent else ""
        reasons = []
        broken = [report for report in self.classes if report.components > 1]
        if broken:
            worst = max(broken, key=lambda report: report.components)
            reasons.append(f"class {worst.name} splits into {worst.components} components")
            if len(broken) > 1:
                reasons.append(f"{len(broken)} classes are disconnected in total")
        if self.absent:
            reasons.append(self._named_absent())
        names, touched = self._scan.labels.names, self._scan.touched
        for a, b in self._scan.met.missing(1):
            how = "share batches only as singletons" if touched.rows(np.array([a]))[0, b] else "never meet"
            reasons.append(f"classes {names[a]} and {names[b]} {how}, so they are not pushed apart")
            if self.num_missing_pairs > 1:
                reasons.append(f"{self.num_missing_pairs} class pairs are not pushed apart in total")
        return "; ".join(reasons)

    def _named_absent(self) -> str:
        few = ", ".join(map(str, self.absent_samples[:_SHOWN])) + (", ..." if self.absent > _SHOWN else "")
        return f"{self.absent} samples are in no batch ({few})" if self.absent > 1 else f"sample {few} is in no batch"

    def __str__(self) -> str:
        header = f"{'class':>12} {'samples':>9} {'absent':>7} {'components':>11} {'as stated':>10}  smallest components"
        rows = [self.sentence(), "", header]
        # The worst first, because readers look for them.
        ordered = sorted(self.classes, key=lambda report: (-report.components, -report.absent))
        for report in ordered[:12]:
            smallest = " ".join("{" + ", ".join(map(str, piece)) + "}" for piece in report.smallest)
            rows.append(
                f"{str(report.name)[:12]:>12} {report.samples:>9} {report.absent:>7} {report.components:>11} "
                f"{report.components_as_stated:>10}  {smallest}".rstrip()
            )
        if len(ordered) > 12:
            rows.append(f"{'...':>12} {len(ordered) - 12} more classes")
        singletons = self._scan.met.num_missing(among=self._scan.touched)
        rows += [
            "",
            f"{self.num_batches} batches ({self.single_class_batches} of a single class), {self.memberships} rows; "
            f"{self.num_missing_pairs} of {math.comb(len(self.classes), 2)} class pairs are not pushed apart "
            f"({singletons} of them share batches as singletons).",
            f"The paper's condition, as stated, {'holds' if self.holds_as_stated else 'does not hold'}.",
        ]
        return "\n".join(rows)

    def to_dict(self) -> dict[str, Any]:
        """All attributes, in types that JSON knows."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.name != "_scan"}
        values |= {"classes": [asdict(report) for report in self.classes], "sentence": self.sentence()}
        values |= {name: getattr(self, name) for name in _COMPUTED}
        return dict(json_ready(values))


def certify(
    labels: AnyLabels | Labels,
    batches: Iterable[Any],
    *,
    views: int | None = None,
    denominator: Denominator = "all",
    prototypes: bool = False,
    frame: bool = False,
) -> Certificate:
    """Decide whether a list of batches has the orthogonal frame as its only optimum.

    For non-negative unit features and enough dimensions, the optima of the supervised contrastive loss summed over the
    batches are exactly the orthogonal frames if and only if (a) each class is connected, where a batch joins its rows
    of a class if it also holds another class, or if it holds three or more rows of that class alone and two of them are
    joined already; and (b) every two classes meet in a batch in which one of them has at least two rows.

    A frame term (`frame_loss`, `FrameLoss`) needs none of this: each sample has one optimum by itself, its class's row
    of the frame, and it is enough that every sample is in some batch. So has the sum of a frame term and the loss. A
    single class is the exception: its frame term is 0 everywhere, and the batches are judged by the loss alone.

    Args:
        labels: `[samples]`, the class of each sample: integers or strings.
        batches: Lists of sample indices: a list, a `BatchPlan`, the `batch_sampler` of a DataLoader, the path of a file
            of JSON lines, or any other iterable. An index that is in a batch twice counts as two rows. A sampler with a
            `state_dict` is left in the state that it was in.
        views: Rows per index; by default 1, or the views of the plan.
        denominator: The denominator of the loss. With `"sincere"` and `"negatives"` a batch of a single class has no
            effect.
        prototypes: Whether every batch also holds one fixed extra sample per class.
        frame: Whether the loss has a frame term, alone or as a part.

    Returns:
        The certificate.

    Raises:
        ValueError: For an index out of range, labels or batches of a wrong shape, or an option that is not allowed.
        TypeError: For labels or batches of a wrong type.
        InputError: For a file that cannot be used.

    Examples:
        >>> labels = [0, 0, 1, 1]
        >>> certify(labels, [[0, 1, 2, 3]]).holds
        True
        >>> print(certify(labels, [[0, 2], [1, 3]]).sentence())  # doctest: +ELLIPSIS
        Not certified: class 0 splits into 2 components; 2 classes are disconnected in total; classes 0 and 1 ...
    """
    check_choice("denominator", denominator, Denominator)
    views = check_count("views", getattr(batches, "views", 1) if views is None else views)
    state = batches.state_dict() if hasattr(batches, "state_dict") and hasattr(batches, "load_state_dict") else None
    try:
        return _certificate(Labels.of(labels), batches, views, denominator, prototypes, frame)
    finally:
        if state is not None:
            batches.load_state_dict(state)  # type: ignore[attr-defined]


def _certificate(
    labels: Labels, batches: Iterable[Any], views: int, denominator: Denominator, prototypes: bool, frame: bool
) -> Certificate:
    if prototypes:
        samples, k = len(labels.classes), len(labels.names)
        fixed = np.arange(samples, samples + k)
        batches = (np.concatenate([batch, fixed]) for batch in index_lists(batches, samples))
        labels = Labels(np.concatenate([labels.classes, np.arange(k, dtype=labels.classes.dtype)]), labels.names)
    result = scan(labels, batches, views, denominator not in ("sincere", "negatives"))
    absent = np.bincount(labels.classes[~result.seen], minlength=len(labels.names))
    as_stated = result.components_as_stated().pieces()
    by_frame = _frame_acts(frame, labels)
    if by_frame:
        result.hold_by_frame()
    pieces = result.components.pieces()
    smallest = _smallest_components(labels, pieces, result.components.numbers)
    counts = labels.counts
    reports = (
        ClassReport(
            name=name,
            samples=int(counts[c]),
            absent=int(absent[c]),
            components=int(pieces[c]),
            components_as_stated=int(as_stated[c]),
            smallest=smallest[c],
        )
        for c, name in enumerate(labels.names)
    )
    holds = bool((pieces <= 1).all() and result.met.complete)
    additions = 0
    if by_frame:
        additions = int(absent.sum())
    elif not holds:
        additions = additions_to_connect(result)
    return Certificate(
        holds=holds,
        holds_as_stated=bool((as_stated <= 1).all() and result.touched.complete),
        classes=tuple(reports),
        num_batches=result.num_batches,
        memberships=result.memberships,
        single_class_batches=result.single_class_batches,
        absent=int(absent.sum()),
        additions_to_connect=additions,
        frame=bool(frame),
        _scan=result,
    )


def _frame_acts(frame: bool, labels: Labels) -> bool:
    """Whether a frame term has one optimum; the softmax of a single class is 1 everywhere."""
    return bool(frame) and len(labels.names) > 1


def _smallest_components(labels: Labels, pieces: Integers, numbers: Integers) -> list[tuple[tuple[int, ...], ...]]:
    """A few samples of the smallest components of the first hundred disconnected classes."""
    smallest: list[tuple[tuple[int, ...], ...]] = [()] * len(pieces)
    for c in np.flatnonzero(pieces > 1)[:100].tolist():
        members = np.flatnonzero(labels.classes == c)
        class_numbers, sizes = np.unique(numbers[members], return_counts=True)
        chosen = class_numbers[np.argsort(sizes, kind="stable")[:_SHOWN]]
        smallest[c] = tuple(tuple(members[numbers[members] == number][:_SHOWN].tolist()) for number in chosen)
    return smallest


def _leaning_components(result: Scan, numbers: Integers) -> list[int]:
    """The smallest set of components of a class that no batch of that class alone ties to its other components."""
    broken = (result.components.pieces() > 1)[result.labels.classes]
    tied = {piece: {piece} for piece in np.unique(numbers[broken]).tolist()}
    for batch in result.single.values():
        if len(batch.samples) > 2:  # two rows are free
            together = set().union(*(tied[number] for number in numbers[batch.samples].tolist()))
            tied |= dict.fromkeys(together, together)
    return min((sorted(pieces) for pieces in tied.values()), key=len)
