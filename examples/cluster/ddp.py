"""A training loop in several processes: the same loss and gradient as one process with the whole batch.

Two processes on this machine: torchrun --nproc-per-node 2 examples/cluster/ddp.py
Under SLURM: sbatch examples/cluster/ddp.sbatch examples/cluster/ddp.py
"""

import torch
import torch.distributed as dist
import torch.distributed.nn.functional  # before there is a group, which it would keep
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import TensorDataset

from orthoframe import BatchPlan, FrameHead, PlanLoader, SupConLoss, measure
from orthoframe.data import imbalanced_indices

EPOCHS = 20


def main() -> None:
    """Train, and let the first process say how far from the frame it ends."""
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", dist.get_node_local_rank()) if gpu else torch.device("cpu")
    torch.manual_seed(0)

    pixels, digits = load_digits(return_X_y=True)
    kept = imbalanced_indices(digits, [100] * 5 + [10] * 5, seed=0)
    images, labels = torch.tensor(pixels[kept] / 16, dtype=torch.float32), torch.tensor(digits[kept])

    # Every process makes the same plan; the loader gives each its rows of every batch. 128 is for all together.
    plan = BatchPlan(labels.numpy(), batch_size=128, binding="fixed", seed=0)
    loader = PlanLoader(TensorDataset(images, labels), plan)

    network = nn.Sequential(nn.Linear(64, 256), nn.BatchNorm1d(256), nn.ReLU(), FrameHead(256, 64))
    network = nn.SyncBatchNorm.convert_sync_batchnorm(network) if gpu else network
    encoder = DistributedDataParallel(network.to(device))
    criterion = SupConLoss(temperature=0.2)  # compares rows across processes
    optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-3)

    for _ in range(EPOCHS):
        for rows, row_labels in loader:
            optimizer.zero_grad()
            criterion(encoder(rows.to(device)), row_labels.to(device)).backward()
            optimizer.step()

    if dist.get_rank() == 0:
        with torch.no_grad():
            geometry = measure(network.eval()(images.to(device)).cpu(), labels)
        print(f"{dist.get_world_size()} processes: {geometry.delta_of:.4f} from the frame")


if __name__ == "__main__":
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    main()
    dist.destroy_process_group()  # after the encoder is gone, which would keep the group
