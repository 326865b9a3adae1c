"""A plain torch loop: imbalanced digits, a small network, and features that end in an orthogonal frame.

Run it with `python examples/own_loop.py`; it takes a few seconds.
"""

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from orthoframe import BatchPlan, FrameHead, PlanSampler, SupConLoss, loss_floor, measure
from orthoframe.data import imbalanced_indices

TEMPERATURE, EPOCHS = 0.2, 30


def imbalanced_digits() -> tuple[Tensor, Tensor]:
    """Images `[rows, 64]` and labels: 100 each of 0 to 4, 10 each of 5 to 9."""
    pixels, labels = load_digits(return_X_y=True)
    kept = imbalanced_indices(labels, [100] * 5 + [10] * 5, seed=0)
    return torch.tensor(pixels[kept] / 16, dtype=torch.float32), torch.tensor(labels[kept])


def main() -> None:
    """Train, and say how far from the frame it ends."""
    torch.manual_seed(0)
    images, labels = imbalanced_digits()

    # Each batch also has one fixed example of each class: it ties the batches together.
    plan = BatchPlan(labels.numpy(), batch_size=128, binding="fixed", seed=0)
    print(plan.certificate().sentence())
    loader = DataLoader(TensorDataset(images, labels), batch_sampler=PlanSampler(plan))

    # The head is the point: a linear layer, a ReLU, unit norm. BatchNorm keeps rows from dying in the ReLU.
    encoder = nn.Sequential(nn.Linear(64, 256), nn.BatchNorm1d(256), nn.ReLU(), FrameHead(256, 64))
    criterion = SupConLoss(temperature=TEMPERATURE)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-3)

    for epoch in range(1, EPOCHS + 1):
        losses, floors = [], []
        for batch, batch_labels in loader:
            loss = criterion(encoder(batch), batch_labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            floors.append(loss_floor(batch_labels, temperature=TEMPERATURE).item())
        if epoch == 1 or epoch % 10 == 0:
            encoder.eval()
            with torch.no_grad():
                geometry = measure(encoder(images), labels)
            encoder.train()
            gap = sum(losses) / len(losses) - sum(floors) / len(floors)
            print(f"epoch {epoch:3}: {gap:.4f} above the floor, {geometry.delta_of:.4f} from the frame")
    print(geometry)


if __name__ == "__main__":
    main()
