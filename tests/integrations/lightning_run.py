"""A training with Lightning; run as a module, because Lightning starts the other process by the same command."""

import sys
from pathlib import Path

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import TensorDataset

from integrations import digits
from orthoframe import PlanLoader, SupConLoss
from orthoframe.lightning import GeometryCallback


class Module(LightningModule):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.encoder, self.criterion = digits.make_encoder(dropout), SupConLoss(digits.TEMPERATURE)
        self.seen, self.values = [], []

    def forward(self, images):
        return self.encoder(images)

    def training_step(self, batch, number):
        images, labels, indices = batch
        loss = self.criterion(self(images), labels)
        self.seen.append(indices.tolist())
        self.values.append(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.3, momentum=0.9)


def train(folder, ranks=1, *, callbacks=None, dropout=0.0, checkpoint=None, loader_options=None, **options):
    images, labels = digits.rows()
    module = Module(dropout)
    callbacks = [GeometryCallback(num_classes=10)] if callbacks is None else callbacks
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    trainer = Trainer(
        **(quiet | {"max_epochs": digits.EPOCHS} | options),
        accelerator="cpu",
        devices=ranks,
        strategy="ddp" if ranks > 1 else "auto",
        use_distributed_sampler=False,
        logger=CSVLogger(folder),
        callbacks=callbacks,
        log_every_n_steps=1,
    )
    loader = PlanLoader(
        TensorDataset(images, labels, torch.arange(len(labels))), digits.make_plan(), **(loader_options or {})
    )
    trainer.fit(module, loader, ckpt_path=checkpoint, weights_only=False if checkpoint else None)
    return module, trainer, callbacks


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    module, trainer, (callback,) = train(folder, 2)
    result = {"seen": module.seen, "losses": module.values, "history": callback.history, "log_dir": trainer.log_dir}
    digits.write(folder, trainer.global_rank, result)
