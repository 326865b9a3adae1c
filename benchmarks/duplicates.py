"""How many test images look like a training image, in sets where few are copies, and in videos where most are.

Videos are simulated: crops of the two photographs of scikit-learn that move by the same part of their side from frame
to frame, with noise and changes of brightness. A tenth of the frames is held out.

    python benchmarks/duplicates.py
"""

import time

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_sample_images

from orthoframe.data import LabelledImages, hold_out, load_data, near_duplicates

SPEEDS, TRACKS, FRAMES, SIDE = (0.0, 0.005, 0.01, 0.02, 0.04), 100, 20, 32


def labelled(pixels: torch.Tensor) -> LabelledImages:
    """Images of one class."""
    return LabelledImages(pixels, torch.zeros(len(pixels), dtype=torch.int64), ("a",))


def video(speed: float) -> tuple[LabelledImages, LabelledImages]:
    """Frames for training, and the others."""
    random = np.random.default_rng(0)
    photographs = [torch.from_numpy(each.copy()).permute(2, 0, 1).float() for each in load_sample_images().images]
    frames = []
    for track in range(TRACKS):
        photograph, crop = photographs[track % 2], int(random.integers(48, 192))
        most = np.array(photograph.shape[1:]) - crop
        place, velocity = random.integers(0, most), random.normal(size=2) * speed * crop
        for number in range(FRAMES):
            y, x = (place + velocity * number).clip(0, most).astype(int)
            part = photograph[None, :, y : y + crop, x : x + crop]
            frame = F.interpolate(part, (SIDE, SIDE), mode="bilinear", antialias=True)[0]
            frame = frame * random.normal(1, 0.05) + torch.from_numpy(random.normal(0, 2, frame.shape))
            frames.append(frame.clamp(0, 255).byte())
    held, images = random.random(len(frames)) < 0.1, labelled(torch.stack(frames))
    return images.subset(np.flatnonzero(~held)), images.subset(np.flatnonzero(held))


def report(name: str, train: LabelledImages, test: LabelledImages) -> None:
    """A row of the table."""
    start = time.process_time()
    number = len(near_duplicates(train, test)[0])
    seconds, total = time.process_time() - start, f"{len(test):,} against {len(train):,}"
    print(f"| {name} | {total} | {number} ({100 * number / len(test):.1f} %) | {seconds:.2f} s |", flush=True)


def main() -> None:
    """Print a table."""
    torch.set_num_threads(1)
    for name in ("mnist", "fashion-mnist", "cifar10", "digits"):
        data = load_data(name)
        report(name, data.train, data.test)
        kept, held = hold_out(data.train.labels.numpy()[:10_000], 0.1, seed=0)
        report(f"{name}, 10,000", data.train.subset(kept), data.train.subset(held))
    for speed in SPEEDS:
        report(f"video, {100 * speed:g} % per frame", *video(speed))
    for side in (64, 224):
        shape = (2000, 3, side, side)
        pixels = torch.randint(256, shape, generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
        copies = labelled(pixels.repeat(5, 1, 1, 1))
        report(f"copies of {side} pixels", copies.subset(range(9000)), copies.subset(range(9000, 10_000)))


if __name__ == "__main__":
    main()
