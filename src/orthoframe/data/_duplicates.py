"""Near-duplicates, such as frames of one video, on two sides of a split."""

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from orthoframe.data._images import LabelledImages

_ROWS = 256  # images whose thumbnails are made together
_SHAPE = 16, 18  # of a thumbnail; blocks of 2 x 2 give the 8 x 9 averages of a difference hash
_SEEN = 64  # pixels of a side that are looked at, at least
_FLATTEST = 4.0  # standard deviation of a thumbnail in which there is something to compare, of 255
_BITS = 8  # in which the hashes of near-duplicates differ at most
_LIKENESS = 0.995  # correlation of their thumbnails, at least
_ROTATIONS, _NEIGHBOURS = 8, 4


def near_duplicates(train: LabelledImages, *others: LabelledImages) -> list[NDArray[np.int64]]:
    """Images that look like a training image.

    A hash of 64 bits says for each part of an image whether the part to the right of it is brighter. All hashes are
    sorted eight times, with other bits first, and images are compared with the next ones of another side. That takes
    time n log n. It finds most near-duplicates, and all copies but for those of images that many others look like.

    Args:
        train: Training images.
        others: Sets of images that were held out.

    Returns:
        For each set `[m, 2]`: positions of an image in it, and of the training image that looks like it; the most alike
        first, and each image once.

    Examples:
        >>> pixels = torch.randint(256, (3, 1, 8, 8), generator=torch.Generator().manual_seed(0))
        >>> images = LabelledImages(pixels.byte(), torch.zeros(3, dtype=torch.int64), ("a",))
        >>> near_duplicates(images.subset([0, 1]), images.subset([2, 1]))[0].tolist()
        [[1, 1]]
    """
    thumbnails = _thumbnails(train)
    return [_matches(np.concatenate([thumbnails, _thumbnails(images)]), len(thumbnails)) for images in others]


def _thumbnails(images: LabelledImages) -> NDArray[np.uint8]:
    """Grey images of 16 x 18 pixels; of large ones only some rows and columns are looked at."""
    step = max(1, min(images.image_shape[1:]) // _SEEN)
    parts = [torch.empty(0, *_SHAPE, dtype=torch.uint8)]
    for pixels in images.batches(np.array_split(np.arange(len(images)), 1 + len(images) // _ROWS)):
        grey = pixels[:, :, ::step, ::step].float().mean(1, keepdim=True)
        parts.append(F.adaptive_avg_pool2d(grey, _SHAPE)[:, 0].round().byte().cpu())
    thumbnails: NDArray[np.uint8] = torch.cat(parts).numpy()
    return thumbnails


def _matches(thumbnails: NDArray[np.uint8], training: int) -> NDArray[np.int64]:
    """`near_duplicates` of thumbnails, of which so many are of training images, and come first."""
    detailed = np.flatnonzero(thumbnails.std((1, 2)) >= _FLATTEST)
    blocks = thumbnails[detailed].reshape(-1, 8, 2, 9, 2).sum((2, 4), dtype=np.uint16)
    bits = np.packbits(blocks[:, :, 1:] > blocks[:, :, :-1], axis=2)[..., 0]
    pairs = []
    for first in range(_ROTATIONS):
        order = np.argsort(np.roll(bits, first, axis=1).view(">u8")[:, 0], kind="stable")
        for apart in range(1, _NEIGHBOURS + 1):
            pair = np.sort(np.stack([detailed[order[:-apart]], detailed[order[apart:]]], 1), 1)
            differences = np.unpackbits(bits[order[:-apart]] ^ bits[order[apart:]], axis=1).sum(1)
            pairs.append(pair[(pair[:, 0] < training) & (pair[:, 1] >= training) & (differences <= _BITS)])
    trained, held = np.unique(np.concatenate(pairs), axis=0).T
    alike = np.empty(len(held))
    for start in range(0, len(held), _ROWS):
        part = slice(start, start + _ROWS)
        a, b = (rows - rows.mean((1, 2), keepdims=True) for rows in (thumbnails[trained[part]], thumbnails[held[part]]))
        alike[part] = (a * b).mean((1, 2)) / (a.std((1, 2)) * b.std((1, 2)))
    best = np.lexsort((trained, held, -alike.round(6)))[: np.count_nonzero(alike >= _LIKENESS)]
    matches = np.stack([held[best] - training, trained[best]], 1)
    return matches[np.sort(np.unique(matches[:, 0], return_index=True)[1])]
