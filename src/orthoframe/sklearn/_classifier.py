"""The classifier, with the interface of scikit-learn."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor
from torch.nn.functional import normalize

from orthoframe._processes import find_device
from orthoframe.batches import BatchPlan, Certificate, certify_run
from orthoframe.errors import Option, OptionError
from orthoframe.geometry import NearestCentre, measure
from orthoframe.options import (
    TEMPERATURE,
    Activation,
    Adjust,
    Binding,
    TableLoss,
    check_choice,
    check_count,
    check_number,
    check_size,
    check_temperature,
)
from orthoframe.sklearn._file import load_classifier, plain_labels, save_classifier
from orthoframe.sklearn._fit import (
    SHARES,
    CrossFit,
    Curves,
    FitOptions,
    StopReason,
    cross_fit,
    fit_encoder,
    linear_path,
    relative_weights,
)
from orthoframe.sklearn._network import TableEncoder

Floats = NDArray[np.floating[Any]]
_WIDTH = 256  # of hidden layers, where none are given
_ROWS_AT_ONCE, _ENTRIES_AT_ONCE = 2**13, 2**24  # whose features are computed


@dataclass(frozen=True, kw_only=True)
class _Defaults:
    """What depends on the loss: options, and what a certificate has to know of it."""

    temperature: float
    learning_rate: float
    batch_size: int
    binding: Binding
    has_frame: bool = False  # of directions that are fixed


_DEFAULTS: dict[TableLoss, _Defaults] = {
    "frame": _Defaults(temperature=0.3, learning_rate=0.002, batch_size=256, binding="none", has_frame=True),
    "supcon": _Defaults(temperature=TEMPERATURE, learning_rate=0.1, batch_size=128, binding="fixed"),
}


class FrameClassifier(ClassNamePrefixFeaturesOutMixin, ClassifierMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Classify numeric rows, a table, texts or the embeddings of a foundation model, by the nearest class centre.

    An MLP with a non-negative head is trained towards an orthogonal frame: at the optimum every class, large or small,
    is at a right angle to all others. The loss is the frame term, whose every row is pulled to the place of its class
    in a fixed frame, or the supervised contrastive loss. Its floor is known, and `gap_curve_` is the distance to it
    in each epoch. Training ends early enough to predict well, not at a perfect frame: `geometry_` says how far it is.

    On noisy tables a linear classifier is better. Beside the network there is therefore a linear path, a frame head
    directly on the rows: sqrt(softmax(W x + b)), one dimension per class. These are non-negative unit rows too, and the
    axes are their frame. -log softmax = -2 log cos(row, axis of its class), so that logistic regression pulls each row
    to the axis of its class; a penalty on W keeps it from getting there. The nearest axis is the largest entry of
    W x + b: a linear classifier. Features are those of both, weighted so that scores are (1 - s) times the cosines of
    the network plus s times those of the path. Cross-fitting chooses the share s, `linear_share_`, from 0 to 1. With 1
    no network is trained, and unless scores are adjusted, predictions are those of a linear classifier.

    Columns are standardised inside (mean and scale of the training rows are part of the model), because an MLP on
    columns of different scales fails silently. Values must be finite; impute and encode first. Sparse rows, such as
    TF-IDF, take the linear path alone, here a support vector machine. They are divided by their root mean square
    length and not standardised; only parts of them are ever made dense.

    Args:
        hidden: Units of each hidden layer of a network without linear path. The last has at least one unit per class.
            `()`: the linear path alone. None: (256, 256) and the linear path, mixed by cross-fitting.
        loss: `"frame"`, the frame term, see `frame_loss`; or `"supcon"`, the supervised contrastive loss, which takes
            several times as long. Defaults that are None depend on it.
        temperature: Temperature of the loss, and of `predict_proba` without cross-fitting. None: 0.3; with `"supcon"`
            that of `supcon_loss`.
        activation: Activation of the head, see `orthoframe.options.Activation`. Those with negative values are for
            comparison and have no frame to reach: floor and certificate are for non-negative features.
        binding: What is added to each batch, see `BatchPlan`. None: `"none"`, because every batch leads to the frame;
            with `"supcon"` it is `"fixed"`, one row per class, which guarantees it.
        batch_size: Rows per batch, before binding. None: 256, or 128 with `"supcon"`.
        epochs: Maximum number of epochs. None: 20, more if these are fewer than 100 steps, fewer if they are more than
            3000; with `"supcon"` 100.
        tol: Stop when the gap between the loss and its floor is below this fraction of the gap that the loss has when
            all features coincide.
        learning_rate: The largest one; it falls as a cosine. None: 0.002, of AdamW; with `"supcon"` 0.1, of SGD with
            Nesterov momentum 0.9.
        weight_decay: Decoupled weight decay (AdamW); with `"supcon"` an L2 penalty on the weights.
        dropout: Probability that a hidden unit is dropped, in steps of 1/256.
        class_weight: None, `"square-root"`, `"balanced"`, or a dictionary `{label: weight}`: factors of the weights of
            rows, see `fit`. `"balanced"` makes all classes equally frequent in the batches; with `"square-root"` the
            share of a class is proportional to the square root of its rows. Predictions, and the linear path, always
            treat all classes as equally frequent.
        adjust: `"cross-fit"`: fit a class-size adjustment of the scores, and the temperature of `predict_proba`, to
            rows that were classified by networks trained on the other half; see `fit_adjustment`. Training takes about
            twice as long, as it does already where `hidden` is None. The adjustment stays 0 where it does not raise
            balanced accuracy there by more than its standard error. None: no adjustment.
        device: Where to train: `"auto"` (a GPU if there is one), or any torch device. Predictions are made on the CPU
            in float64, so that they do not depend on which rows are passed together.
        random_state: A seed, a `RandomState`, or None. The same seed gives the same bytes.

    Attributes:
        classes_: `[k]`, the labels.
        centres_: `[k, dim]`, the mean feature of each class, with the weights of rows; float64.
        mean_, scale_: `[columns]`, for standardising.
        temperature_: The temperature of the loss.
        loss_: The loss.
        adjust_: lambda of the scores, `cos - lambda log(class size / largest class size)`; 0 without `adjust`.
        calibration_: A `Calibration` of the scores on held-out rows; None without cross-fitting.
        linear_share_: Share of the linear path in the scores.
        rule_: How features are classified, a `NearestCentre`.
        encoder_: The network, on the CPU.
        plan_: The batches, a `BatchPlan`, over the rows whose weight is not zero.
        geometry_: How the features of these rows are arranged, with the weights of rows; see `measure`.
        certificate_: What the batches guarantee; see `certify_run`. None for a linear path alone.
        loss_gap_: Loss minus floor in the last epoch; NaN for a linear path alone.
        loss_curve_, gap_curve_: The loss, and loss minus floor, one number per epoch.
        stopped_: A `StopReason`: `"floor"`, `"epochs"`, or `"solved"` for a linear path alone, which has no curves.
        n_iter_: Number of epochs.
        n_features_in_, feature_names_in_: Number of columns, and their names if there were any.

    Examples:
        >>> from sklearn.datasets import load_wine
        >>> rows, labels = load_wine(return_X_y=True)
        >>> classifier = FrameClassifier(random_state=0).fit(rows[::2], labels[::2])
        >>> print(classifier.certificate_.holds, classifier.stopped_)
        True epochs
        >>> bool(classifier.score(rows[1::2], labels[1::2]) > 0.9)
        True
    """

    def __init__(
        self,
        hidden: Sequence[int] | None = None,
        loss: TableLoss = "frame",
        temperature: float | None = None,
        activation: Activation = "relu",
        binding: Binding | None = None,
        batch_size: int | None = None,
        epochs: int | None = None,
        tol: float = 0.01,
        learning_rate: float | None = None,
        weight_decay: float = 5e-4,
        dropout: float = 0.2,
        class_weight: dict[Any, float] | Literal["square-root", "balanced"] | None = "square-root",
        adjust: Adjust | None = "cross-fit",
        device: str | torch.device = "auto",
        random_state: int | RandomState | None = None,
    ) -> None:
        self.hidden, self.loss, self.temperature, self.activation = hidden, loss, temperature, activation
        self.binding, self.batch_size = binding, batch_size
        self.epochs, self.tol = epochs, tol
        self.learning_rate, self.weight_decay, self.dropout = learning_rate, weight_decay, dropout
        self.class_weight, self.adjust, self.device, self.random_state = class_weight, adjust, device, random_state

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> "FrameClassifier":
        """Train on rows `[rows, columns]` and their labels `[rows]`, numbers or strings.

        Args:
            X: The rows.
            y: Their labels.
            sample_weight: `[rows]`, at least 0: how often a row is drawn into batches, relative to the others, and how
                much it counts in the centre of its class and in mean and scale of the columns. A weight of 2 is a row
                that is there twice, in the mean over epochs; with a weight of 0 it is not there. Only ratios matter.
                The loss itself is not weighted: rows of a class that count differently in it would move its optimum
                off the frame.

        Raises:
            ValueError: For rows, weights or options that are not allowed, and for fewer than two classes.
            TypeError: For options of the wrong type.
        """
        rows, labels = validate_data(self, X, y, dtype=(np.float64, np.float32), accept_sparse="csr")
        check_classification_targets(labels)
        all_weights = relative_weights(sample_weight, self.class_weight, labels)
        present = all_weights > 0
        rows, labels = rows[present], labels[present]
        weights = None if (all_weights[present] == 1).all() else all_weights[present]
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            among = "" if present.all() else " in the rows whose weight is not zero"
            raise ValueError(f"y has 1 class{among}, {self.classes_.item()!r}; a classifier needs at least 2")
        options, plan_options = self._checked_options()
        device = find_device(self.device)
        seed = int(check_random_state(self.random_state).randint(2**31))
        self.plan_ = BatchPlan(plain_labels(self.classes_)[numbers], weights=weights, **plan_options, seed=seed)
        self._fit_scale(rows, weights)
        self.temperature_, self.loss_, k = options.temperature, options.loss, len(self.classes_)
        hidden = (_WIDTH, max(_WIDTH, k)) if self.hidden is None else tuple(self.hidden)
        scaled = rows / self.scale_[0] if issparse(rows) else self._standardised(rows)
        within = relative_weights(sample_weight, None, np.asarray(y))[
            present
        ]  # in a linear path all classes count the same
        shares = SHARES if self.hidden is None else (float(not hidden),)
        shares = (1.0,) if issparse(rows) else shares
        crossed = CrossFit(share=shares[0])
        if shares != (0.0,) or self.adjust is not None:
            crossed = cross_fit(self, rows, scaled, labels, within, hidden, shares)
        self.adjust_, self.calibration_ = crossed.adjust, crossed.calibration
        encoder = TableEncoder(rows.shape[1], hidden if crossed.share < 1 else (), self.activation, seed)
        curves: Curves = [], [], StopReason.SOLVED
        if crossed.share < 1:
            trained = torch.from_numpy(scaled).float().to(device)
            curves = fit_encoder(encoder.to(device), trained, self.plan_, options)
        self.loss_curve_, self.gap_curve_, self.stopped_ = curves
        if crossed.share:
            encoder.linear, encoder.share = linear_path(scaled, numbers, within, crossed.strength), crossed.share
        self.loss_gap_, self.n_iter_ = (self.gap_curve_ or [math.nan])[-1], max(1, len(self.gap_curve_))
        self.encoder_ = encoder.cpu().double()
        # Not normalised again: rounding must not make predictions differ from those of `predict`.
        names = plain_labels(self.classes_)[numbers]
        self.geometry_ = measure(self._features(rows), names, weights=weights, normalize=False)
        self.centres_ = self.geometry_.means.numpy()
        return self

    @property
    def rule_(self) -> NearestCentre:
        """How features are classified."""
        temperature = self.temperature_ if self.calibration_ is None else self.calibration_.temperature
        centres, dim, share = torch.from_numpy(self.centres_), self.encoder_.dim, self.encoder_.share
        if self.encoder_.linear is not None:  # whose classes have the axes, so that predictions are linear
            axes = torch.eye(len(self.classes_), dtype=torch.float64)
            centres = torch.cat([(1 - share) ** 0.5 * normalize(centres[:, :dim]), share**0.5 * axes], 1)
        return NearestCentre(centres, self.geometry_.counts, self.adjust_, temperature)

    @property
    def certificate_(self) -> Certificate | None:
        """What the batches of the first epoch guarantee, or of up to 20 epochs if one does not suffice.

        None for a linear path alone, which has no batches.
        """
        check_is_fitted(self)
        if self.stopped_ == StopReason.SOLVED:
            return None
        return certify_run(self.plan_, self.n_iter_, frame=_DEFAULTS[self.loss_].has_frame).certificate

    @property
    def linear_share_(self) -> float:
        """Share of the linear path in the scores."""
        return float(self.encoder_.share)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.sparse = not self.hidden
        return tags

    @property
    def partial_fit(self) -> Any:
        """Refused: scales, draws, the share of the linear path and the floor are those of all rows."""
        reason = "more rows change the scales, the draws and the centres of all others; call fit with all rows"
        raise AttributeError(f"FrameClassifier has no partial_fit, because {reason}")

    @property
    def _n_features_out(self) -> int:  # read by ClassNamePrefixFeaturesOutMixin
        return int(self.centres_.shape[1])

    def transform(self, X: ArrayLike) -> Floats:
        """Frame features `[rows, dim]`: unit rows, non-negative with a non-negative activation.

        Those of the network come first, and those of the linear path, one per class, after them.
        """
        rows = self._checked(X)
        return np.asarray(self._features(rows), dtype=rows.dtype)

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Cosines to the class centres, adjusted with `adjust`, `[rows, k]`; of two classes the difference `[rows]`."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class with the largest score, `[rows]`: without `adjust` the class whose centre is nearest by angle.

        In the dimensions of a linear path the centre of a class is its axis instead of the mean. It is the first class
        for a feature that is all zero, if scores are not adjusted.
        """
        nearest = self._scores(X).argmax(1)  # first, because it refuses a classifier that is not fitted
        return np.asarray(self.classes_[nearest])

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Softmax of the scores over a temperature, `[rows, k]`: the one of `calibration_`, or else of the loss.

        Without cross-fitting they are not calibrated.
        """
        scores = self._scores(X)
        assert self.rule_.temperature is not None
        return np.asarray(softmax(scores / self.rule_.temperature, axis=1))

    def save(self, path: str | Path) -> None:
        """Write the fitted classifier to a safetensors file; no pickle."""
        check_is_fitted(self)
        save_classifier(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> "FrameClassifier":
        """Read a classifier that `save` wrote: everything but a `random_state` that was a generator.

        Raises:
            ValueError: If the file is broken, or not a classifier.
            OSError: If it cannot be read.
        """
        classifier = cls()
        load_classifier(classifier, Path(path))
        return classifier

    def _checked_options(self) -> tuple[FitOptions, dict[str, Any]]:
        """The options of the training and of the plan; None becomes the default of the loss."""
        check_choice("loss", self.loss, TableLoss)
        defaults = _DEFAULTS[self.loss]
        classes = self.classes_.tolist()
        if self.hidden is not None and not isinstance(self.hidden, list | tuple):
            raise OptionError(Option("hidden"), f" must be None, or sizes such as (256, 256), not {self.hidden!r}")
        for size in self.hidden or ():
            check_size("hidden", size)
        if self.hidden and self.hidden[-1] < len(classes):
            few = f"{self.hidden[-1]} dimensions are too few for {len(classes)} classes"
            enough = Option("hidden", (*self.hidden[:-1], len(classes)))
            raise OptionError(f"{few}, because a frame needs one per class; use ", enough)
        check_choice("activation", self.activation, Activation)
        binding = defaults.binding if self.binding is None else self.binding
        check_choice("binding", binding, Binding)
        if self.adjust is not None:
            check_choice("adjust", self.adjust, Adjust)
        batch_size = defaults.batch_size if self.batch_size is None else check_count("batch_size", self.batch_size)
        temperature = defaults.temperature if self.temperature is None else self.temperature
        learning_rate = defaults.learning_rate if self.learning_rate is None else self.learning_rate
        options = FitOptions(
            loss=self.loss,
            temperature=check_temperature(temperature),
            epochs=None if self.epochs is None else check_count("epochs", self.epochs),
            tol=check_number("tol", self.tol, least=0),
            learning_rate=check_number("learning_rate", learning_rate, above=0),
            weight_decay=check_number("weight_decay", self.weight_decay, least=0),
            dropout=check_number("dropout", self.dropout, least=0, below=1),
        )
        return options, {"batch_size": batch_size, "binding": binding}

    def _checked(self, X: ArrayLike) -> Any:
        check_is_fitted(self)
        return validate_data(self, X, dtype=(np.float64, np.float32), reset=False, accept_sparse="csr")

    @torch.no_grad()
    def _features(self, rows: Any) -> Tensor:
        """Features `[rows, dim]`, in parts to save memory; sparse rows are made dense in each part alone."""
        step = min(_ROWS_AT_ONCE, max(1, _ENTRIES_AT_ONCE // rows.shape[1]))
        parts = (rows[first : first + step] for first in range(0, rows.shape[0], step))
        return torch.cat([self.encoder_(torch.from_numpy(self._standardised(part))) for part in parts])

    def _scores(self, X: ArrayLike) -> NDArray[np.float64]:
        features = self._features(self._checked(X))
        return np.asarray(self.rule_.scores(features))

    def _fit_scale(self, rows: Any, weights: NDArray[np.float64] | None) -> None:
        """Mean and scale of columns; of sparse rows only the root mean square length, so that zeros stay zeros."""
        if issparse(rows):
            if self.hidden:
                advice = "; leave it out for the linear path, or make them dense and few, for example by TruncatedSVD"
                raise OptionError("sparse rows are not for ", Option("hidden", tuple(self.hidden)), advice)
            squares = np.asarray(rows.multiply(rows).sum(1)).ravel().astype(np.float64)
            length = float(np.sqrt(np.average(squares, weights=weights)))
            self.mean_, self.scale_ = np.zeros(rows.shape[1]), np.full(rows.shape[1], length or 1.0)
            return
        with np.errstate(over="ignore", invalid="ignore"):
            scaler = StandardScaler().fit(rows.astype(np.float64), sample_weight=weights)
        too_large = np.flatnonzero(~np.isfinite(scaler.var_))
        if len(too_large):  # which the scaler takes for constant columns
            raise ValueError(f"the spread of column {too_large[0]} is too large for float64; rescale the column")
        self.mean_, self.scale_ = scaler.mean_, scaler.scale_

    def _standardised(self, rows: Any) -> NDArray[np.float64]:
        dense = rows.toarray() if issparse(rows) else rows
        return np.asarray((dense.astype(np.float64) - self.mean_) / self.scale_)
