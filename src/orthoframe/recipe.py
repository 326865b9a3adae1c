"""The recipe `accurate` as one module, for a training loop of your own."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from orthoframe._rows import RowLabels, Weights, label_tensor, positive_array
from orthoframe.encoders import FrameHead
from orthoframe.geometry import fit_adjustment
from orthoframe.losses import FrameLoss
from orthoframe.options import Activation, HeadNorm, check_number

__all__ = ["FrameRecipe"]

_FEATURES = 128  # dimensions, at least
_TEMPERATURE = 0.15


class FrameRecipe(nn.Module):
    r"""A frame head and a linear classifier on the features of a backbone, with the loss that trains both.

    For a row x of class y, with h = head(x), the frame W, and q_c the share of the rows that are of class c, the loss
    is the frame term plus w times a balanced softmax,

        -log softmax_y(h.W_c/tau + log q_c) - w log softmax_y((A x + b)_c + log q_c),

    as in `orthoframe train` on your own images. The linear classifier predicts; the head leads its features towards
    the orthogonal frame.

    Args:
        shares: `[k]`, the share of each class in the batches, such as `plan.shares()`; only their ratios count.
        in_features: The dimension of the backbone's features.
        out_features: The dimension of the unit features (default: 128, or 2k if that is more).
        temperature: tau.
        classifier: w.
        activation: See `FrameHead`.
        norm: See `FrameHead`.

    Attributes:
        head: The `FrameHead`, whose unit features `measure` measures.
        classifier: The linear classifier.
        adjust: What `fit_adjust` has chosen; 0 at first.

    Examples:
        >>> from orthoframe import BatchPlan
        >>> plan = BatchPlan([0] * 9 + [1] * 3, 4, scheme="weighted", binding="none")
        >>> recipe = FrameRecipe(plan.shares(), in_features=8)
        >>> rows, labels = torch.rand(4, 8), torch.tensor([0, 0, 0, 1])
        >>> recipe(rows, labels).backward()
        >>> recipe.head(rows).shape, recipe.predict(rows).shape
        (torch.Size([4, 128]), torch.Size([4]))
    """

    log_shares: Tensor
    adjust: Tensor

    def __init__(
        self,
        shares: Weights,
        in_features: int,
        out_features: int | None = None,
        *,
        temperature: float = _TEMPERATURE,
        classifier: float = 1.0,
        activation: Activation = "relu",
        norm: HeadNorm = "batch",
    ) -> None:
        super().__init__()
        priors = torch.as_tensor(positive_array(shares, "shares"))
        k = len(priors)
        if k < 2:
            raise ValueError(f"shares must have two classes or more, not {k}")
        dim = max(_FEATURES, 2 * k) if out_features is None else out_features
        self.weight = check_number("classifier", classifier, least=0)
        self.head = FrameHead(in_features, dim, activation, norm)
        self.classifier = nn.Linear(in_features, k)
        self.frame_term = FrameLoss(k, dim, temperature, shares=priors)
        self.register_buffer("log_shares", (priors / priors.sum()).log().float())
        self.register_buffer("adjust", torch.zeros((), dtype=torch.float64))

    def forward(self, rows: Tensor, labels: RowLabels) -> Tensor:
        """The loss of a batch of backbone features `[rows, in_features]`, a scalar."""
        rows, classes = self._checked(rows), label_tensor(labels, rows.device)
        frame: Tensor = self.frame_term(self.head(rows), classes)
        return frame + self.weight * F.cross_entropy(self.classifier(rows).float() + self.log_shares, classes)

    def scores(self, rows: Tensor) -> Tensor:
        """The score of each class for backbone features, `[rows, k]`; the largest wins."""
        scores: Tensor = self.classifier(self._checked(rows)).double()
        return scores - self.adjust * self.log_shares

    def predict(self, rows: Tensor) -> Tensor:
        """The class of each row, `[rows]`."""
        return self.scores(rows).argmax(1)

    def _checked(self, rows: Tensor) -> Tensor:
        """Rows of the right size, in the precision of the weights."""
        dim = self.classifier.in_features
        if rows.ndim != 2 or rows.shape[1] != dim or not rows.is_floating_point():
            shape = f"floating point [rows, {dim}]"
            raise ValueError(f"features must be {shape}, as in_features says, not {rows.dtype} {list(rows.shape)}")
        return rows.to(self.classifier.weight.dtype)

    @torch.no_grad()
    def fit_adjust(self, rows: Tensor, labels: RowLabels) -> float:
        """Choose how much is taken off the scores of frequent classes, by the cross-entropy of validation rows."""
        classes, shares = label_tensor(labels, rows.device), self.log_shares.double().exp()
        if len(set(classes.tolist())) < 2:
            raise ValueError("validation rows must be of two classes or more")
        self.adjust.zero_()
        self.adjust.fill_(fit_adjustment(self.scores(rows), classes, shares))
        return float(self.adjust)
