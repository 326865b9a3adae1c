"""Other people's networks: the same features as theirs, made again without them, and refused in a sentence."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import save_file
from tests.small_models import KINDS, SIDE, save_model

from orthoframe.encoders import PREFIX, load_backbone, load_weights, make_backbone, make_frame_encoder
from orthoframe.errors import DataError, OptionError

pytest.importorskip("transformers")

FACTORIES = """
import torch
from torch import nn

numbers = 3

class Network(nn.Module):
    image_size, mean, std = (8, 12), (0.5,), (0.25,)

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 5)

    def forward(self, images):
        return self.linear(images.flatten(1))

class Maps(Network):
    def forward(self, images):
        return images

class Falls(Network):
    def forward(self, images):
        raise RuntimeError("out of order")

class Strange(Network):
    mean = (0.5, "red")

class Plain(nn.Module):
    def forward(self, images):
        return images.mean((2, 3))

def nothing():
    return None

def fails():
    raise OSError("no weights")
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return folder, {kind: save_model(kind, folder / kind) for kind in KINDS}


@pytest.fixture
def factories(tmp_path, monkeypatch):
    """A module in the current folder."""
    monkeypatch.chdir(tmp_path)
    name = f"backbones_of_{tmp_path.name.replace('-', '_')}"
    Path(f"{name}.py").write_text(FACTORIES)
    yield name
    sys.modules.pop(name, None)


def images(seed=0, side=SIDE):
    return torch.randn(3, 3, side, side, generator=torch.Generator().manual_seed(seed))


def direct(kind, model, pixels):
    """Features as a user of transformers would take them."""
    with torch.no_grad():
        outputs = (model.vision_model if kind == "clip" else model)(pixel_values=pixels)
    return outputs.pooler_output.flatten(1)


@pytest.mark.parametrize("kind", KINDS)
def test_features_are_those_of_transformers(models, kind):
    folder, made = models
    backbone = load_backbone(f"hf:{folder / kind}")
    with torch.no_grad():
        features = backbone(images())
    assert torch.equal(features, direct(kind, made[kind], images()))
    assert backbone.out_features == features.shape[1]
    assert backbone.image_shape == (3, SIDE, SIDE)
    assert not backbone.nonnegative
    assert not backbone.training


@pytest.mark.parametrize("kind", KINDS)
def test_images_are_normalised_as_its_image_processor_does(models, kind):
    from transformers import AutoImageProcessor

    folder, _ = models
    backbone = load_backbone(f"hf:{folder / kind}")
    image = Image.new("RGB", (64, 64), (10, 100, 200))
    expected = AutoImageProcessor.from_pretrained(folder / kind)(image, return_tensors="pt")["pixel_values"]
    assert tuple(expected.shape[1:]) == backbone.image_shape
    mean, std = (torch.tensor(value, dtype=torch.float64) for value in (backbone.mean, backbone.std))
    pixel = (torch.tensor([10, 100, 200]).double() / 255 - mean) / std
    # Pixels of the size that it asks for; mean and std have seven digits.
    assert torch.allclose(expected[0, :, 5, 5].double(), pixel, rtol=0, atol=2e-6)


def test_the_mean_of_known_processors_is_exact(models):
    assert load_backbone(f"hf:{models[0] / 'dinov2'}").mean == (0.485, 0.456, 0.406)
    assert load_backbone(f"hf:{models[0] / 'swin'}").mean == (0, 0, 0)


@pytest.mark.parametrize("kind", ["vit", "resnet"])
def test_without_a_pooler_the_mean_is_taken(models, kind, tmp_path):
    """Weights of a classifier have none for the pooler of a ViT, which would then be random."""
    import transformers

    folder, made = models
    if kind == "vit":
        other = transformers.ViTForImageClassification(made["vit"].config)
    else:
        other = transformers.ResNetForImageClassification(made["resnet"].config)
    other.eval().save_pretrained(tmp_path)
    shutil.copy(folder / kind / "preprocessor_config.json", tmp_path)
    backbone = load_backbone(f"hf:{tmp_path}")
    with torch.no_grad():
        last = getattr(other, kind)(images()).last_hidden_state
        assert torch.allclose(backbone(images()), last.mean(1) if kind == "vit" else last.mean((2, 3)), atol=1e-6)
    assert backbone.config["pooler"] == (kind != "vit")
    assert not [name for name, _ in backbone.named_parameters() if "pooler" in name]


@pytest.mark.parametrize("kind", KINDS)
def test_made_again_without_its_folder(models, kind, tmp_path):
    """From JSON and a file of weights, first shapes alone."""
    shutil.copytree(models[0] / kind, tmp_path / "model")
    backbone = load_backbone(f"hf:{tmp_path / 'model'}")
    encoder = make_frame_encoder(None, backbone.image_shape, backbone=backbone, features=7)
    tensors = {PREFIX + name: value.contiguous() for name, value in encoder.state_dict().items()}
    save_file(tensors, tmp_path / "encoder.safetensors")
    shutil.rmtree(tmp_path / "model")
    config = json.loads(json.dumps(backbone.config))
    again = make_backbone(config)
    assert all(value.is_meta for value in again.parameters())
    other = make_frame_encoder(None, again.image_shape, backbone=again, features=7, weights=False)
    with safe_open(tmp_path / "encoder.safetensors", framework="pt") as file:
        load_weights(other, file)
    with torch.no_grad():
        assert torch.equal(other.eval()(images()), encoder.eval()(images()))
    assert again.config == backbone.config
    assert (again.mean, again.std) == (backbone.mean, backbone.std)


def test_random_weights_come_from_the_seed(factories):
    state, ones = torch.random.get_rng_state(), torch.ones(2, 1, 8, 12)
    one, same, other = (load_backbone(f"{factories}:Network", seed=seed)(ones) for seed in (3, 3, 4))
    assert torch.equal(one, same)
    assert not torch.allclose(one, other)
    assert torch.equal(state, torch.random.get_rng_state())


def test_a_frame_head_on_a_backbone(models):
    backbone = load_backbone(f"hf:{models[0] / 'resnet'}")
    encoder = make_frame_encoder(None, backbone.image_shape, backbone=backbone, features=6, num_classes=6)
    features = encoder(images())
    assert features.shape == (3, 6)
    assert encoder.nonnegative
    assert features.min() >= 0
    features.sum().backward()
    assert all(value.grad is not None for value in backbone.parameters())
    plain = make_frame_encoder(None, backbone.image_shape, backbone=backbone, head="none", activation="none")
    assert plain.out_features == backbone.out_features
    assert not plain.nonnegative
    with pytest.raises(OptionError, match=r"images of shape \[3, 8, 8\] do not fit the backbone, which takes \[3, 32"):
        make_frame_encoder(None, (3, 8, 8), backbone=backbone)
    with pytest.raises(OptionError, match="an encoder needs a model or a backbone"):
        make_frame_encoder(None, (3, 8, 8))


def test_nothing_is_looked_for_elsewhere(models):
    """Of a folder, although the hub may be asked, which does not answer; and nothing is printed."""
    script = f"from orthoframe.encoders import load_backbone; load_backbone('hf:{models[0] / 'vit'}')"
    variables = {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": "http://127.0.0.1:9", "OMP_NUM_THREADS": "1"}
    source = str(Path(__file__).parents[2] / "src")
    done = subprocess.run(
        [sys.executable, "-c", script], env={**variables, "PYTHONPATH": source}, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_what_is_not_an_image_model(models, tmp_path):
    save_model("bert", tmp_path / "bert")
    save_model("mae", tmp_path / "mae")
    shutil.copytree(models[0] / "vit", tmp_path / "pickled")
    (tmp_path / "pickled" / "model.safetensors").rename(tmp_path / "pickled" / "pytorch_model.bin")
    shutil.copytree(models[0] / "vit", tmp_path / "unprocessed")
    (tmp_path / "unprocessed" / "preprocessor_config.json").unlink()
    shutil.copytree(models[0] / "vit", tmp_path / "half")
    state = torch.nn.Linear(2, 2).state_dict()
    save_file(state, tmp_path / "half" / "model.safetensors", {"format": "pt"})
    shutil.copytree(models[0] / "vit", tmp_path / "small")
    (tmp_path / "small" / "preprocessor_config.json").write_text(
        (models[0] / "vit" / "preprocessor_config.json").read_text().replace("32", "24")
    )
    (tmp_path / "empty").mkdir()
    expected = {
        "bert": "BertModel is not a model of images; give one that takes pixel_values",
        "mae": "its features differ from call to call",
        "pickled": "there is no model.safetensors in it; save it with model.save_pretrained",
        "unprocessed": "there is no preprocessor_config.json in it, which has the size of images",
        "half": "the checkpoint lacks embeddings",
        "small": r"it does not take images of shape \[2, 3, 24, 24\]",
        "empty": "transformers cannot use it",
        "missing": "no such folder",
    }
    for name, sentence in expected.items():
        with pytest.raises(DataError, match=sentence) as refused:
            load_backbone(f"hf:{tmp_path / name}")
        assert len(str(refused.value)) <= 300 + len(str(tmp_path))
        assert "\n" not in str(refused.value)


def test_a_name_that_nobody_knows(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(DataError, match="hf:nobody/nothing: no such folder, and no model that transformers finds"):
        load_backbone("hf:nobody/nothing")


def test_without_the_package():
    script = """
import sys
sys.modules["transformers"] = None
from orthoframe.encoders import load_backbone
try:
    load_backbone("hf:x/y")
except Exception as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("hf:x/y needs transformers (")
    assert done.stdout.endswith("pip install 'orthoframe[transformers]'\n")


def test_a_factory(factories):
    backbone = load_backbone(f"{factories}:Network", seed=1)
    assert (backbone.image_shape, backbone.out_features) == ((1, 8, 12), 5)
    assert (backbone.mean, backbone.std) == ((0.5,), (0.25,))
    again = make_backbone(json.loads(json.dumps(backbone.config)), code=True)
    again.load_state_dict(backbone.state_dict(), assign=True)
    assert torch.equal(again(torch.ones(2, 1, 8, 12)), backbone(torch.ones(2, 1, 8, 12)))
    plain = load_backbone(f"{factories}:Plain")
    assert (plain.image_shape, plain.out_features, plain.mean) == ((3, 224, 224), 3, (0, 0, 0))
    assert "" not in sys.path or sys.path.count("") == 1


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nowhere_at_all:make", "the module nowhere_at_all cannot be imported"),
        ("{}:Nothing", "has no Nothing"),
        ("{}:numbers", "numbers cannot be called; name a function that returns an nn.Module"),
        ("{}:nothing", "it must return an nn.Module, not NoneType"),
        ("{}:fails", r"called without arguments, it fails \(OSError: no weights\)"),
        ("{}:Maps", r"it returns a tensor of shape \[2, 1, 8, 12\]; features \[2, dim\] are needed"),
        ("{}:Falls", r"it does not take images of shape \[2, 1, 8, 12\] \(RuntimeError: out of order\)"),
        ("{}:Strange", "image_size must be a number or height and width"),
    ],
)
def test_factories_that_are_none(factories, name, sentence):
    with pytest.raises(DataError, match=sentence):
        load_backbone(name.format(factories))


@pytest.mark.parametrize("name", ["resnet50", "hf:", ":make", ""])
def test_names_that_are_neither(name):
    with pytest.raises(OptionError, match="efficientnet-lite0-224, hf:NAME_OR_FOLDER or MODULE:FACTORY"):
        load_backbone(name)


def test_descriptions_that_lie(models):
    good = load_backbone(f"hf:{models[0] / 'vit'}").config
    model = good["model"]
    broken = {
        "does not describe a backbone": {**good, "mean": "red"},
        "mean and std of a backbone must be 3 finite": {**good, "std": [1.0, 1.0, 0.0]},
        "must have positive sizes": {**good, "out_features": 0},
        "is Python code, and is run only if you allow it": {**good, "name": "os:abort", "model": None},
        "more than 20000 layers": {**good, "model": {**model, "num_hidden_layers": 10**9}},
        "cannot be made from its description": {**good, "model": {**model, "model_type": "timm_wrapper"}},
        "of the kind 'None' cannot be made": {**good, "model": {}},
        "is not a model of images": {**good, "model": {"model_type": "bert"}},
    }
    for sentence, config in broken.items():
        with pytest.raises(DataError, match=sentence):
            make_backbone(config)
    wide = make_backbone({**good, "model": {**model, "intermediate_size": 2**40}})
    assert sum(value.numel() for value in wide.parameters()) > 2**40
    lying = make_backbone({**good, "out_features": 9})
    with pytest.raises(ValueError, match=r"gives features of shape \[3, 16\] instead of \[3, 9\]"):
        lying(images().to("meta"))
