"""Labelled images as tensors: where they come from, how many of each class, how they are augmented."""

from orthoframe.data._augment import Augment, default_augmentation
from orthoframe.data._datasets import as_data, list_files, load_data
from orthoframe.data._images import Data, LabelledImages, Normaliser
from orthoframe.data._imbalance import (
    PROFILES,
    equal_counts,
    hold_out,
    imbalanced_indices,
    long_tail_counts,
    step_counts,
)
from orthoframe.data._listing import Columns, Listing, find_images
from orthoframe.data._preparation import IMAGE_ENDINGS, Preparation
from orthoframe.data._readers import READERS, DataParts, DataRequest
from orthoframe.data._sources import Progress, data_folder
from orthoframe.data._stream import Decoded, PreparedFiles, StreamedPixels, available_cores, decode, decoding_processes
from orthoframe.options import MOST_PIXELS

__all__ = [
    "load_data",
    "as_data",
    "data_folder",
    "Progress",
    "READERS",
    "DataRequest",
    "DataParts",
    "Data",
    "LabelledImages",
    "Normaliser",
    "StreamedPixels",
    "PreparedFiles",
    "decode",
    "Decoded",
    "Columns",
    "Listing",
    "find_images",
    "list_files",
    "hold_out",
    "Preparation",
    "IMAGE_ENDINGS",
    "MOST_PIXELS",
    "available_cores",
    "decoding_processes",
    "PROFILES",
    "equal_counts",
    "step_counts",
    "long_tail_counts",
    "imbalanced_indices",
    "Augment",
    "default_augmentation",
]
