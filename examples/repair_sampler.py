"""Certify the batches of an existing sampler, see why they fail, repair them, and certify again.

Run it with `python examples/repair_sampler.py`; it takes a second.
"""

import numpy as np
import torch
from torch.utils.data import BatchSampler, DataLoader, SubsetRandomSampler, TensorDataset

from orthoframe import certify, repair


def existing_batches(samples: int, batch_size: int) -> list[list[int]]:
    """What a training script may have: batches that are drawn once, and shown in every epoch."""
    sampler = SubsetRandomSampler(range(samples), generator=torch.Generator().manual_seed(0))
    return list(BatchSampler(sampler, batch_size, drop_last=False))


def main() -> None:
    """Print both certificates and what was added, and load the repaired batches."""
    labels = np.repeat([0, 1, 2, 3], [400, 200, 30, 10])  # imbalanced on purpose
    batches = existing_batches(len(labels), batch_size=32)

    # No batch is bound to another: each of them may place a class somewhere else, at the same loss.
    before = certify(labels, batches)
    print(before)

    repaired = repair(labels, batches)
    added = [len(new) - len(old) for new, old in zip(repaired, batches, strict=True)]
    print(f"\nThe repair adds {sum(added)} rows to {len(batches)} batches, at most {max(added)} to one.\n")

    after = certify(labels, repaired)
    print(after.sentence())

    # Any list of lists of indices is a batch sampler; it is the same in every epoch.
    images = torch.rand(len(labels), 64)
    dataset = TensorDataset(images, torch.from_numpy(labels))
    loader = DataLoader(dataset, batch_sampler=[batch.tolist() for batch in repaired])
    rows = sum(len(batch_labels) for _, batch_labels in loader)
    print(f"An epoch has {len(loader)} batches and {rows} rows instead of {len(labels)}.")


if __name__ == "__main__":
    main()
