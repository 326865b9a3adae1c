"""For the Hugging Face Trainer: planned batches, the loss, and a callback that measures geometry and gap.

Requires the extra `transformers`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from orthoframe.batches import BatchPlan, PlanLoader
from orthoframe.callbacks import GeometryRecorder, evaluating, shared_rows
from orthoframe.errors import needs_extra
from orthoframe.losses import FrameLoss, SupConLoss

with needs_extra("orthoframe.transformers", "transformers"):
    from transformers import Trainer, TrainerCallback

__all__ = ["FrameTrainer", "GeometryTrainerCallback"]

Features = Callable[[Any, Any], tuple[Tensor, Tensor]]


def features_and_labels(model: nn.Module, inputs: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """Features and labels of a batch for a model that returns features, given all inputs but `labels`."""
    return model(**{name: value for name, value in inputs.items() if name != "labels"}), inputs["labels"]


class FrameTrainer(Trainer):
    """A `transformers.Trainer` that trains on the batches of a plan with the supervised contrastive loss.

    The plan decides the batches and `per_device_train_batch_size` is ignored: `plan.batch_size` is the global batch
    size. Each process gets the rows that `PlanSampler` assigns to it. The loader bypasses accelerate, which would split
    the batches a second time; the Trainer moves inputs to the device. A run that is resumed inside an epoch continues
    with its next batch.

    Args:
        *args: Passed to `Trainer`.
        plan: The plan for the training set.
        loss: The loss; `SupConLoss()` by default.
        features: Returns features `[rows, dim]` and labels `[rows]`, given the model and the inputs; by default the
            model is called with all inputs but `labels`, and returns the features.
        **options: Passed to `Trainer`.
    """

    def __init__(
        self,
        *args: Any,
        plan: BatchPlan,
        loss: SupConLoss | FrameLoss | None = None,
        features: Features = features_and_labels,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.plan, self.loss, self.features = plan, loss or SupConLoss(), features
        # The Trainer looks for labels among the arguments of the model; finding none, it would drop the column.
        self.label_names = self.label_names or ["labels"]
        # The loss is a mean over the batch, so that the Trainer has to divide it when it accumulates gradients.
        self.model_accepts_loss_kwargs = False

    def get_train_dataloader(self) -> PlanLoader:
        """This process's share of the planned batches."""
        if self.train_dataset is None:
            raise ValueError("train_dataset is missing; give the data set that the plan was made for")
        return PlanLoader(
            self.train_dataset,
            self.plan,
            collate_fn=self._get_collator_with_removed_columns(self.data_collator),
            num_workers=self.args.dataloader_num_workers,
            pin_memory=self.args.dataloader_pin_memory,
            persistent_workers=self.args.dataloader_persistent_workers,
            prefetch_factor=self.args.dataloader_prefetch_factor,
        )

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """The loss of a batch; the features are the output."""
        features, labels = self.features(model, inputs)
        loss = self.loss(features, labels)
        return (loss, {"loss": loss, "features": features}) if return_outputs else loss


class GeometryTrainerCallback(GeometryRecorder, TrainerCallback):
    """Measures geometry and gap after training epochs, logs them, and draws the cosines of class means at the end.

    Logged by the Trainer's own `log` as `geometry/delta_of`, `geometry/beta_nc`, and with a loss `geometry/floor` and
    `geometry/gap`. The geometry is that of the training set, each example once, in evaluation mode and over all
    processes. The gap is a mean over the epoch's training batches; in a resumed epoch, over those since it was resumed.

        trainer.add_callback(GeometryTrainerCallback(trainer, num_classes=10))

    Args:
        trainer: The Trainer that the callback is added to, a `FrameTrainer` or another.
        num_classes: k; labels are 0..k-1.
        features: As in `FrameTrainer`, whose function is the default.
        data: What to measure instead of the training set: a data set, or a DataLoader with the rows of this process.
        every: Epochs between two measurements. The last epoch is always measured.
        loss: The `SupConLoss` or `FrameLoss` of the training; by default that of a `FrameTrainer`, or the one that the
            model contains.
        folder: Where `geometry.png` is written; by default the Trainer's `output_dir`.
        name: Replaces `geometry` in names of numbers and picture, for a second callback.
    """

    def __init__(
        self,
        trainer: Trainer,
        num_classes: int,
        *,
        features: Features | None = None,
        data: Any = None,
        every: int = 1,
        loss: SupConLoss | FrameLoss | None = None,
        folder: str | Path | None = None,
        name: str = "geometry",
    ) -> None:
        if isinstance(trainer, FrameTrainer):
            loss, features = loss or trainer.loss, features or trainer.features
        super().__init__(num_classes, every, loss, name)
        self._features = features or features_and_labels
        self._trainer, self._data, self._folder = trainer, data, folder

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start listening to the loss; a resumed run continues the history in its log."""
        prefix = f"{self._name}/"
        self.history = [
            {"epoch": row["epoch"], **{key.removeprefix(prefix): row[key] for key in row if key.startswith(prefix)}}
            for row in state.log_history
            if f"{prefix}delta_of" in row
        ]
        self.start(self._model)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Drop the losses of an epoch that was not measured."""
        self.reset()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Measure and log, if it is due."""
        if round(state.epoch) % self.every == 0:
            self._measure(state, control)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Measure if the last epoch was not measured, and draw."""
        if not self.measured(state.epoch):
            self._measure(state, control)
        self.stop()
        if state.is_world_process_zero:
            self.draw(Path(self._folder or args.output_dir or "."))

    def _measure(self, state: Any, control: Any) -> None:
        trainer = self._trainer
        loader = shared_rows(
            trainer.train_dataset if self._data is None else self._data,
            trainer._get_collator_with_removed_columns(trainer.data_collator),
            trainer.args.dataloader_num_workers,
        )
        with evaluating(self._model):
            parts = (self._features(self._model, trainer._prepare_inputs(batch)) for batch in loader)
            numbers = self.measure(state.epoch, parts)
        due = control.should_log
        trainer.log(numbers)
        control.should_log = due  # which `log` clears, although the Trainer still has to log its own numbers

    @property
    def _model(self) -> nn.Module:
        model = self._trainer.model
        assert isinstance(model, nn.Module)
        return model
