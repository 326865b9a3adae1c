"""A proof, or a counterexample, that a list of batches leads to the orthogonal frame."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orthoframe.batches._labels import Integers, Labels, whole_number
from orthoframe.batches._scan import Scan, scan
from orthoframe.batches._witness import witness

# Whether a loss with this denominator feels a batch of a single class.
_DENOMINATORS = {"all": True, "sincere": False, "negatives": False, "class-average": True}
_SHOWN = 3  # pieces of a class, and samples of a piece, that are listed


@dataclass(frozen=True)
class ClassReport:
    """How the batches connect one class."""

    name: int | str
    samples: int
    absent: int  # samples that are in no batch
    components: int  # pieces that the optimum may place apart; 1 is what one wants
    components_as_stated: int  # pieces of the batch interaction graph
    smallest: tuple[tuple[int, ...], ...]  # some samples of the smallest pieces, if there are several


@dataclass(frozen=True)
class Certificate:
    """What a list of batches guarantees; `str()` says it in a sentence and a small table.

    Attributes:
        holds: Whether the orthogonal frame is the only optimum: the effective condition, which is exact.
        holds_as_stated: Whether the batch interaction graph satisfies the paper's condition, which overlooks that two
            single rows do not push each other apart and that a batch of one class does not make it collapse.
        classes: A report for each class.
        num_batches: Batches that were looked at.
        memberships: Rows that were looked at, before views.
        single_class_batches: Batches that hold one class only.
        absent: Samples that are in no batch.
        additions_to_connect: How many samples `repair` adds to batches so that each class is connected; the fewest
            possible if batches are disjoint. Missing pairs may need more.
    """

    holds: bool
    holds_as_stated: bool
    classes: tuple[ClassReport, ...]
    num_batches: int
    memberships: int
    single_class_batches: int
    absent: int
    additions_to_connect: int
    _scan: Scan

    @property
    def missing_pairs(self) -> tuple[tuple[int | str, int | str], ...]:
        """Classes that no batch pushes apart."""
        return self._named(~self._scan.met)

    @property
    def singleton_pairs(self) -> tuple[tuple[int | str, int | str], ...]:
        """Those of the missing pairs that do share a batch, always as a single row each."""
        return self._named(self._scan.touched & ~self._scan.met)

    def _named(self, pairs: NDArray[np.bool_]) -> tuple[tuple[int | str, int | str], ...]:
        names = self._scan.labels.names
        return tuple((names[a], names[b]) for a, b in np.argwhere(np.triu(pairs)).tolist())

    @property
    def components(self) -> dict[int | str, int]:
        """Pieces of each class."""
        return {report.name: report.components for report in self.classes}

    def piece_sizes(self) -> dict[int | str, list[int]]:
        """Samples in each piece of each class, the largest first."""
        labels, roots = self._scan.labels, self._scan.components.roots()
        _, first, sizes = np.unique(roots, return_index=True, return_counts=True)
        owners = labels.classes[first]
        return {name: sorted(sizes[owners == c].tolist(), reverse=True) for c, name in enumerate(labels.names)}

    def witness(self) -> NDArray[np.float64] | None:
        """Features `[samples, dim]` that show why it fails; None if it holds.

        Non-negative and unit, they reach the loss floor on every batch, and are no orthogonal frame.
        """
        return None if self.holds else witness(self._scan)

    def sentence(self) -> str:
        """The verdict, and what to do."""
        if self.holds:
            return (
                f"Certified: with non-negative features of at least {len(self.classes)} dimensions, the orthogonal "
                "frame is the only optimum of these batches."
            )
        reasons = []
        broken = [report for report in self.classes if report.components > 1]
        if broken:
            worst = max(broken, key=lambda report: report.components)
            others = f", and {len(broken) - 1} more in several" if len(broken) > 1 else ""
            reasons.append(f"class {worst.name} is in {worst.components} pieces{others}")
        if self.absent:
            reasons.append(f"{self.absent} samples are in no batch")
        missing = np.argwhere(np.triu(~self._scan.met))
        if len(missing):
            a, b = (self._scan.labels.names[c] for c in missing[0])
            how = "meet only as single rows" if self._scan.touched[tuple(missing[0])] else "never meet"
            others = f", nor are {len(missing) - 1} more pairs" if len(missing) > 1 else ""
            reasons.append(f"classes {a} and {b} {how} and so are not pushed apart{others}")
        advice = (
            f"repair() connects the classes with {self.additions_to_connect} additions" if broken else "use repair()"
        )
        return f"Not certified: {'; '.join(reasons)}. Bind the batches, or {advice}."

    def __str__(self) -> str:
        rows = [self.sentence(), ""]
        rows.append(f"{'class':>12} {'samples':>9} {'absent':>7} {'pieces':>7} {'as stated':>10}  smallest pieces")
        # The worst first: they are what a reader looks for.
        ordered = sorted(self.classes, key=lambda report: (-report.components, -report.absent))
        for report in ordered[:12]:
            smallest = " ".join("{" + ", ".join(map(str, piece)) + "}" for piece in report.smallest)
            rows.append(
                f"{str(report.name)[:12]:>12} {report.samples:>9} {report.absent:>7} {report.components:>7} "
                f"{report.components_as_stated:>10}  {smallest}".rstrip()
            )
        if len(ordered) > 12:
            rows.append(f"{'...':>12} {len(ordered) - 12} more classes")
        pairs = len(self.classes) * (len(self.classes) - 1) // 2
        missing = int(np.triu(~self._scan.met).sum())
        singletons = int(np.triu(self._scan.touched & ~self._scan.met).sum())
        rows.append("")
        rows.append(
            f"{self.num_batches} batches ({self.single_class_batches} of a single class), {self.memberships} rows; "
            f"{missing} of {pairs} class pairs are not pushed apart ({singletons} of them meet as single rows)."
        )
        rows.append(f"The paper's condition, as stated, {'holds' if self.holds_as_stated else 'does not hold'}.")
        return "\n".join(rows)

    def to_dict(self) -> dict[str, Any]:
        """Everything, in types that JSON knows."""
        return {
            "holds": self.holds,
            "holds_as_stated": self.holds_as_stated,
            "sentence": self.sentence(),
            "classes": [
                {
                    "name": report.name,
                    "samples": report.samples,
                    "absent": report.absent,
                    "components": report.components,
                    "components_as_stated": report.components_as_stated,
                    "smallest": [list(piece) for piece in report.smallest],
                }
                for report in self.classes
            ],
            "missing_pairs": [list(pair) for pair in self.missing_pairs],
            "singleton_pairs": [list(pair) for pair in self.singleton_pairs],
            "num_batches": self.num_batches,
            "memberships": self.memberships,
            "single_class_batches": self.single_class_batches,
            "absent": self.absent,
            "additions_to_connect": self.additions_to_connect,
        }


def certify(
    labels: Sequence[Any] | NDArray[Any],
    batches: Iterable[Any],
    *,
    views: int | None = None,
    denominator: str = "all",
) -> Certificate:
    """Decide whether a list of batches has the orthogonal frame as its only optimum.

    For non-negative unit features, and enough dimensions, the optima of the supervised contrastive loss summed over the
    batches are exactly the orthogonal frames if and only if (a) each class is one piece, where rows of a class are
    joined by each batch that also holds another class, and by a batch of that class alone once two of its three or more
    rows are joined; and (b) each two classes meet in a batch in which one of them has two rows.

    Args:
        labels: `[samples]`, the class of each sample: integers or strings.
        batches: Lists of sample indices: a list, a `BatchPlan`, the `batch_sampler` of a DataLoader, the path of a file
            of JSON lines, any iterable. An index that is in a batch twice counts as two rows. A sampler that has a
            state is put back where it was.
        views: Rows that each index stands for; 1, or those of the plan, by default.
        denominator: That of the loss. With `"sincere"` and `"negatives"` a batch of a single class has no force at all.

    Returns:
        The certificate.

    Raises:
        ValueError: For an index out of range, or labels or batches of a wrong shape.
        TypeError: For labels or batches of a wrong type.

    Examples:
        >>> labels = [0, 0, 1, 1]
        >>> certify(labels, [[0, 1, 2, 3]]).holds
        True
        >>> print(certify(labels, [[0, 2], [1, 3]]).sentence())  # doctest: +ELLIPSIS
        Not certified: class 0 is in 2 pieces, and 1 more in several; classes 0 and 1 meet only as single rows and ...
    """
    views = whole_number("views", getattr(batches, "views", 1) if views is None else views, 1)
    state = batches.state_dict() if hasattr(batches, "state_dict") and hasattr(batches, "load_state_dict") else None
    if denominator not in _DENOMINATORS:
        raise ValueError(f"denominator must be one of {', '.join(map(repr, _DENOMINATORS))}, not {denominator!r}")
    found = scan(Labels.of(labels), batches, views, _DENOMINATORS[denominator])
    if state is not None:
        batches.load_state_dict(state)  # type: ignore[attr-defined]
    return _report(found)


def _report(found: Scan) -> Certificate:
    from orthoframe.batches._repair import additions_to_connect

    labels, names = found.labels, found.labels.names
    counts, absent = labels.counts, np.bincount(labels.classes[~found.seen], minlength=len(names))
    pieces = found.components.pieces()
    smallest = _smallest(labels, pieces, found.components.roots())
    as_stated = found.components_as_stated().pieces()
    return Certificate(
        holds=bool((pieces <= 1).all() and found.met.all()),
        holds_as_stated=bool((as_stated <= 1).all() and found.touched.all()),
        classes=tuple(
            ClassReport(
                names[c], int(counts[c]), int(absent[c]), int(pieces[c]), int(as_stated[c]), smallest.get(c, ())
            )
            for c in range(len(names))
        ),
        num_batches=found.num_batches,
        memberships=found.memberships,
        single_class_batches=found.single_class_batches,
        absent=int(absent.sum()),
        additions_to_connect=additions_to_connect(found),
        _scan=found,
    )


def _smallest(labels: Labels, pieces: Integers, roots: Integers) -> dict[int, tuple[tuple[int, ...], ...]]:
    """Some samples of the smallest pieces of classes that are in several; of the first hundred such classes."""
    smallest: dict[int, tuple[tuple[int, ...], ...]] = {}
    for c in np.flatnonzero(pieces > 1)[:100].tolist():
        members = np.flatnonzero(labels.classes == c)
        own, sizes = np.unique(roots[members], return_counts=True)
        chosen = own[np.argsort(sizes, kind="stable")[:_SHOWN]]
        smallest[c] = tuple(tuple(members[roots[members] == root][:_SHOWN].tolist()) for root in chosen)
    return smallest
