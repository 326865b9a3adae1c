"""For Lightning: a callback that measures geometry and gap during training.

Requires `lightning` or `pytorch_lightning`, which orthoframe does not install.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader

from orthoframe.callbacks import GeometryRecorder, evaluating, shared_rows
from orthoframe.losses import FrameLoss, SupConLoss

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ImportError as absent:
    try:
        from pytorch_lightning import Callback, LightningModule, Trainer  # type: ignore[assignment]
    except ImportError:
        raise ImportError(f"orthoframe.lightning requires Lightning ({absent}): pip install lightning") from absent

__all__ = ["GeometryCallback"]


def features_and_labels(module: LightningModule, batch: Any) -> tuple[Tensor, Tensor]:
    """Features and labels of a batch `(inputs, labels)` for a module whose `forward` returns features."""
    return module(batch[0]), batch[1]


class GeometryCallback(GeometryRecorder, Callback):
    """Measures geometry and gap after training epochs, logs them, and draws the cosines of class means at the end.

    Logged as `geometry/delta_of`, `geometry/beta_nc`, and with a loss `geometry/floor` and `geometry/gap`, which
    `EarlyStopping` and `ModelCheckpoint` can monitor. The geometry is that of the training set, each example once, in
    evaluation mode and over all processes. The gap is a mean over the epoch's training batches; in a resumed epoch,
    over those since it was resumed.

    Args:
        num_classes: k; labels are 0..k-1.
        features: Returns features `[rows, dim]` and labels `[rows]`, given the module and a batch on its device; by
            default `module(batch[0]), batch[1]`.
        data: What to measure instead of the training set: a data set, or a DataLoader with the rows of this process.
        every: Epochs between two measurements. The last epoch is always measured.
        loss: The `SupConLoss` or `FrameLoss` of the training; by default the one that the module contains.
        folder: Where `geometry.png` is written; by default the logger's folder.
        name: Replaces `geometry` in names of numbers and picture, for a second callback.

    Examples:
        >>> callback = GeometryCallback(num_classes=10, every=5)
        >>> callback.history
        []
    """

    def __init__(
        self,
        num_classes: int,
        *,
        features: Callable[[Any, Any], tuple[Tensor, Tensor]] = features_and_labels,
        data: Any = None,
        every: int = 1,
        loss: SupConLoss | FrameLoss | None = None,
        folder: str | Path | None = None,
        name: str = "geometry",
    ) -> None:
        super().__init__(num_classes, every, loss, name)
        self._features, self._data, self._folder = features, data, folder

    @property
    def state_key(self) -> str:
        """The key of its state in a checkpoint."""
        return self._generate_state_key(name=self._name)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps: the history."""
        return {"history": self.history}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the history from a checkpoint."""
        self.history = list(state_dict["history"])

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start listening to the loss."""
        self.start(pl_module)

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Drop the losses of an epoch that was not measured."""
        self.reset()

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Measure and log, if it is due."""
        epoch = trainer.current_epoch + 1
        if epoch % self.every == 0 or epoch == trainer.max_epochs:
            numbers = self._measure(trainer, pl_module, epoch)
            # All processes have the same numbers; Lightning asks for sync_dist all the same.
            pl_module.log_dict(numbers, sync_dist=trainer.world_size > 1, batch_size=1)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Measure if an early end left that out, and draw."""
        if not self.measured(trainer.current_epoch):
            numbers = self._measure(trainer, pl_module, trainer.current_epoch)
            for logger in trainer.loggers:
                logger.log_metrics(numbers, step=trainer.global_step)
        self.stop()
        folder = self._folder or trainer.log_dir or trainer.default_root_dir  # log_dir is collective
        if trainer.is_global_zero:
            self.draw(Path(folder))

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Stop listening."""
        self.stop()

    def _measure(self, trainer: Trainer, module: LightningModule, epoch: int) -> dict[str, float]:
        loader, precision = self._loader(trainer), trainer.precision_plugin

        def features(batch: Any) -> tuple[Tensor, Tensor]:
            batch = trainer.strategy.batch_to_device(precision.convert_input(batch), module.device)
            with precision.forward_context():
                return self._features(module, batch)

        with evaluating(module):
            return self.measure(epoch, map(features, loader))

    def _loader(self, trainer: Trainer) -> DataLoader[Any]:
        training = trainer.train_dataloader
        if isinstance(training, DataLoader):
            data = training.dataset if self._data is None else self._data
            return shared_rows(data, training.collate_fn, training.num_workers)
        if self._data is None:
            raise TypeError(
                f"the training data come from a {type(training).__name__}, not from a DataLoader; "
                "give data=... with the rows to measure"
            )
        return shared_rows(self._data)
