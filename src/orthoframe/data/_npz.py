"""Arrays of images and labels from an `.npz` file."""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from orthoframe.data._draw import hold_out
from orthoframe.data._images import LabelledImages
from orthoframe.errors import DataError

_SPLIT = ("x_train", "y_train", "x_test", "y_test")
_WHOLE = ("x", "y")


def read_npz(path: Path, held_out: float, seed: int) -> tuple[LabelledImages, LabelledImages]:
    """Training and test images from an `.npz` file.

    It has the arrays `x_train`, `y_train`, `x_test` and `y_test`, or `x` and `y`, of which a part of each class is held
    out. Images are uint8, [n, height, width] for grey ones or [n, height, width, channels] with 1 or 3 channels; labels
    are integers or strings, [n]. Classes are the different labels to train with, sorted.

    Args:
        path: Of the file.
        held_out: What part of each class is for the test, where the file does not say.
        seed: Decides which part.

    Raises:
        DataError: For a file without these arrays, or with others under their names.
    """
    arrays = _read_arrays(path)
    inputs = {name: _pixels(path, name, array) for name, array in arrays.items() if name.startswith("x")}
    outputs = {name: _labels(path, name, array) for name, array in arrays.items() if name.startswith("y")}
    for x, y in zip(inputs, outputs, strict=True):
        if len(inputs[x]) != len(outputs[y]) or not len(inputs[x]):
            raise DataError(
                f"{path}: {x} has {len(inputs[x])} images and {y} {len(outputs[y])} labels; "
                "there must be as many, and at least one"
            )
    names = np.unique(outputs["y" if "y" in outputs else "y_train"])
    classes = tuple(str(name) for name in names)
    parts = []
    for x, y in zip(inputs, outputs, strict=True):
        unknown = outputs[y][~np.isin(outputs[y], names)]
        if len(unknown):
            raise DataError(f"{path}: {y} has the label {unknown[0]!s}, which y_train has not")
        numbers = np.searchsorted(names, outputs[y]).astype(np.int64)
        parts.append(LabelledImages(torch.from_numpy(inputs[x]), torch.from_numpy(numbers), classes))
    if len(parts) == 2:
        return parts[0], parts[1]
    train, test = hold_out(parts[0].labels.numpy(), held_out, seed)
    return parts[0].subset(train), parts[0].subset(test)


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with open(path, "rb") as stream:  # numpy leaves a file open that turns out to be broken
            start = stream.read(6)
            if not start.startswith((b"PK", b"\x93NUMPY")):  # numpy would take it for a pickle
                raise DataError(f"{path}: not an .npz file; save one with numpy.savez")
            stream.seek(0)
            file = np.load(stream, allow_pickle=False)
            if not isinstance(file, NpzFile):
                raise DataError(f"{path}: one array, and an .npz file was expected; save it with numpy.savez")
            wanted = next((group for group in (_SPLIT, _WHOLE) if set(group) <= set(file.files)), None)
            if wanted is None:
                raise DataError(
                    f"{path}: it has the arrays {', '.join(file.files) or 'none'}; expected are "
                    f"{', '.join(_SPLIT)}, or {', '.join(_WHOLE)}"
                )
            return {name: file[name] for name in wanted}
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from None
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path}: not an .npz file of plain arrays ({error})") from None


def _pixels(path: Path, name: str, array: NDArray[Any]) -> NDArray[np.uint8]:
    if array.dtype != np.uint8:
        raise DataError(
            f"{path}: {name} is {array.dtype}, and pixels must be uint8 from 0 to 255; if they go from 0 to 1, save "
            f"({name} * 255).round().astype('uint8')"
        )
    if array.ndim == 3:
        array = array[..., None]
    if array.ndim != 4 or array.shape[3] not in (1, 3):
        raise DataError(
            f"{path}: {name} is of shape {list(array.shape)}, and must be [n, height, width], or "
            "[n, height, width, channels] with 1 or 3 channels, which come last"
        )
    return np.ascontiguousarray(array.transpose(0, 3, 1, 2))


def _labels(path: Path, name: str, array: NDArray[Any]) -> NDArray[Any]:
    if array.ndim != 1 or array.dtype.kind not in "iuU":
        raise DataError(
            f"{path}: {name} is {array.dtype} of shape {list(array.shape)}, and labels must be integers or strings, [n]"
        )
    return array
