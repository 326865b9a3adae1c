"""Labelled images as tensors: where they come from, how many of each class, how they are augmented."""

from orthoframe.data._augment import Augment, default_augmentation
from orthoframe.data._datasets import Progress, data_folder, load_data
from orthoframe.data._folder import MOST_PIXELS, read_image
from orthoframe.data._images import Data, LabelledImages, Normaliser
from orthoframe.data._imbalance import imbalanced_indices, long_tail_counts, step_counts

__all__ = [
    "load_data",
    "data_folder",
    "Progress",
    "Data",
    "LabelledImages",
    "Normaliser",
    "read_image",
    "MOST_PIXELS",
    "step_counts",
    "long_tail_counts",
    "imbalanced_indices",
    "Augment",
    "default_augmentation",
]
