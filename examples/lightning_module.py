"""Lightning: imbalanced digits, planned batches, and a callback that measures the geometry.

Run it with `python examples/lightning_module.py`; needs `pip install lightning`. It takes a few seconds. With
`devices=2` each process gets its part of every batch, and features are compared across processes.
"""

import tempfile
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from orthoframe import BatchPlan, FrameHead, PlanLoader, SupConLoss
from orthoframe.data import imbalanced_indices
from orthoframe.lightning import GeometryCallback


class Encoder(LightningModule):
    """A small network whose features are non-negative and of unit norm."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 256), nn.BatchNorm1d(256), nn.ReLU(), FrameHead(256, 64))
        self.criterion = SupConLoss(temperature=0.2)

    def forward(self, images: Tensor) -> Tensor:
        """Features `[rows, 64]`."""
        return self.layers(images)

    def training_step(self, batch: Any, number: int) -> Tensor:
        """The loss of a batch."""
        images, labels = batch
        loss = self.criterion(self(images), labels)
        self.log("loss", loss, on_epoch=True, on_step=False, sync_dist=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main() -> None:
    """Train, and print what the callback measured."""
    torch.manual_seed(0)
    pixels, digits = load_digits(return_X_y=True)
    kept = imbalanced_indices(digits, [100] * 5 + [10] * 5, seed=0)
    images, labels = torch.tensor(pixels[kept] / 16, dtype=torch.float32), torch.tensor(digits[kept])

    plan = BatchPlan(labels.numpy(), batch_size=128)
    geometry = GeometryCallback(num_classes=10, every=5)
    trainer = Trainer(
        max_epochs=30,
        accelerator="cpu",
        devices=1,
        use_distributed_sampler=False,  # the loader shares batches out itself
        logger=CSVLogger(tempfile.mkdtemp()),
        callbacks=[geometry],
        enable_progress_bar=False,
        enable_checkpointing=False,
        log_every_n_steps=1,
    )
    trainer.fit(Encoder(), PlanLoader(TensorDataset(images, labels), plan))

    for row in geometry.history:
        print(f"epoch {row['epoch']:3}: {row['gap']:.4f} above the floor, {row['delta_of']:.4f} from the frame")
    print(geometry.geometry.verdict())
    print(f"The numbers and geometry.png are in {trainer.log_dir}")


if __name__ == "__main__":
    main()
