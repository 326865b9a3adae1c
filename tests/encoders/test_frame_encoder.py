"""Encoder and head together: what is promised of the features, seeds, contradictions."""

import copy
import pickle
from typing import get_args

import pytest
import torch

from orthoframe.encoders import FrameEncoder, FrameHead, make_encoder, make_frame_encoder
from orthoframe.errors import OptionError
from orthoframe.options import Activation, Model

WIDTHS = {
    "resnet18": 2,
    "resnet34": 2,
    "densenet40": 1,
    "densenet40-half": 1,
    "conv6": 4,
    "conv6-quarters": 4,
    "mlp": 16,
    "vit": 8,
}
ORTHANT = ("relu", "abs", "square", "softplus")


def images(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("head", ["linear", "none"])
@pytest.mark.parametrize("model", ["resnet18", "densenet40", "conv6", "conv6-quarters", "mlp", "vit"])
def test_nonnegative_tells_the_truth(model, head):
    pictures = images(32, 1, 8, 8)
    for activation in get_args(Activation):
        encoder = make_frame_encoder(model, (1, 8, 8), width=WIDTHS[model], head=head, activation=activation)
        features = encoder(pictures)
        assert encoder.nonnegative == (activation in ORTHANT) == bool(features.min() >= 0), activation
        live = features.norm(dim=1)
        assert ((live - 1).abs() < 1e-6).logical_or(live == 0).all()


def test_a_relu_at_the_end_of_the_encoder_counts():
    backbone = make_encoder("mlp", (1, 8, 8), 16)
    assert FrameEncoder(backbone, FrameHead(activation="none")).nonnegative
    assert not FrameEncoder(backbone, FrameHead(16, 16, "none")).nonnegative
    assert not FrameEncoder(
        make_encoder("mlp", (1, 8, 8), 16, last_relu=False), FrameHead(activation="gelu")
    ).nonnegative


def test_the_setting_of_the_paper():
    """The ReLU before the average: features are averages of non-negative maps, made unit."""
    encoder = make_frame_encoder("resnet18", (1, 16, 16), width=2, head="none")
    assert encoder.head.linear is None
    assert encoder.backbone.nonnegative
    pictures = images(4, 1, 16, 16)
    expected = torch.nn.functional.normalize(encoder.backbone(pictures))
    torch.testing.assert_close(encoder(pictures), expected)


@pytest.mark.parametrize("model", get_args(Model))
def test_dimension(model):
    encoder = make_frame_encoder(model, (1, 8, 8), width=WIDTHS[model], features=12, num_classes=10)
    assert encoder.out_features == 12
    assert encoder(images(3, 1, 8, 8)).shape == (3, 12)
    for head in ("linear", "none"):
        encoder = make_frame_encoder(model, (1, 8, 8), width=WIDTHS[model], head=head)
        assert encoder.out_features == encoder.backbone.out_features


def test_a_head_with_a_normalisation():
    encoder = make_frame_encoder("mlp", (1, 8, 8), width=16, features=8, head_norm="batch")
    assert isinstance(encoder.head.norm, torch.nn.BatchNorm1d)
    assert encoder.head.linear.bias is None
    assert encoder.nonnegative
    features = encoder(images(12, 1, 8, 8))
    assert features.shape == (12, 8)
    assert features.any(0).all()
    shapes = make_frame_encoder("mlp", (1, 8, 8), width=16, features=8, head_norm="batch", weights=False)
    assert {n: v.shape for n, v in shapes.state_dict().items()} == {n: v.shape for n, v in encoder.state_dict().items()}
    assert {value.device.type for value in shapes.state_dict().values()} == {"meta"}
    plain = make_frame_encoder("mlp", (1, 8, 8), width=16, features=8).state_dict()
    assert [name for name in plain if name.startswith("head")] == ["head.linear.weight", "head.linear.bias"]


def test_same_seed_same_bytes():
    def state(**options):
        encoder = make_frame_encoder("resnet18", (1, 8, 8), width=2, **options)
        return torch.cat([value.double().flatten() for value in encoder.state_dict().values()])

    torch.manual_seed(5)
    first = state(seed=3)
    drawn = torch.rand(4)
    torch.manual_seed(5)
    assert torch.equal(torch.rand(4), drawn)  # the caller's generator did not notice
    assert torch.equal(state(seed=3), first)
    assert not torch.equal(state(seed=4), first)


def test_on_the_cpu_whatever_the_default():
    with torch.device("meta"):
        encoder = make_frame_encoder("mlp", (1, 8, 8), width=16)
    assert {value.device.type for value in encoder.state_dict().values()} == {"cpu"}


def test_survives_copy_pickle_and_its_state():
    encoder = make_frame_encoder("densenet40", (1, 8, 8), width=1, activation="square").eval()
    pictures = images(3, 1, 8, 8)
    other = make_frame_encoder("densenet40", (1, 8, 8), width=1, activation="square", seed=1).eval()
    other.load_state_dict(encoder.state_dict())
    for same in (other, copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder))):
        assert torch.equal(same(pictures), encoder(pictures))
    assert {name.split(".")[0] for name in encoder.state_dict()} == {"backbone", "head"}


def test_parts_of_a_batch_are_the_batch():
    """No layer of the MLP or the ViT mixes images, so a split over processes changes nothing."""
    for model in ("mlp", "vit"):
        encoder = make_frame_encoder(model, (1, 8, 8), width=16)
        pictures = images(6, 1, 8, 8)
        torch.testing.assert_close(torch.cat([encoder(part) for part in pictures.split(2)]), encoder(pictures))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": 8, "num_classes": 10}, "8 dimensions are too few for 10 classes: .*; use features=10 or more"),
        ({"num_classes": 17}, "16 dimensions are too few for 17 classes: .*; use features=17 or more"),
        ({"head": "none", "num_classes": 17}, "too few for 17 classes: .*; use a larger width, or head=.linear."),
        ({"head": "none", "features": 32}, "features=32 needs head=.linear."),
        ({"head": "none", "head_norm": "batch"}, "head_norm='batch' needs head='linear'"),
        ({"head_norm": "layer"}, "head_norm must be one of 'none', 'batch', not 'layer'"),
        ({"head": "mlp"}, "head must be one of 'linear', 'none', not 'mlp'"),
        ({"activation": "silu"}, "activation must be one of .*, not 'silu'"),
        ({"features": 0}, "features must be at least 1, not 0"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(OptionError, match=message):
        make_frame_encoder("mlp", (1, 8, 8), width=16, **options)


def test_a_head_for_another_dimension_is_refused():
    with pytest.raises(ValueError, match=r"takes 8 features and the encoder gives 16; use FrameHead\(16, 4\)"):
        FrameEncoder(make_encoder("mlp", (1, 8, 8), 16), FrameHead(8, 4))
