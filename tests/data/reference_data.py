"""Slow, obvious versions of what the data room computes, and writers of the formats that it reads."""

import gzip

import numpy as np
import torch


def augment(pixels, generator, padding, flip):
    """One image after the other: perhaps flip it, put it inside a border of zeros, cut a window out."""
    batch, _, height, width = pixels.shape
    down, right = torch.randint(2 * padding + 1, (2, batch), generator=generator)
    side = torch.randint(2, (batch,), generator=generator) if flip else torch.zeros(batch)
    views = []
    for number, image in enumerate(pixels):
        if side[number]:
            image = image.flip(-1)
        bordered = torch.nn.functional.pad(image, (padding,) * 4)
        top, left = int(down[number]), int(right[number])
        views.append(bordered[:, top : top + height, left : left + width])
    return torch.stack(views) if views else pixels


def normalise(pixels, mean, std):
    """In float64."""
    mean, std = (torch.tensor(values, dtype=torch.float64).view(-1, 1, 1) for values in (mean, std))
    return (pixels.double() / 255 - mean) / std


def idx_bytes(array):
    """The idx file of an array of bytes, not compressed."""
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


def write_idx(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(idx_bytes(array), mtime=0))


def cifar_bytes(pixels, *labels):
    """Binary CIFAR records of [n, 3, 32, 32] pixels and one or two columns of labels."""
    columns = [np.asarray(column, np.uint8)[:, None] for column in labels]
    return np.concatenate([*columns, pixels.reshape(len(pixels), -1)], axis=1).tobytes()
