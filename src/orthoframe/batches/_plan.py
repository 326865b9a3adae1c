"""The batches of every epoch, as a pure function, and what they guarantee over a run."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orthoframe._rows import AnyLabels, Integers, Labels, Weights, positive_array
from orthoframe.batches._certificate import Certificate, certify
from orthoframe.batches._schemes import ClassDraws, balanced, bind, choose_examples, draw_rows, rare_hub, spread
from orthoframe.errors import Option, OptionError
from orthoframe.options import POWER, Binding, Denominator, Scheme, check_choice, check_count, check_number

# Each draw has its own random stream, so that changing one leaves the others as they were.
_PARTITION, _EPOCH, _EXAMPLES, _ADDED, _CLASS_DRAWS = range(5)
_ROW_DRAWS, _ROW_EXAMPLES, _ROW_ADDED = ((7, number) for number in range(3))  # with `weights`
_MOST_EPOCHS = 20  # that `certify_run` certifies together
_MOST_BALANCED = 2**24  # rows in a batch
_MEAN_EPOCHS = 100  # whose batches are averaged where shares have no formula


class BatchPlan:
    """Which examples meet: a pure function of (labels, seed, epoch).

    Every sample is in exactly one batch of an epoch before binding, except with the schemes `balanced`, which shows
    small classes several times, and `weighted`, which also shows large ones in part, and with `weights`; see `chances`.
    Iterating over a plan gives the batches of epoch 0.

    Args:
        labels: `[samples]`, integers or strings.
        batch_size: Samples in a batch, before binding; `None` only with the scheme `full`.
        scheme: `"full"`, `"partition"`, `"reshuffle"`, `"balanced"`, `"weighted"` or `"rare-hub"`; see
            `orthoframe.options.Scheme`.
        binding: `"none"`, `"fixed"`, `"present"`, `"redrawn"` or `"random"`; see `orthoframe.options.Binding`.
        seed: Seed of everything that is random.
        views: Augmented views of each sample in training; the certificate counts each as a row.
        bound_examples: Binding examples per class.
        bound_classes: The classes that are bound, or how many (the first ones); all by default. With fewer, the
            certificate may fail.
        examples: The sample or samples that bind a class, for some or all bound classes; drawn at random by default.
        drop_last: Whether to leave out the last batch if it is short.
        power: With the scheme `weighted`, from 0 (all classes equally often) to 1 (in proportion to their sizes); 0.5
            by default.
        weights: `[samples]`, positive; with the scheme `reshuffle`. An epoch still has as many rows as there are
            samples, n, but sample i is drawn n w_i / (sum of w) times on average, and in each epoch that number rounded
            up or down. The binding draws by weight, too.

    Raises:
        OptionError: For options that are not allowed or contradict each other.
        ValueError: For labels that are empty, or weights that are not positive or not one per sample.

    Examples:
        >>> labels = [0, 0, 0, 0, 1, 1]
        >>> plan = BatchPlan(labels, 3, scheme="partition", binding="fixed", seed=1)
        >>> [len(batch) for batch in plan.batches(0)]
        [5, 5]
        >>> plan.certificate().holds
        True
    """

    def __init__(
        self,
        labels: AnyLabels | Labels,
        batch_size: int | None,
        *,
        scheme: Scheme = "reshuffle",
        binding: Binding = "fixed",
        seed: int = 0,
        views: int = 1,
        bound_examples: int = 1,
        bound_classes: Sequence[Any] | int | None = None,
        examples: Mapping[Any, int | Sequence[int]] | None = None,
        drop_last: bool = False,
        power: float | None = None,
        weights: Weights | None = None,
    ) -> None:
        check_choice("scheme", scheme, Scheme)
        check_choice("binding", binding, Binding)
        self.labels = Labels.of(labels)
        self.scheme, self.binding, self.drop_last = scheme, binding, drop_last
        self.seed, self.views = check_count("seed", seed, 0), check_count("views", views)
        self.bound_examples = check_count("bound_examples", bound_examples)
        self.batch_size = self._checked_batch_size(batch_size)
        k = len(self.labels.names)
        if scheme != "weighted" and power is not None:
            raise OptionError(Option("power"), " is for ", Option("scheme", "weighted"), " only; leave it out")
        self.power: float | None = None
        self._class_draws: ClassDraws | None = None
        if scheme == "weighted":
            self.power = check_number("power", POWER if power is None else power, least=0, most=1)
            key = np.random.SeedSequence([self.seed, _CLASS_DRAWS]).generate_state(2, np.uint64)
            self._class_draws = ClassDraws(self.labels, self.power, key)
        self.weights = None if weights is None else self._checked_weights(weights)
        self._row_chances = None if self.weights is None else self.weights / self.weights.sum()
        others = {
            "drop_last": drop_last,
            "bound_classes": bound_classes is not None,
            "bound_examples": bound_examples > 1,
        }
        if binding == "present" and any(others.values()):
            extra = next(name for name, is_set in others.items() if is_set)
            raise OptionError(Option("binding", "present"), " adds only what is missing; leave out ", Option(extra))
        if isinstance(bound_classes, int | np.integer):
            if check_count("bound_classes", bound_classes) > k:
                at_most = f" must be at most {k}, the number of classes, not {bound_classes}"
                raise OptionError(Option("bound_classes"), at_most)
            bound_classes = self.labels.names[: int(bound_classes)]
        bound = [] if binding == "none" else bound_classes
        random = self._random(_EXAMPLES) if self.weights is None else self._random(*_ROW_EXAMPLES)
        self._examples = choose_examples(self.labels, bound, self.bound_examples, examples, random, self._row_chances)

    def _checked_batch_size(self, batch_size: int | None) -> int | None:
        k = len(self.labels.names)
        if not k:
            raise ValueError("labels are empty; a plan needs at least one sample")
        if self.scheme == "full":
            if batch_size is not None:
                whole, other = " is one batch of all samples; leave out ", ", or choose another "
                raise OptionError(Option("scheme", "full"), whole, Option("batch_size"), other, Option("scheme"))
            return None
        if batch_size is None:
            raise OptionError(Option("scheme", self.scheme), " needs a ", Option("batch_size"))
        batch_size = check_count("batch_size", batch_size)
        if self.scheme == "balanced" and batch_size < k:
            least = f" of at least {k}, one row per class, not {batch_size}"
            raise OptionError(Option("scheme", "balanced"), " needs a ", Option("batch_size"), least)
        if self.scheme == "balanced" and batch_size > _MOST_BALANCED:
            most = f" of at most {_MOST_BALANCED}, because it repeats samples until a batch is full"
            raise OptionError(Option("scheme", "balanced"), " needs a ", Option("batch_size"), most)
        return batch_size

    def _checked_weights(self, weights: Weights) -> NDArray[np.float64]:
        if self.scheme != "reshuffle":
            raise OptionError(Option("weights"), " are for ", Option("scheme", "reshuffle"), " only; leave them out")
        array, samples = positive_array(weights, "weights"), len(self.labels.classes)
        if len(array) != samples:
            raise ValueError(f"weights must have shape [{samples}], one per sample, not [{len(array)}]")
        return array

    @property
    def examples(self) -> dict[Any, list[int]]:
        """The binding examples of each bound class, which `fixed` and `present` use."""
        return {self.labels.names[c]: chosen.tolist() for c, chosen in self._examples.items()}

    @property
    def repeats(self) -> bool:
        """Whether every epoch has the same batches."""
        return self.scheme in ("full", "partition") and self.binding in ("none", "fixed", "present")

    def batches(self, epoch: int = 0) -> Sequence[Integers]:
        """The batches of an epoch, as arrays of sample indices; a list, or where it is shorter, made one at a time."""
        epoch = check_count("epoch", epoch, 0)
        random = self._random(_ADDED, epoch) if self.weights is None else self._random(*_ROW_ADDED, epoch)
        batches = self._cut(epoch)
        return bind(self.labels, batches, self.binding, self._examples, self.views, random, self._row_chances)

    def _cut(self, epoch: int) -> list[Integers]:
        """The batches of an epoch before binding."""
        if self.batch_size is None:
            return [np.arange(len(self.labels.classes))]
        random = self._random(_PARTITION) if self.scheme == "partition" else self._random(_EPOCH, epoch)
        if self.scheme == "balanced":
            return balanced(self.labels, self.batch_size, random)
        rows = self._rows(epoch, random)
        if self.scheme == "rare-hub":
            batches = rare_hub(self.labels, self.batch_size, rows, random)
        else:
            batches = [rows[start : start + self.batch_size] for start in range(0, len(rows), self.batch_size)]
        if self.drop_last and batches and len(batches[-1]) < self.batch_size:
            batches.pop()
        return batches

    def _rows(self, epoch: int, random: np.random.Generator) -> Integers:
        """The rows of an epoch in a random order."""
        if self._row_chances is not None:
            return draw_rows(self._row_chances, self._random(*_ROW_DRAWS, epoch))
        if self._class_draws is not None:
            return spread(self.labels, self._class_draws.rows(epoch), random)
        return random.permutation(len(self.labels.classes))

    def __iter__(self) -> Iterator[Integers]:
        return iter(self.batches(0))

    def certificate(self, epochs: int = 1, *, denominator: Denominator = "all", frame: bool = False) -> Certificate:
        """Certify the batches of the first epochs together; see `certify`."""
        batches = self._first_epochs(check_count("epochs", epochs))
        return certify(self.labels, batches, views=self.views, denominator=denominator, frame=frame)

    def _first_epochs(self, epochs: int) -> Iterator[Integers]:
        return chain.from_iterable(map(self.batches, range(epochs)))

    def shares(self) -> NDArray[np.float64]:
        """The share of each class in the rows of the batches, binding included, in the order of `labels.names`.

        Exact in expectation over epochs, with two exceptions that depend on what a batch happens to hold, the binding
        `present` and the scheme `rare-hub` with `drop_last`: if their batches change, this is the mean of 100 epochs.

        Examples:
            >>> BatchPlan([0, 0, 0, 1], batch_size=2, binding="none").shares()
            array([0.75, 0.25])
            >>> # two batches, two rows more in each
            >>> BatchPlan([0, 0, 0, 1], batch_size=2, binding="fixed").shares()
            array([0.625, 0.375])
        """
        if self.binding == "present" or (self.scheme == "rare-hub" and self.drop_last):
            return self._class_shares(self._first_epochs(1 if self.repeats else _MEAN_EPOCHS))
        # Binding examples of each class, in each batch; random ones are of all classes.
        added = np.array([len(self._examples.get(c, ())) for c in range(len(self.labels.names))], dtype=np.float64)
        if self.binding == "random":
            mass, total = self._masses()
            added = added.sum() * mass / total
        rows, batches = self._rows_of_classes()
        rows = rows + batches * added
        shares: NDArray[np.float64] = rows / max(1.0, float(rows.sum()))
        return shares

    def chances(self) -> NDArray[np.float64]:
        """How often each sample is in an epoch on average, before binding, in the order of the samples.

        1 with `full`, `partition`, `reshuffle` and `rare-hub`, equal for all samples of a class with `balanced` and
        `weighted`, and in proportion to `weights`. With `drop_last` it is less: exact except for `rare-hub`, where it
        is the mean of 100 epochs.

        Examples:
            >>> plan = BatchPlan([0] * 9 + [1], batch_size=5, scheme="weighted")
            >>> plan.chances()[[0, 9]]  # shares 3/4 and 1/4
            array([0.83333333, 2.5       ])
        """
        if self.drop_last and self.scheme in ("partition", "rare-hub"):
            epochs = 1 if self.scheme == "partition" else _MEAN_EPOCHS
            mean = np.zeros(len(self.labels.classes))
            for batch in chain.from_iterable(map(self._cut, range(epochs))):
                mean[batch] += 1 / epochs
            return mean
        if self._row_chances is not None:
            times: NDArray[np.float64] = sum(map(len, self._cut(0))) * self._row_chances
            return times
        each: NDArray[np.float64] = self._rows_of_classes()[0] / self.labels.counts
        return each[self.labels.classes]

    @property
    def epochs_to_show_all(self) -> int | None:
        """How many epochs show every sample at least once; None if no number is certain: `weights`, or `drop_last`."""
        if self.weights is not None or (self.drop_last and self.scheme not in ("full", "balanced")):
            return None
        return 1 if self._class_draws is None else self._class_draws.epochs_to_show_all()

    def _masses(self) -> tuple[NDArray[Any], float]:
        """The weight of each class in the draws, and of all together."""
        if self._row_chances is not None:
            return np.bincount(self.labels.classes, self._row_chances), 1.0
        return self.labels.counts, self.labels.counts.sum()

    def _rows_of_classes(self) -> tuple[NDArray[np.float64], int]:
        """The rows of each class in an epoch on average, before binding, and the number of batches."""
        batches = self._cut(0)
        mass, total = self._masses()
        if self.scheme == "balanced":
            part = np.full(len(mass), 1 / len(mass))
        elif self.scheme == "partition":
            part = self._class_shares(batches)
        else:
            part = (mass if self._class_draws is None else self._class_draws.expected()) / total
        return sum(map(len, batches)) * part, len(batches)

    def _class_shares(self, batches: Iterable[Integers]) -> NDArray[np.float64]:
        rows = np.zeros(len(self.labels.names))
        for batch in batches:
            rows += np.bincount(self.labels.classes[batch], minlength=len(rows))
        return rows / max(1.0, float(rows.sum()))

    def fingerprint(self) -> str:
        """A short text that is equal for plans with equal batches."""
        settings: list[Any] = [self.batch_size, self.scheme, self.binding, self.seed, self.views, self.drop_last]
        settings += [self.examples] if self.power is None else [self.examples, self.power, "spread"]
        content = repr(settings).encode() + self.labels.classes.astype(np.int32).tobytes()
        fingerprint = hashlib.sha256(content).hexdigest()[:16]
        if self.weights is None:
            return fingerprint
        return hashlib.sha256(fingerprint.encode() + self.weights.tobytes()).hexdigest()[:16]

    def __repr__(self) -> str:
        labels = f"{len(self.labels.classes)} samples of {len(self.labels.names)} classes"
        options = f"batch_size={self.batch_size}, scheme={self.scheme!r}, binding={self.binding!r}, seed={self.seed}"
        power = "" if self.power is None else f", power={self.power:g}"
        weights = "" if self.weights is None else ", weights=..."
        return f"BatchPlan({labels}, {options}{power}{weights})"

    def _random(self, *stream: int) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence([self.seed, *stream])))


@dataclass(frozen=True)
class RunCertificate:
    """The certificate of the batches of a run.

    Attributes:
        certificate: The certificate of the first epochs together.
        epochs: The number of these epochs.
        conclusive: Whether it answers for the whole run: it holds, which further batches cannot undo, or these epochs
            have all batches of the run.
        all_shown_after: Epochs after which every sample has been in a batch; see `BatchPlan.epochs_to_show_all`.
    """

    certificate: Certificate
    epochs: int
    conclusive: bool
    all_shown_after: int | None = 1

    def sentence(self) -> str:
        """The verdict, and what to do; samples that only a later epoch shows are not a fault of the batches.

        Examples:
            >>> labels = [0] * 96 + [1] * 4
            >>> options = {"scheme": "weighted", "power": 0, "binding": "none"}
            >>> plan = BatchPlan(labels, batch_size=10, **options)
            >>> certify_run(plan, 1, frame=True).sentence()
            'Not certified in 1 epoch: 46 samples are in no batch (0, 1, 3, ...). The plan needs 2 epochs to show all.'
        """
        absent, needed = self.certificate.absent, self.all_shown_after
        if self.certificate.holds or not absent or needed is None or needed <= self.epochs:
            return self.certificate.sentence()
        epochs = f"{self.epochs} epoch{'s' if self.epochs > 1 else ''}"
        return f"Not certified in {epochs}: {self.certificate.reasons()}. The plan needs {needed} epochs to show all."


def certify_run(
    plan: BatchPlan,
    epochs: int,
    *,
    denominator: Denominator = "all",
    prototypes: bool = False,
    frame: bool = False,
    names: Sequence[Any] | None = None,
) -> RunCertificate:
    """Certify a run: the first epoch alone or, if that does not hold and the plan changes, up to 20 epochs together.

    Args:
        plan: The plan.
        epochs: Epochs of the run.
        denominator: The denominator of the loss; see `certify`.
        prototypes: Whether every batch also holds one fixed extra sample per class.
        frame: Whether the loss has a frame term, for which it is enough that every sample is in a batch.
        names: `[k]`, names of the classes that replace the plan's labels, in the order of `plan.labels.names`.

    Raises:
        OptionError: For fewer than 1 epoch, or a denominator that does not exist.
        ValueError: If the number of names is not that of the classes.

    Examples:
        >>> labels = [0, 0, 0, 0, 1, 1, 1, 1]
        >>> run = certify_run(BatchPlan(labels, batch_size=4, binding="none"), epochs=100)
        >>> run.certificate.holds, run.epochs
        (True, 20)
        >>> certify_run(BatchPlan(labels, batch_size=4, binding="fixed"), epochs=100).epochs
        1
    """
    epochs = check_count("epochs", epochs)
    labels = plan.labels
    if names is not None:
        if len(names) != len(labels.names):
            raise ValueError(f"names has {len(names)} entries, and the plan {len(labels.names)} classes")
        labels = Labels(labels.classes, tuple(names))
    for number in sorted({1, 1 if plan.repeats else min(epochs, _MOST_EPOCHS)}):
        certificate = certify(
            labels,
            plan._first_epochs(number),
            views=plan.views,
            denominator=denominator,
            prototypes=prototypes,
            frame=frame,
        )
        if certificate.holds:
            break
    conclusive = certificate.holds or plan.repeats or number == epochs
    return RunCertificate(certificate, number, conclusive, plan.epochs_to_show_all)
