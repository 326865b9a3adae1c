"""Labelled images as tensors: where they come from, how many of each class, what is drawn of each."""

from orthoframe.data._augment import Augment, default_augmentation
from orthoframe.data._fetch import data_folder
from orthoframe.data._images import Data, LabelledImages
from orthoframe.data._imbalance import imbalanced_indices, long_tail_counts, step_counts
from orthoframe.data._load import load_data
from orthoframe.data._normalise import Normaliser
from orthoframe.errors import DataError

__all__ = [
    "load_data",
    "data_folder",
    "Data",
    "LabelledImages",
    "DataError",
    "step_counts",
    "long_tail_counts",
    "imbalanced_indices",
    "Augment",
    "default_augmentation",
    "Normaliser",
]
