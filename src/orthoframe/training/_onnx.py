"""The trained encoder, with its class means, as one ONNX graph."""

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
from orthoframe._rows import unit_rows
from orthoframe.errors import TrainingError
from orthoframe.files import write_atomic
from orthoframe.geometry import NearestCentre
from orthoframe.runs import TrainedEncoder

_OPSET = 18  # what torch's exporter writes by default, and every onnxruntime since 1.14 reads
_COMPARED = 32  # random images
# Scores are cosines of float32 features, a hundred products each: this is far above rounding, and far below what a
# wrong graph gives.
_TOLERANCE = 1e-4


class _Graph(nn.Module):
    """All that a `TrainedEncoder` does, in float32."""

    weights: Tensor
    offsets: Tensor

    def __init__(self, trained: TrainedEncoder) -> None:
        super().__init__()
        self.encoder = trained.encoder if trained.classifier is None else trained.encoder.backbone
        self.normaliser = trained.normaliser
        weights, offsets = _linear(trained)
        self.register_buffer("weights", weights.float())
        self.register_buffer("offsets", offsets.float())
        self.temperature = None if trained.calibration is None else trained.calibration.temperature

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """Scores `[n, k]`, classes `[n]`, features `[n, dim]` and, if calibrated, confidences `[n, k]` of images."""
        features = self.encoder(self.normaliser(images))
        scores = nn.functional.linear(features, self.weights, self.offsets)
        outputs = scores, scores.argmax(1), features
        return outputs if self.temperature is None else (*outputs, (scores / self.temperature).softmax(1))


def _linear(trained: TrainedEncoder) -> tuple[Tensor, Tensor]:
    """How features are classified: their products with weights `[k, dim]`, and what is added to them `[k]`."""
    if trained.classifier is not None:
        return trained.classifier.weights, trained.classifier.bias
    missing = trained.centres.isnan().any(1)  # classes without a centre, which are never predicted
    weights = unit_rows(trained.centres.double().masked_fill(missing[:, None], 0.0))[0]
    nothing = torch.zeros(1, len(weights), dtype=torch.float64).masked_fill(missing, -torch.inf)
    rule = trained.rule
    assert isinstance(rule, NearestCentre)
    return weights, rule.adjusted(nothing)[0]


def export_onnx(trained: TrainedEncoder, path: Path) -> str:
    """Write encoder, head and class centres as one ONNX file.

    The graph takes `images`, uint8 `[n, channels, height, width]` with any n, and gives `scores` (of each class,
    `[n, k]`, as in `TrainedEncoder.classify`), `class` (the number of the largest, `[n]`), `features` (`[n, dim]`) and,
    of a run with validation images, calibrated `confidences` (`[n, k]`). The metadata has `classes`, `image_shape` and
    the `temperature` of confidences (null without) as JSON. The file is checked, and compared with torch if onnxruntime
    is there, before it gets its name.

    Args:
        trained: What `load_encoder` gave.
        path: Where to write it; the folder must exist.

    Returns:
        What was compared, in a sentence.

    Raises:
        TrainingError: If packages are missing, or the graph does not do what torch does.
        OSError: If it cannot be written.
    """
    if not all(map(importlib.util.find_spec, ("onnx", "onnxscript"))):
        raise TrainingError("the export needs onnx and onnxscript; install them with pip install 'orthoframe[onnx]'")
    content = _graph(trained)
    comparison = _compare(content, trained)
    write_atomic(path, content)
    return comparison


def _graph(trained: TrainedEncoder) -> bytes:
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
                opset_version=_OPSET,
                input_names=["images"],
                output_names=_outputs(trained),
                dynamic_shapes=({0: torch.export.Dim("n")},),
                verbose=False,
            )
        finally:
            logger.setLevel(level)
    assert program is not None
    model = program.model_proto
    for part in (*model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output):
        part.ClearField("metadata_props")  # where each node was in our source: paths of this machine
    about = {"classes": json.dumps(trained.classes), "image_shape": json.dumps(trained.image_shape)}
    about["temperature"] = json.dumps(None if trained.calibration is None else trained.calibration.temperature)
    about["preparation"] = json.dumps(trained.preparation.description())
    onnx.helper.set_model_props(model, {"orthoframe": __version__, **about})
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


def _outputs(trained: TrainedEncoder) -> list[str]:
    return ["scores", "class", "features", *([] if trained.calibration is None else ["confidences"])]


def _compare(content: bytes, trained: TrainedEncoder) -> str:
    """Run the file beside torch."""
    if importlib.util.find_spec("onnxruntime") is None:
        return "checked, and not compared with torch: onnxruntime is not installed"
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    shape = (_COMPARED, *trained.image_shape)
    pixels = torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    scores, classes, _, *confidences = map(torch.from_numpy, session.run(_outputs(trained), {"images": pixels.numpy()}))
    expected, _ = trained.classify(trained.features(pixels))
    present = expected.isfinite().all(0)  # classes with a centre
    # Scores of a linear classifier may be large: relative to the largest, as cosines are to 1.
    tolerance = _TOLERANCE * max(1.0, float(expected[:, present].abs().max()))
    difference = float((scores - expected)[:, present].abs().max())
    if not difference <= tolerance:
        raise TrainingError(f"the exported scores differ from torch's by {difference:.2g}; nothing was written")
    if trained.calibration is not None:
        error = float((confidences[0] - trained.calibration.confidences(expected)).abs().max())
        # A softmax moves by at most half of what its logits move by.
        if not error <= tolerance * max(1.0, 1 / trained.calibration.temperature):
            raise TrainingError(f"the exported confidences differ from torch's by {error:.2g}; nothing was written")
    # Where two centres are equally near, up to rounding, either is right.
    wrong = int((expected.amax(1) - expected.gather(1, classes[:, None])[:, 0] > tolerance).sum())
    if wrong:
        raise TrainingError(f"the exported class of {wrong} of {_COMPARED} images is not torch's; nothing was written")
    return f"compared with torch on {_COMPARED} random images: the same classes, scores to {difference:.1g}"
