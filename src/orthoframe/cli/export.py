"""`orthoframe export`: a trained encoder for other programs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from orthoframe.cli._files import check_output
from orthoframe.cli._terminal import Flag
from orthoframe.files import writing


@dataclass(frozen=True)
class ExportCommand:
    """Write encoder, head and class centres as one ONNX graph, from pixels to classes.

    It takes any number of uint8 images [n, channels, height, width] and returns scores, class, features and, of a run
    with validation images, confidences; the names of the classes and the temperature of confidences are in its
    metadata. It is checked and compared with torch before it is written. Needs
    orthoframe[onnx].

    Exit status: 0 written, 2 bad input. For example:

    orthoframe export runs/digits-step10-mlp-relu-seed0 --onnx digits.onnx
    """

    run_folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of a run, or its encoder.safetensors."""
    onnx: Annotated[Path, tyro.conf.arg(metavar="OUT.onnx")]
    """Where to write the graph."""
    code: Flag = False
    """Allow the Python function that the run names as its backbone, if there is one, to be imported and called."""

    def run(self) -> int:
        """Write the graph, and print how close it is to torch."""
        from orthoframe.runs import load_encoder
        from orthoframe.training import export_onnx

        check_output(self.onnx, "onnx", ".onnx")
        trained = load_encoder(self.run_folder, code=self.code)
        with writing(self.onnx, "onnx"):
            comparison = export_onnx(trained, self.onnx)
        print(f"{self.onnx}: {comparison}")
        return 0
