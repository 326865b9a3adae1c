"""For the Trainer of Hugging Face: planned batches, the loss, and a callback that measures geometry and gap.

Needs the packages `transformers` and `accelerate`, which orthoframe does not install.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.utils.data import DataLoader

from orthoframe.batches import BatchPlan, PlanLoader
from orthoframe.losses import SupConLoss
from orthoframe.watching import Watch, Watched, at_rest, shared_rows

try:
    from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
except ImportError as absent:
    message = f"orthoframe.transformers needs transformers ({absent}): pip install transformers accelerate"
    raise ImportError(message) from absent

__all__ = ["FrameTrainer", "GeometryCallback"]

Features = Callable[[Any, Any], tuple[Tensor, Tensor]]


def features_and_labels(model: nn.Module, inputs: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """Features and labels of a batch, if `model` gives features for everything but `labels`."""
    return model(**{name: value for name, value in inputs.items() if name != "labels"}), inputs["labels"]


class FrameTrainer(Trainer):
    """A `transformers.Trainer` that trains on the batches of a plan with the supervised contrastive loss.

    The plan decides the batches, whatever `per_device_train_batch_size` says: `plan.batch_size` is that of all
    processes together. Each process gets the rows that `PlanSampler` deals it. The loader does not go through
    accelerate, which would share out the batches a second time; inputs are moved to the device by the Trainer. A run
    that is resumed inside an epoch goes on with its next batch.

    Args:
        *args: As those of `Trainer`.
        plan: The plan for the training set.
        loss: The loss; `SupConLoss()` by default.
        features: Gives features `[rows, dim]` and labels `[rows]` from the model and the inputs; by default the model
            is called with all inputs but `labels`, and returns the features.
        **options: As those of `Trainer`.
    """

    def __init__(
        self,
        *args: Any,
        plan: BatchPlan,
        loss: SupConLoss | None = None,
        features: Features = features_and_labels,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.plan, self.loss, self.features = plan, loss or SupConLoss(), features
        # The Trainer looks for labels among the arguments of the model, and for none it would drop the column.
        self.label_names = self.label_names or ["labels"]
        # The loss is a mean over the batch, and the Trainer has to divide it when it accumulates gradients.
        self.model_accepts_loss_kwargs = False

    def get_train_dataloader(self) -> PlanLoader:
        """The batches of the plan, this process's share."""
        if self.train_dataset is None:
            raise ValueError("there is no train_dataset to train on; give the one that the plan was made for")
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
        """The loss of a batch; its features are the output."""
        features, labels = self.features(model, inputs)
        loss = self.loss(features, labels)
        return (loss, {"loss": loss, "features": features}) if return_outputs else loss


class GeometryCallback(Watched, TrainerCallback):
    """Measures geometry and gap after training epochs, logs them, and draws the cosines of class means at the end.

    Logged by the Trainer's own `log` as `geometry/delta_of`, `geometry/beta_nc`, and with a loss `geometry/floor` and
    `geometry/gap`. The geometry is that of the training set, each example once, in evaluation mode and over all
    processes. The gap is that of the epoch's training batches, those since a resumption.

        trainer.add_callback(GeometryCallback(trainer, num_classes=10))

    Args:
        trainer: The Trainer that it is added to, a `FrameTrainer` or another.
        num_classes: k; labels are 0..k-1.
        features: As in `FrameTrainer`, whose own is the default.
        data: What to measure instead of the training set: a data set, or a DataLoader with the rows of this process.
        every: Epochs between two measurements. The last epoch is always measured.
        loss: The `SupConLoss` of the training; that of a `FrameTrainer`, or the one that the model holds, by default.
        folder: Where the picture goes, as `geometry.png`; by default the Trainer's `output_dir`.
        name: Another word than `geometry`, for a second callback.
    """

    def __init__(
        self,
        trainer: Trainer,
        num_classes: int,
        *,
        features: Features | None = None,
        data: Any = None,
        every: int = 1,
        loss: SupConLoss | None = None,
        folder: str | Path | None = None,
        name: str = "geometry",
    ) -> None:
        if isinstance(trainer, FrameTrainer):
            loss, features = loss or trainer.loss, features or trainer.features
        self._watch = Watch(num_classes, every, loss, name)
        self._features = features or features_and_labels
        self._trainer, self._data, self._folder = trainer, data, folder

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Listen to the loss; a resumed run goes on with the history of its log."""
        prefix = f"{self._watch.name}/"
        rows = [row for row in state.log_history if f"{prefix}delta_of" in row]
        self._watch.history = [
            {"epoch": row["epoch"], **{key.removeprefix(prefix): row[key] for key in row if key.startswith(prefix)}}
            for row in rows
        ]
        self._watch.start(self._model)

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Drop the losses of an epoch that was not measured."""
        self._watch.forget()

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Measure and log, if it is due."""
        if round(state.epoch) % self._watch.every == 0:
            self._measure(state, control)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Measure what is left, and draw."""
        if not self._watch.measured(state.epoch):
            self._measure(state, control)
        self._watch.stop()
        if state.is_world_process_zero:
            self._watch.draw(Path(self._folder or args.output_dir or "."))

    def _measure(self, state: TrainerState, control: TrainerControl) -> None:
        trainer = self._trainer
        loader = shared_rows(
            trainer.train_dataset if self._data is None else self._data,
            trainer._get_collator_with_removed_columns(trainer.data_collator),
            trainer.args.dataloader_num_workers,
        )
        with at_rest(self._model):
            numbers = self._watch.measure(state.epoch, self._parts(loader))
        due = control.should_log
        trainer.log(numbers)
        control.should_log = due  # logging takes it as done, and the Trainer has its own numbers still to log

    def _parts(self, loader: DataLoader[Any]) -> Iterator[tuple[Tensor, Tensor]]:
        for batch in loader:
            yield self._features(self._model, self._trainer._prepare_inputs(batch))

    @property
    def _model(self) -> nn.Module:
        model = self._trainer.model
        assert isinstance(model, nn.Module)
        return model
