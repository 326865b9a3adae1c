"""A page with pictures that were misclassified."""

import base64
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from orthoframe.reporting._pages import write_page


def write_mistakes(mistakes: Iterable[Mapping[str, Any]], pictures: Iterable[Tensor], path: Path) -> None:
    """Write a page with misclassified images, of pixels `[channels, height, width]` as the encoder saw them.

    Each has the name of its `image`, its `class`, the `predicted` class and perhaps the `confidence`.
    """
    from PIL.Image import fromarray

    shown = []
    for mistake, pixels in zip(mistakes, pictures, strict=True):
        array, file = pixels.permute(1, 2, 0).squeeze(2).numpy(), io.BytesIO()
        fromarray(array).save(file, format="PNG")
        shown.append({**mistake, "png": base64.b64encode(file.getvalue()).decode()})
    write_page("mistakes.html", path, title="The most confident mistakes", mistakes=shown, plots={})
