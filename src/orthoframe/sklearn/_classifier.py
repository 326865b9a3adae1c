"""The classifier, in the manner of scikit-learn."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from orthoframe.batches import BatchPlan, Certificate
from orthoframe.geometry import ClassStatistics, measure
from orthoframe.sklearn._file import load_classifier, plain_labels, save_classifier
from orthoframe.sklearn._fit import fit_encoder
from orthoframe.sklearn._network import TableEncoder, features_of
from orthoframe.sklearn._options import check_options, device_of

Floats = NDArray[np.floating[Any]]
_EPOCHS = 20  # that a certificate looks at if the first epoch alone does not guarantee the frame


class FrameClassifier(ClassNamePrefixFeaturesOutMixin, ClassifierMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Classify numeric rows, a table or the embeddings of a foundation model, by the nearest class centre.

    An MLP with a non-negative head is trained with the supervised contrastive loss on batches that are certified to
    lead to an orthogonal frame: at the optimum every class, large or small, is at a right angle to all others. Training
    stops by itself, for the floor of the loss is known. It stops early enough to predict well, not at a perfect frame:
    `geometry_` says how far it is.

    Columns are standardised inside (the mean and the scale of the training rows are part of the model), because an MLP
    on columns of different scales fails silently. Values must be finite numbers; impute and encode before.

    Args:
        hidden: Units of each hidden layer. Features have as many dimensions as the last, which must not be fewer than
            the classes.
        temperature: Of the loss, and of `predict_proba`.
        activation: Of the head: `"relu"`, `"abs"`, `"square"` and `"softplus"` are non-negative. With the others, which
            are there to compare with, there is no frame to reach: floor and certificate are for non-negative features.
        binding: What is added to each batch: `"fixed"`, one row of each class, guarantees the frame; see `BatchPlan`.
        batch_size: Rows of a batch, before binding.
        epochs: An upper limit; training stops earlier if it can.
        tol: Stop when the gap between the loss and its floor is below this part of the way from features that are all
            alike to the floor.
        patience: Stop when the gap no longer falls: if it has not, for so many epochs, the learning rate is divided by
            ten, and after as many again training ends.
        learning_rate: Of SGD with Nesterov momentum 0.9.
        weight_decay: Pull of the weights to zero.
        dropout: The part of the hidden units that is left out at each step.
        device: Where to train: `"auto"` (a GPU if there is one), or any torch device. Predictions are made on the CPU
            in float64, so that they do not depend on which rows are asked for together.
        random_state: A seed, a `RandomState`, or None. The same seed gives the same bytes.

    Attributes:
        classes_: `[k]`, the labels.
        centres_: `[k, dim]`, the mean feature of each class; float64.
        mean_, scale_: `[columns]`, for standardising.
        temperature_: Of the training.
        encoder_: The network, on the CPU.
        plan_: The batches, a `BatchPlan`.
        geometry_: How the training features are arranged; see `measure`.
        certificate_: What the batches guarantee; see `certify`.
        loss_gap_: The loss less its floor in the last epoch.
        loss_curve_, gap_curve_: The loss, and the loss less its floor, a number an epoch.
        stopped_: `"floor"`, `"plateau"` or `"epochs"`: why training ended.
        n_iter_: Epochs.
        n_features_in_, feature_names_in_: Columns, and their names if there were any.

    Examples:
        >>> from sklearn.datasets import load_wine
        >>> rows, labels = load_wine(return_X_y=True)
        >>> classifier = FrameClassifier(random_state=0).fit(rows[::2], labels[::2])
        >>> classifier.certificate_.holds, classifier.stopped_
        (True, 'floor')
        >>> bool(classifier.score(rows[1::2], labels[1::2]) > 0.9)
        True
    """

    def __init__(
        self,
        hidden: Sequence[int] = (256, 256),
        temperature: float = 0.1,
        activation: str = "relu",
        binding: str = "fixed",
        batch_size: int = 128,
        epochs: int = 100,
        tol: float = 0.01,
        patience: int = 10,
        learning_rate: float = 0.1,
        weight_decay: float = 5e-4,
        dropout: float = 0.2,
        device: str | torch.device = "auto",
        random_state: int | RandomState | None = None,
    ) -> None:
        self.hidden = hidden
        self.temperature = temperature
        self.activation = activation
        self.binding = binding
        self.batch_size = batch_size
        self.epochs = epochs
        self.tol = tol
        self.patience = patience
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.dropout = dropout
        self.device = device
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> "FrameClassifier":
        """Train on rows `[rows, columns]` and their labels `[rows]`, numbers or strings.

        Raises:
            ValueError: For rows or options that are not allowed, and for fewer than two classes.
        """
        rows, labels = validate_data(self, X, y, dtype=(np.float64, np.float32))
        check_classification_targets(labels)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        check_options(self, self.classes_.tolist())
        seed = int(check_random_state(self.random_state).randint(2**31))
        binding: Any = self.binding
        self.plan_ = BatchPlan(plain_labels(self.classes_)[numbers], self.batch_size, binding=binding, seed=seed)
        self._standardise(rows)
        device = device_of(self.device)
        encoder = TableEncoder(rows.shape[1], tuple(self.hidden), self.activation, seed).to(device)  # type: ignore[arg-type]
        history = fit_encoder(
            encoder,
            torch.from_numpy(self._rows(rows)).float().to(device),
            self.plan_,
            temperature=self.temperature,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            dropout=self.dropout,
            epochs=self.epochs,
            tol=self.tol,
            patience=self.patience,
        )
        self.encoder_, self.temperature_ = encoder.cpu().double(), float(self.temperature)
        self.loss_curve_, self.gap_curve_, self.stopped_ = history.loss, history.gap, history.stopped
        self.loss_gap_, self.n_iter_ = history.gap[-1], len(history.loss)
        features = features_of(self.encoder_, self._rows(rows))
        statistics = ClassStatistics(len(self.classes_), features.shape[1], scatter=False)
        statistics.update(torch.from_numpy(features), torch.from_numpy(numbers))
        self.centres_ = statistics.means.numpy()
        self.geometry_ = measure(features, plain_labels(self.classes_)[numbers])
        return self

    @property
    def certificate_(self) -> Certificate:
        """What the batches guarantee: those of the first epoch, or of up to 20 if these alone do not suffice."""
        check_is_fitted(self)
        first = self.plan_.certificate()
        return first if first.holds else self.plan_.certificate(min(self.n_iter_, _EPOCHS))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:  # scikit-learn's name for it
        return int(self.centres_.shape[1])

    def transform(self, X: ArrayLike) -> Floats:
        """Frame features `[rows, dim]`: unit rows, non-negative with a non-negative activation."""
        rows = self._checked(X)
        features: Floats = features_of(self.encoder_, self._rows(rows)).astype(rows.dtype)
        return features

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Cosines to the class centres, `[rows, k]`; for two classes that to the second less that to the first."""
        cosines = self._cosines(X)
        return cosines[:, 1] - cosines[:, 0] if len(self.classes_) == 2 else cosines

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class whose centre is nearest, by its angle, `[rows]`; the first class where a feature is all zero."""
        nearest = self._cosines(X).argmax(1)
        labels: NDArray[Any] = self.classes_[nearest]
        return labels

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Softmax of the cosines over the temperature of the training, `[rows, k]`; it is not calibrated."""
        scores = self._cosines(X) / self.temperature_
        weights = np.exp(scores - scores.max(1, keepdims=True))
        shares: NDArray[np.float64] = weights / weights.sum(1, keepdims=True)
        return shares

    def save(self, path: str | Path) -> None:
        """Write the fitted classifier to a safetensors file; no pickle."""
        check_is_fitted(self)
        save_classifier(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> "FrameClassifier":
        """Read what `save` wrote; everything but `random_state`, where that was no number, is as it was.

        Raises:
            ValueError: If the file is broken, or something else.
            OSError: If it cannot be read.
        """
        loaded: FrameClassifier = load_classifier(cls(), Path(path))
        return loaded

    def _checked(self, X: ArrayLike) -> Floats:
        check_is_fitted(self)
        rows: Floats = validate_data(self, X, dtype=(np.float64, np.float32), reset=False)
        return rows

    def _cosines(self, X: ArrayLike) -> NDArray[np.float64]:
        rows = self._checked(X)
        features = features_of(self.encoder_, self._rows(rows))
        norms = np.linalg.norm(self.centres_, axis=1, keepdims=True)
        cosines: NDArray[np.float64] = features @ (self.centres_ / np.where(norms == 0, 1.0, norms)).T
        return cosines

    def _standardise(self, rows: Floats) -> None:
        self.mean_ = rows.mean(0, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            scale = rows.std(0, dtype=np.float64)
        if not np.isfinite(scale).all():
            column = int(np.flatnonzero(~np.isfinite(scale))[0])
            raise ValueError(f"the spread of column {column} is too large for float64; divide the column by something")
        # Rounding leaves a constant column a spread, by which it must not be divided.
        constant = scale <= 10 * np.finfo(rows.dtype).eps * np.abs(self.mean_)
        self.scale_ = np.where(constant, 1.0, scale)

    def _rows(self, rows: Floats) -> NDArray[np.float64]:
        standard: NDArray[np.float64] = (rows.astype(np.float64) - self.mean_) / self.scale_
        return standard
