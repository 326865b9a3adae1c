"""The encoders: published sizes, shapes, gradients, and the images that they cannot take."""

import random
from functools import partial
from typing import get_args

import pytest
import torch
import torch.nn.functional as F
from tests.training.runs import finished

from orthoframe.encoders import ENCODERS, MLP, Conv6, DenseNet, EncoderEntry, ResNet, ViT, make_encoder
from orthoframe.encoders._vit import patch_size
from orthoframe.options import Model

# Small, but every kind of layer is there.
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
DIMENSIONS = {
    "resnet18": 16,
    "resnet34": 16,
    "densenet40": 52,
    "densenet40-half": 52,
    "conv6": 16,
    "conv6-quarters": 96,
    "mlp": 16,
    "vit": 8,
}
CONVOLUTIONAL = ["resnet18", "densenet40-half", "conv6", "conv6-quarters"]


def images(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def size(module):
    return sum(weight.numel() for weight in module.parameters())


@pytest.mark.parametrize(
    ("model", "classifier", "published", "dimension"),
    [
        # With a linear classifier of ten classes: the ResNets for CIFAR with a 3 x 3 stem, and DenseNet-40 (k = 12).
        ("resnet18", 512 * 10 + 10, 11_173_962, 512),
        ("resnet34", 512 * 10 + 10, 21_282_122, 512),
        ("densenet40", 448 * 10 + 10, 1_019_722, 448),
    ],
)
def test_published_sizes(model, classifier, published, dimension):
    encoder = make_encoder(model, (3, 32, 32))
    assert encoder.out_features == dimension
    assert size(encoder) + classifier == published


def test_the_width_of_an_encoder_is_that_of_its_entry_unless_it_is_chosen(monkeypatch):
    monkeypatch.setitem(ENCODERS, "toy", EncoderEntry(lambda shape, width, relu: MLP(shape, 2 * width), 3))
    assert make_encoder("toy", (1, 8, 8)).out_features == 6
    assert make_encoder("toy", (1, 8, 8), 5).out_features == 10


def test_resnet_18_counted_by_hand():
    total = 3 * 64 * 9 + 2 * 64
    for stage, (inputs, outputs) in enumerate([(64, 64), (64, 128), (128, 256), (256, 512)]):
        total += inputs * outputs * 9 + 3 * outputs * outputs * 9 + 4 * 2 * outputs
        total += inputs * outputs + 2 * outputs if stage else 0  # the shortcut
    assert total == size(ResNet((3, 32, 32))) == 11_168_832


def test_sizes_of_the_others():
    assert size(MLP((1, 28, 28), 256)) == 784 * 256 + 256 + 256 * 256 + 256
    block = 2 * 2 * 128 + (3 + 1) * 128 * 128 + (3 + 1) * 128 + 2 * 4 * 128 * 128 + (4 + 1) * 128
    assert size(ViT((3, 32, 32))) == 3 * 16 * 128 + 64 * 128 + 6 * block + 2 * 128


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32), (3, 64, 64), (2, 16, 24)])
@pytest.mark.parametrize("model", get_args(Model))
def test_shapes(model, shape):
    encoder = make_encoder(model, shape, WIDTHS[model])
    features = encoder(images(2, *shape))
    assert features.shape == (2, encoder.out_features) == (2, DIMENSIONS[model])
    assert encoder.nonnegative == (model != "vit")
    if encoder.nonnegative:
        assert features.min() >= 0


@pytest.mark.parametrize("last_relu", [True, False])
@pytest.mark.parametrize("model", get_args(Model))
def test_gradient_reaches_every_parameter(model, last_relu):
    torch.manual_seed(0)
    encoder = make_encoder(model, (1, 16, 16), WIDTHS[model], last_relu=last_relu)
    features = encoder(images(16, 1, 16, 16))
    (features * images(*features.shape, seed=1)).sum().backward()
    for name, weight in encoder.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.isfinite().all(), name
        assert weight.grad.any(), name


@pytest.mark.parametrize("model", ["resnet18", "resnet34", "densenet40", "densenet40-half", "conv6", "mlp"])
def test_without_the_last_relu(model):
    both = []
    for last_relu in (True, False):
        torch.manual_seed(0)
        both.append(make_encoder(model, (1, 8, 8), WIDTHS[model], last_relu=last_relu).eval())
    with_relu, without = both
    assert with_relu.state_dict().keys() == without.state_dict().keys()
    assert not without.nonnegative
    features = without(images(4, 1, 8, 8))
    assert features.min() < 0
    if model in (
        "mlp",
        "resnet18",
        "resnet34",
        "conv6",
    ):  # one pixel is left: nothing to average, and the ReLU can be added
        torch.testing.assert_close(F.relu(features), with_relu(images(4, 1, 8, 8)))


def normed(state, x, name):
    """A BatchNorm in evaluation mode, by its formula."""
    mean, var, scale, shift = (
        state[f"{name}.{part}"][:, None, None] for part in ("running_mean", "running_var", "weight", "bias")
    )
    return (x - mean) / torch.sqrt(var + 1e-5) * scale + shift


def test_resnet_against_plain_operations():
    """Every layer in the open, in evaluation mode with statistics that are not those of the start."""
    torch.manual_seed(0)
    encoder = ResNet((1, 12, 12), width=2)
    encoder(images(8, 1, 12, 12, seed=3))
    encoder.eval()
    state = encoder.state_dict()

    norm = partial(normed, state)
    x = images(3, 1, 12, 12)
    expected = norm(F.conv2d(x, state["stem.0.weight"], padding=1), "stem.1").clamp(min=0)
    for block in range(8):
        name, stride = f"blocks.{block}", 2 if block in (2, 4, 6) else 1
        hidden = F.conv2d(expected, state[f"{name}.conv1.weight"], stride=stride, padding=1)
        hidden = F.conv2d(norm(hidden, f"{name}.norm1").clamp(min=0), state[f"{name}.conv2.weight"], padding=1)
        if stride == 2:
            shortcut = F.conv2d(expected, state[f"{name}.shortcut.0.weight"], stride=2)
            expected = norm(shortcut, f"{name}.shortcut.1")
        expected = (norm(hidden, f"{name}.norm2") + expected).clamp(min=0)
    torch.testing.assert_close(encoder(x), expected.flatten(2).mean(2), rtol=1e-4, atol=1e-5)


def test_conv6_against_plain_operations():
    """Every layer in the open, in evaluation mode with statistics that are not those of the start."""
    torch.manual_seed(0)
    encoder = Conv6((3, 18, 20), width=4)
    encoder(images(8, 3, 18, 20, seed=3))
    encoder.eval()
    state = encoder.state_dict()

    norm = partial(normed, state)
    x = images(3, 3, 18, 20)
    expected = norm(F.conv2d(x, state["stem.0.weight"], padding=1), "stem.1").clamp(min=0)
    for start in (0, 7, 14):
        expected = F.conv2d(expected, state[f"blocks.{start}.weight"], padding=1)
        height, width = (2 * (size // 2) for size in expected.shape[2:])
        expected = expected[:, :, :height, :width].unflatten(3, (-1, 2)).unflatten(2, (-1, 2)).amax((3, 5))
        expected = norm(expected, f"blocks.{start + 2}").clamp(min=0)
        expected = F.conv2d(expected, state[f"blocks.{start + 4}.weight"], padding=1)
        expected = norm(expected, f"blocks.{start + 5}").clamp(min=0)
    torch.testing.assert_close(encoder(x), expected.flatten(2).amax(2), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("height", "width"), [(16, 32), (24, 25)])
def test_quarters_against_plain_operations(height, width):
    """The weights of a `conv6` fit, and its maxima are among the features."""
    encoder, plain = Conv6((3, height, width), width=4, quarters=True).eval(), Conv6((3, height, width), width=4).eval()
    plain.load_state_dict(encoder.state_dict())
    x = images(3, 3, height, width)
    maps = F.relu(plain.blocks(plain.stem(x)))
    quarters = F.adaptive_avg_pool2d(maps, 2).permute(0, 2, 3, 1)
    expected = torch.cat([maps.mean((2, 3)), maps.amax((2, 3)), quarters.flatten(1)], 1)
    torch.testing.assert_close(encoder(x), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(encoder(x)[:, 16:32], plain(x), rtol=1e-4, atol=1e-5)


def test_conv6_counted_by_hand():
    convolutions = 3 * 32 + 32 * 64 + 64 * 64 + 64 * 256 + 3 * 256 * 256
    assert size(Conv6((3, 32, 32))) == 9 * convolutions + 2 * (32 + 2 * 64 + 4 * 256)


def test_a_stem_that_halves_images():
    small, large = DenseNet((1, 16, 16), 1), DenseNet((1, 16, 16), 1, stem_stride=2)
    large.load_state_dict(small.state_dict())
    assert small.stem(images(2, 1, 16, 16)).shape[2:] == (16, 16)
    torch.testing.assert_close(large.stem(images(2, 1, 16, 16)), small.stem(images(2, 1, 16, 16))[:, :, ::2, ::2])


def test_conv6_of_a_photograph():
    encoder = Conv6((3, 96, 128), width=2)
    assert encoder.stem(images(1, 3, 96, 128)).shape == (1, 1, 24, 32)


def inside(encoder):
    """The formats of what the layers after the stem are given."""
    formats = []
    after = encoder.layers if isinstance(encoder, DenseNet) else encoder.blocks
    after.register_forward_pre_hook(
        lambda _, inputs: formats.append(inputs[0].is_contiguous(memory_format=torch.channels_last))
    )
    return formats


@pytest.mark.parametrize(("side", "channels_last"), [(8, False), (15, False), (16, True), (32, True)])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("model", CONVOLUTIONAL)
def test_channels_last_where_it_is_safe(model, side, channels_last, channels):
    encoder, pictures = make_encoder(model, (channels, side, side), 8), images(4, channels, side, side)
    formats = inside(encoder)
    features = encoder(pictures)
    assert formats == [channels_last]
    assert features.is_contiguous()
    features.sum().backward()
    for weight in encoder.parameters():
        assert weight.is_contiguous()
        assert weight.grad.is_contiguous()
    with torch.autocast("cpu", torch.bfloat16):
        encoder(pictures)
    encoder.double()(pictures.double())
    assert formats == [channels_last, channels_last, False]


def compare_formats(model, cases):
    """In float64 maps have the usual format. Norms are compared, because a rounding may turn a ReLU."""
    torch.set_num_threads(1)
    draw = random.Random(0)
    for case in range(cases):
        width, rows = draw.choice([1, 2, 3, 4, 8, 12, 16]), draw.choice([1, 2, 5, 8, 33])
        shape = draw.choice([1, 2, 3, 4, 5]), draw.choice([8, 9, 15, 16, 17, 28, 32]), draw.choice([8, 16, 20, 32])
        torch.manual_seed(case)
        encoder, pictures = make_encoder(model, shape, width).eval(), torch.randn(rows, *shape)
        results = []
        for half, dtype in ((True, torch.float32), (False, torch.float32), (False, torch.float64)):
            encoder.to(dtype).zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                features = encoder(pictures.to(dtype))
            features.square().sum().backward()
            values = [features.detach(), *(weight.grad for weight in encoder.parameters())]
            results.append(torch.cat([value.flatten() for value in values]).double())
        lower, single, double = results
        assert (lower - double).norm() <= 0.3 * double.norm(), (shape, width, rows)  # bfloat16
        assert (single - double).norm() <= 1e-3 * double.norm(), (shape, width, rows)


@pytest.mark.parametrize(
    ("model", "cases"), [("resnet18", 20), ("densenet40-half", 10), ("conv6", 60), ("conv6-quarters", 20)]
)
def test_the_same_in_both_formats(model, cases):
    """In a process of its own, because a convolution that writes beyond its memory may end it at any later moment."""
    assert finished(compare_formats, model, cases, seconds=300) == 0


def test_attention_against_its_formula():
    block = ViT((1, 8, 8), width=8).blocks[0]
    tokens = images(2, 5, 8)
    query, key, value = (part.unflatten(2, (4, 2)) for part in block.qkv(block.norm1(tokens)).chunk(3, 2))
    mixed = torch.zeros(2, 5, 4, 2)
    for head in range(4):
        scores = torch.softmax(query[:, :, head] @ key[:, :, head].mT / 2**0.5, dim=2)
        mixed[:, :, head] = scores @ value[:, :, head]
    expected = tokens + block.out(mixed.flatten(2))
    expected = expected + block.mlp(block.norm2(expected))
    torch.testing.assert_close(block(tokens), expected)


def test_positions_matter():
    encoder, picture = ViT((1, 8, 8), width=16), images(1, 1, 8, 8)
    assert not torch.allclose(encoder(picture), encoder(picture.flip(3)), atol=1e-2)


@pytest.mark.parametrize("model", ["resnet18", "densenet40", "conv6", "vit"])
def test_memory_format_and_autocast(model):
    torch.manual_seed(0)
    encoder, pictures = make_encoder(model, (3, 16, 16), WIDTHS[model]), images(4, 3, 16, 16)
    expected = encoder(pictures)
    last = torch.channels_last
    torch.testing.assert_close(
        encoder.to(memory_format=last)(pictures.to(memory_format=last)), expected, rtol=1e-3, atol=1e-4
    )
    with torch.autocast("cpu", torch.bfloat16):
        features = encoder(pictures)
    features.float().sum().backward()
    assert all(weight.grad.isfinite().all() for weight in encoder.parameters())


@pytest.mark.parametrize(
    ("height", "width", "expected"),
    [(8, 8, 2), (28, 28, 4), (32, 32, 4), (64, 64, 8), (96, 96, 12), (16, 24, 2), (32, 48, 4), (26, 26, 2)],
)
def test_patches(height, width, expected):
    assert patch_size(height, width) == expected


SNAPSHOT = {
    "resnet18": {
        "stem.0.weight": (2, 1, 3, 3),
        "blocks.2.conv1.weight": (4, 2, 3, 3),
        "blocks.2.shortcut.1.running_var": (4,),
        "blocks.7.norm2.bias": (16,),
    },
    "densenet40": {
        "stem.weight": (16, 1, 3, 3),
        "layers.0.conv.weight": (1, 16, 3, 3),
        "layers.12.conv.weight": (28, 28, 1, 1),
        "layers.37.norm.weight": (51,),
        "norm.weight": (52,),
    },
    "conv6": {
        "stem.0.weight": (2, 1, 3, 3),
        "blocks.0.weight": (4, 2, 3, 3),
        "blocks.7.weight": (16, 4, 3, 3),
        "blocks.18.weight": (16, 16, 3, 3),
        "blocks.19.running_var": (16,),
    },
    "mlp": {"layers.1.weight": (16, 64), "layers.3.bias": (16,)},
    "vit": {
        "patches.weight": (8, 1, 2, 2),
        "positions": (1, 16, 8),
        "blocks.5.qkv.weight": (24, 8),
        "blocks.0.mlp.2.bias": (8,),
        "norm.weight": (8,),
    },
}


@pytest.mark.parametrize("model", SNAPSHOT)
def test_names_of_weights_stay(model):
    """Files that were written by an earlier version are read by these names."""
    state = make_encoder(model, (1, 8, 8), WIDTHS[model]).state_dict()
    for name, shape in SNAPSHOT[model].items():
        assert tuple(state[name].shape) == shape


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: make_encoder("vgg", (3, 32, 32)), "model must be one of 'resnet18', .*, 'vit', not 'vgg'"),
        (lambda: make_encoder("resnet18", (3, 7, 32)), "7 x 32 pixels are too small for ResNet, .* at least 8 x 8"),
        (lambda: make_encoder("densenet40", (3, 3, 3)), "3 x 3 pixels are too small for DenseNet, .* at least 4 x 4"),
        (
            lambda: make_encoder("densenet40-half", (3, 7, 8)),
            "7 x 8 pixels are too small for DenseNet, .* at least 8 x 8",
        ),
        (lambda: make_encoder("conv6", (3, 32, 7)), "32 x 7 pixels are too small for Conv6, .* at least 8 x 8"),
        (lambda: DenseNet((1, 8, 8), stem_stride=3), "stem_stride must be 1 or 2, not 3"),
        (lambda: make_encoder("vit", (3, 29, 31)), "29 x 31 pixels cannot be cut into 16 to 256 square patches"),
        (lambda: make_encoder("vit", (1, 4, 4)), "4 x 4 pixels cannot be cut"),
        (lambda: make_encoder("vit", (1, 8, 8), 10), "width must be a multiple of 4 for a ViT, .* not 10"),
        (lambda: make_encoder("mlp", (8, 8)), r"image_shape must be \(channels, height, width\), .* not \(8, 8\)"),
        (lambda: make_encoder("mlp", (1, 0, 8)), r"three positive integers, not \(1, 0, 8\)"),
        (lambda: make_encoder("mlp", (1, 8, 8), 0), "width must be at least 1, not 0"),
        (lambda: make_encoder("resnet18", (1, 8, 8), 2.5), "width must be a whole number, at least 1, not 2.5"),
        (lambda: ResNet((1, 8, 8), 50), "depth must be 18 or 34, not 50"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("model", get_args(Model))
def test_other_images_are_refused(model):
    encoder = make_encoder(model, (1, 8, 8), WIDTHS[model])
    for shape in [(1, 8, 8), (4, 8, 8), (4, 3, 8, 8), (4, 1, 8, 16)]:
        with pytest.raises(ValueError, match=r"images must have shape \[batch, 1, 8, 8\], not "):
            encoder(torch.zeros(shape))
    with pytest.raises(TypeError, match=r"must be floating point, not torch.uint8; use images.float\(\) / 255"):
        encoder(torch.zeros(4, 1, 8, 8, dtype=torch.uint8))


def test_smallest_images():
    assert ResNet((1, 8, 8), width=1)(images(2, 1, 8, 8)).shape == (2, 8)
    assert DenseNet((1, 4, 5), growth=1)(images(2, 1, 4, 5)).shape == (2, 52)
    assert Conv6((1, 8, 9), width=1)(images(2, 1, 8, 9)).shape == (2, 4)
    assert MLP((1, 1, 1), 4)(images(2, 1, 1, 1)).shape == (2, 4)
