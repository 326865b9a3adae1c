"""A trained encoder as one ONNX graph: pixels in, classes out."""

import importlib.util
import io
import json
import logging
import warnings
from contextlib import redirect_stdout
from pathlib import Path

import torch
from torch import Tensor, nn

from orthoframe import __version__
from orthoframe._atomic import write_atomic
from orthoframe.data import load_data
from orthoframe.errors import DataError, TrainingError
from orthoframe.training._export import Trained

OPSET = 18  # what torch's exporter writes by itself, and every onnxruntime since 1.14 reads
OUTPUTS = ("scores", "class", "features")
_RANDOM, _REAL = 32, 64  # images that are compared
# Scores are cosines of float32 features, a hundred products each: these are far above rounding,
# and far below what a wrong graph gives.
_SCORE, _TIE = 1e-4, 1e-4


class _Graph(nn.Module):
    """All that `Trained` does, in float32 and of tensors alone."""

    mean: Tensor
    scale: Tensor

    def __init__(self, trained: Trained) -> None:
        super().__init__()
        self.encoder = trained.encoder
        centres = trained.centres.double()
        mean = torch.tensor(trained.normaliser.mean, dtype=torch.float64)
        std = torch.tensor(trained.normaliser.std, dtype=torch.float64)
        self._keep("mean", 255 * mean.view(-1, 1, 1))
        self._keep("scale", 1 / (255 * std.view(-1, 1, 1)))
        self._keep("directions", nn.functional.normalize(centres, dim=1).T)

    def _keep(self, name: str, value: Tensor) -> None:
        self.register_buffer(name, value.to(torch.float32).contiguous())

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Scores `[n, k]`, classes `[n]` and features `[n, dim]` of uint8 images."""
        features = self.encoder((images.to(torch.float32) - self.mean) * self.scale)
        cosines = features @ self.directions
        return cosines, cosines.argmax(1), features


def export_onnx(trained: Trained, path: Path, images: Tensor | None = None) -> str:
    """Write encoder, head and class centres as one ONNX file.

    The graph takes `images`, uint8 `[n, channels, height, width]` with any n, and gives `scores` (cosines to class
    means, `[n, k]`), `class` (the number of the nearest class mean, `[n]`) and `features` (`[n, dim]`). The metadata
    has `classes` and `image_shape` as JSON. The file is checked, and compared with torch if onnxruntime is there,
    before it gets its name.

    Args:
        trained: What `load_encoder` gave.
        path: Where to write it; the folder must exist.
        images: Real images to compare with, besides random ones.

    Returns:
        What was compared, in a sentence.

    Raises:
        TrainingError: If packages are missing, or the graph does not do what torch does.
        OSError: If it cannot be written.
    """
    if not all(map(importlib.util.find_spec, ("onnx", "onnxscript"))):
        raise TrainingError("the export needs onnx and onnxscript; install them with pip install 'orthoframe[onnx]'")
    content = _graph(trained)
    said = _compare(content, trained, images)
    write_atomic(path, lambda file: file.write(content))
    return said


def images_of_run(folder: Path, trained: Trained) -> Tensor | None:
    """Some test images of a run, if its data is at hand; nothing is downloaded."""
    try:
        config = json.loads((folder / "config.json").read_text())
        data = load_data(str(config["data"]), config["data_dir"], seed=config["seed"], download=False)
    except (OSError, ValueError, KeyError, TypeError, DataError):
        return None
    pixels = data.test.pixels
    chosen = pixels[torch.linspace(0, len(pixels) - 1, min(_REAL, len(pixels))).long()]
    return chosen if tuple(chosen.shape[1:]) == trained.image_shape else None


def _graph(trained: Trained) -> bytes:
    """The file, checked."""
    import onnx

    # Two images: a batch of one would be taken for a constant.
    example = torch.zeros(2, *trained.image_shape, dtype=torch.uint8)
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")  # of the exporter about its own insides
        logger.setLevel(logging.ERROR)
        try:
            program = torch.onnx.export(
                _Graph(trained).eval(),
                (example,),
                dynamo=True,
                opset_version=OPSET,
                input_names=["images"],
                output_names=list(OUTPUTS),
                dynamic_shapes=({0: torch.export.Dim("n")},),
                verbose=False,
            )
        finally:
            logger.setLevel(level)
    assert program is not None
    model = program.model_proto
    for part in (*model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output):
        part.ClearField("metadata_props")  # where each node was in our source: paths of this machine
    about = {
        "orthoframe": __version__,
        "classes": json.dumps(trained.classes),
        "image_shape": json.dumps(trained.image_shape),
    }
    onnx.helper.set_model_props(model, about)
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


def _compare(content: bytes, trained: Trained, images: Tensor | None) -> str:
    """Run the file beside torch."""
    if importlib.util.find_spec("onnxruntime") is None:
        return "checked, and not compared with torch: onnxruntime is not installed"
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    generator = torch.Generator().manual_seed(0)
    shape = (_RANDOM, *trained.image_shape)
    pixels = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
    real = 0 if images is None else len(images)
    pixels = pixels if images is None else torch.cat([pixels, images])
    features = trained.features(pixels)
    scores, classes = map(torch.from_numpy, session.run(["scores", "class"], {"images": pixels.numpy()}))
    cosines = trained.classify(features)[0]
    apart = float((scores - cosines).abs().max())
    if not apart <= _SCORE:
        raise TrainingError(f"the exported scores differ from torch's by {apart:.2g}; nothing was written")
    lost = cosines.amax(1) - cosines.gather(1, classes[:, None])[:, 0]
    # Where two centres are as near as makes no difference, either is right.
    wrong = int((lost > _TIE).sum())
    if wrong:
        raise TrainingError(
            f"the exported class of {wrong} of {len(pixels)} images is not torch's; nothing was written"
        )
    return f"compared with torch on {_RANDOM} random and {real} real images: the same classes, scores to {apart:.1g}"
