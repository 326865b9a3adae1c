"""The command `orthoframe`: one file for each verb."""

import sys
from collections.abc import Sequence

from orthoframe.errors import MissingPackageError, needs_extra

__all__ = ["main", "VERBS"]

VERBS = {
    "train": "Train an encoder, and say whether its classes form an orthogonal frame.",
    "predict": "Classify images with a trained encoder.",
    "export": "Write a trained encoder as an ONNX graph.",
    "report": "Write the report of one run, or of several side by side.",
    "certify": "Decide whether batches have the orthogonal frame as their only optimum.",
    "measure": "Measure the geometry of any embedding.",
    "embed": "Write the features of images, by any backbone.",
    "fit": "Fit a classifier of embeddings whose classes end in an orthogonal frame.",
    "ufm": "Minimise the loss over free features: where training ends, without a network.",
    "playground": "Print the address of a page to play with, which a browser opens from disk.",
}
"""The verbs; `train` is the dataclass `TrainCommand` in the module `train`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with the arguments after its name; the exit status."""
    try:
        with needs_extra("the command orthoframe", "train"):
            from orthoframe.cli import _main
    except MissingPackageError as error:
        print(f"orthoframe: {error}", file=sys.stderr)
        return 2
    return _main.main(arguments)
