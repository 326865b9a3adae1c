"""The exported graph against torch, for every encoder and activation."""

import importlib.util
import json
from dataclasses import replace
from typing import get_args

import onnx
import onnxruntime
import pytest
import torch

from orthoframe.data import Normaliser, Preparation, load_data
from orthoframe.encoders import make_frame_encoder
from orthoframe.errors import TrainingError
from orthoframe.geometry import Calibration
from orthoframe.options import Activation
from orthoframe.runs import Architecture, TrainedEncoder, load_encoder
from orthoframe.training import _onnx, export_onnx


def made(model, shape, *, width, activation="relu", head="linear", classes=5):
    """An encoder that was not trained, with centres far enough apart that rounding decides nothing."""
    encoder = make_frame_encoder(model, shape, width=width, activation=activation, head=head).eval()
    generator = torch.Generator().manual_seed(1)
    # Statistics that are not those of a fresh BatchNorm, which would change nothing.
    for part in encoder.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.running_mean.uniform_(-0.2, 0.2, generator=generator)
            part.running_var.uniform_(0.5, 2.0, generator=generator)
    normaliser = Normaliser((0.4, 0.5, 0.45)[: shape[0]], (0.2, 0.3, 0.25)[: shape[0]])
    pixels = torch.randint(0, 256, (classes, *shape), dtype=torch.uint8, generator=generator)
    names = tuple(f"class {c}" for c in range(classes))
    trained = TrainedEncoder(
        encoder=encoder,
        centres=torch.zeros(classes, encoder.out_features),
        classes=names,
        preparation=Preparation(shape),
        normaliser=normaliser,
        architecture=MADE,
    )
    return replace(trained, centres=trained.features(pixels).double())


MADE = Architecture(model="mlp", width=None, head="linear", features=None, activation="relu")  # which is not exported


def run(path, pixels):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    assert [entry.name for entry in session.get_outputs()] == ["scores", "class", "features"]
    return [torch.from_numpy(values) for values in session.run(None, {"images": pixels.numpy()})]


def test_confidences_are_in_the_graph(tmp_path):
    trained = replace(made("mlp", (1, 4, 4), width=8), calibration=Calibration(0.07, 0.0, 40))
    export_onnx(trained, tmp_path / "out.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "out.onnx", providers=["CPUExecutionProvider"])
    assert json.loads(session.get_modelmeta().custom_metadata_map["temperature"]) == 0.07
    pixels = torch.randint(0, 256, (9, 1, 4, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))
    scores, confidences = session.run(["scores", "confidences"], {"images": pixels.numpy()})
    expected = trained.calibration.confidences(trained.classify(trained.features(pixels))[0])
    assert confidences.shape == scores.shape
    assert torch.allclose(torch.from_numpy(confidences).double(), expected, rtol=0, atol=1e-5)
    assert confidences.max() > 0.3  # which a softmax of cosines without the temperature has nowhere


def test_confidences_that_differ_are_not_written(tmp_path, monkeypatch):
    trained = replace(made("mlp", (1, 4, 4), width=8), calibration=Calibration(0.07, 0.0, 40))
    content = _onnx._graph(trained)
    monkeypatch.setattr(_onnx, "_graph", lambda _: content)
    with pytest.raises(TrainingError, match=r"the exported confidences differ from torch's by .*; nothing was written"):
        export_onnx(replace(trained, calibration=Calibration(0.5, 0.0, 40)), tmp_path / "out.onnx")


def agrees(path, trained, pixels):
    for count in (1, 7, len(pixels)):
        scores, classes, features = run(path, pixels[:count])
        cosines, winners = trained.classify(trained.features(pixels[:count]))
        # Where two centres are equally near, up to the rounding of float32, either is right.
        lost = cosines.amax(1) - cosines.gather(1, classes[:, None])[:, 0]
        assert (lost[classes != winners] <= 1e-6).all()
        assert scores.dtype == features.dtype == torch.float32
        assert torch.allclose(scores.double(), cosines, rtol=0, atol=1e-5)
        assert torch.allclose(features, trained.features(pixels[:count]), rtol=0, atol=1e-5)


# Every kind of network and every activation once: an export takes seconds, and they do not depend on each other.
EXPORTS = [
    ("mlp", (1, 4, 4), {"width": 8, "activation": "abs"}),
    ("resnet18", (3, 8, 8), {"width": 2, "activation": "none"}),
    ("densenet40-half", (1, 8, 8), {"width": 1, "activation": "gelu"}),
    ("conv6", (3, 16, 16), {"width": 4, "activation": "square"}),  # channels_last
    ("conv6-quarters", (3, 24, 20), {"width": 4, "activation": "leaky-relu"}),
    ("vit", (1, 8, 8), {"width": 8, "head": "none", "activation": "softplus"}),
]


def test_every_activation_is_exported():
    """The MLP below, which was trained, has the ReLU."""
    assert {options["activation"] for _, _, options in EXPORTS} | {"relu"} == set(get_args(Activation))


@pytest.mark.parametrize(("model", "shape", "options"), EXPORTS, ids=[model for model, _, _ in EXPORTS])
def test_the_same_classes_and_scores(model, shape, options, tmp_path):
    trained = made(model, shape, **options)
    said = export_onnx(trained, tmp_path / "out.onnx")
    assert said.startswith("compared with torch on 32 random images: the same classes, scores to ")
    pixels = torch.randint(0, 256, (40, *shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))
    agrees(tmp_path / "out.onnx", trained, pixels)


@pytest.fixture(scope="module")
def exported(undisturbed, tmp_path_factory):
    """The file of an MLP with ReLU that was trained."""
    trained, path = load_encoder(undisturbed), tmp_path_factory.mktemp("exported") / "out.onnx"
    assert "32 random images" in export_onnx(trained, path)
    assert [left.name for left in path.parent.iterdir()] == ["out.onnx"]
    return path


def test_of_a_run_on_real_images(undisturbed, exported):
    agrees(exported, load_encoder(undisturbed), load_data("digits").test.pixels)


def test_what_the_file_says(undisturbed, exported):
    model = onnx.load(exported)
    about = {entry.key: entry.value for entry in model.metadata_props}
    assert json.loads(about["classes"]) == list("0123456789")
    assert json.loads(about["image_shape"]) == [1, 8, 8]
    assert json.loads(about["preparation"])["fit"] == "pad"
    assert json.loads(about["temperature"]) is None  # without validation images
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 18)]
    (images,) = model.graph.input
    kind = images.type.tensor_type
    assert (images.name, kind.elem_type) == ("images", onnx.TensorProto.UINT8)
    assert [size.dim_value for size in kind.shape.dim] == [0, 1, 8, 8]  # any number of images
    assert b".py" not in exported.read_bytes()  # no path of this machine
    assert _onnx._graph(load_encoder(undisturbed)) == exported.read_bytes()  # the same bytes


def test_a_graph_that_differs_is_not_written(undisturbed, exported, tmp_path, monkeypatch):
    trained = load_encoder(undisturbed)
    path = tmp_path / "out.onnx"
    path.write_text("before")
    monkeypatch.setattr(_onnx, "_graph", lambda _: exported.read_bytes())
    with pytest.raises(TrainingError, match=r"the exported scores differ from torch's by .*; nothing was written"):
        export_onnx(replace(trained, centres=trained.centres.flip(0)), path)
    model = onnx.load(exported)
    for node in model.graph.node:
        node.op_type = "ArgMin" if node.op_type == "ArgMax" else node.op_type
    monkeypatch.setattr(_onnx, "_graph", lambda _: model.SerializeToString())
    with pytest.raises(TrainingError, match=r"the exported class of \d+ of 32 images is not torch's"):
        export_onnx(trained, path)
    assert path.read_text() == "before"
    assert [left.name for left in tmp_path.iterdir()] == ["out.onnx"]


def test_without_the_packages(undisturbed, exported, tmp_path, monkeypatch):
    trained = load_encoder(undisturbed)
    content = exported.read_bytes()
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else find_spec(name))
    monkeypatch.setattr(_onnx, "_graph", lambda _: content)
    assert "not compared with torch: onnxruntime is not installed" in export_onnx(trained, tmp_path / "out.onnx")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnxscript" else find_spec(name))
    with pytest.raises(TrainingError, match=r"pip install 'orthoframe\[onnx\]'"):
        export_onnx(trained, tmp_path / "other.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["out.onnx"]
