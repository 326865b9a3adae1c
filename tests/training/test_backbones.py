"""Runs on other people's backbones: trained, resumed, handed out, exported."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.small_models import SIDE, save_model
from tests.training.runs import interrupt, json_of, noted, same

from orthoframe.errors import OrthoframeError
from orthoframe.runs import load_encoder
from orthoframe.training import Settings, export_onnx, resume, train

RANDOM = np.random.default_rng(0)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Grey ones, which the backbones want in colour and in their own size."""
    path = tmp_path_factory.mktemp("pictures")
    for number, name in enumerate(("a", "b")):
        (path / name).mkdir()
        for i in range(16):
            pixels = RANDOM.integers(0, 100, (20 + i % 3, 24)) + 100 * number
            Image.fromarray(pixels.astype(np.uint8)).save(path / name / f"{i}.png")
    return f"folder:{path}"


@pytest.mark.parametrize("kind", ["resnet", "vit", "convnext", "dinov2"])
def test_a_run_from_start_to_export(kind, pictures, tmp_path):
    save_model(kind, tmp_path / "model")
    settings = Settings.of(recipe="plain", data=pictures, backbone=f"hf:{tmp_path / 'model'}", epochs=2, batch_size=8)
    outcome = train(settings, tmp_path / "run")
    assert outcome.settings.encoder.model is None
    assert outcome.settings.schedule.backbone_lr == 0  # it stays as it is
    interrupt(settings, tmp_path / "again", epoch=1, steps=1)
    notes = []
    resume(tmp_path / "again", noted(notes))
    assert not [note for note in notes if "resuming from the previous one" in note]  # nor is it begun anew
    assert same(tmp_path / "again", tmp_path / "run")
    shutil.rmtree(tmp_path / "model")  # what was handed out needs nothing else
    trained = load_encoder(tmp_path / "run")
    assert trained.image_shape == (3, SIDE, SIDE)
    file = next(Path(pictures.partition(":")[2]).glob("a/*.png"))
    pixels = trained.preparation(file)[None]
    assert torch.allclose(trained.features(pixels).norm(dim=1), torch.ones(1))
    said = export_onnx(trained, tmp_path / "run.onnx")
    assert "the same classes" in said


def test_fine_tuned_with_a_learning_rate_of_its_own(pictures, tmp_path):
    save_model("vit", tmp_path / "model")
    settings = Settings.of(
        recipe="plain", data=pictures, backbone=f"hf:{tmp_path / 'model'}", epochs=2, batch_size=8, backbone_lr=0.01
    )
    weights = []
    for lr in (0.0, 0.01):
        train(settings.with_options(backbone_lr=lr), tmp_path / str(lr))
        weights.append(load_encoder(tmp_path / str(lr)).encoder.backbone.state_dict())
    assert any(not torch.equal(value, weights[1][name]) for name, value in weights[0].items())
    interrupt(settings, tmp_path / "again", epoch=1, steps=1)
    notes = []
    resume(tmp_path / "again", noted(notes))
    assert not [note for note in notes if "resuming from the previous one" in note]
    assert same(tmp_path / "again", tmp_path / "0.01")
    # A trained encoder with a backbone is a start as any other.
    again = Settings.of(recipe="plain", data=pictures, init=tmp_path / "0.01", epochs=1, backbone_lr=0.0)
    train(again, tmp_path / "further")
    kept = load_encoder(tmp_path / "further").encoder.backbone.state_dict()
    assert all(torch.equal(value, kept[name]) for name, value in weights[1].items())


FACTORY = """
import torch
from torch import nn


class Small(nn.Module):
    image_size = 16

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(3 * 16 * 16, 12)

    def forward(self, images):
        return self.linear(images.flatten(1))
"""


def test_a_function_is_called_only_where_that_is_allowed(pictures, tmp_path, monkeypatch):
    (tmp_path / "small_factory.py").write_text(FACTORY)
    monkeypatch.chdir(tmp_path)
    settings = Settings.of(recipe="plain", data=pictures, backbone="small_factory:Small", epochs=2, batch_size=8)
    interrupt(settings, tmp_path / "run", epoch=1, steps=1)
    with pytest.raises(OrthoframeError, match="small_factory:Small is Python code, and is run only if you allow it"):
        resume(tmp_path / "run")
    resume(tmp_path / "run", code=True)
    assert json_of(tmp_path / "run" / "config.json")["backbone"] == "small_factory:Small"
    with pytest.raises(OrthoframeError, match="small_factory:Small is Python code, and is run only if you allow it"):
        load_encoder(tmp_path / "run")
    assert load_encoder(tmp_path / "run", code=True).image_shape == (3, 16, 16)
    again = Settings.of(recipe="plain", data=pictures, init=tmp_path / "run", epochs=1)
    with pytest.raises(OrthoframeError, match="small_factory:Small is Python code, and is run only if you allow it"):
        train(again, tmp_path / "again")
    assert train(again, tmp_path / "again", code=True).settings.encoder.model is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"model": "mlp"}, "backbone takes the place of model; leave one out"),
        ({"size": (20, 20)}, "size is 32 x 32, as the encoder needs it; leave it out"),
        ({"backbone": "resnet50"}, "backbone must be efficientnet-lite0, efficientnet-lite0-224, hf:NAME"),
        ({"backbone": "hf:./nothing"}, "nothing"),
        ({"backbone": "sys:exit"}, r"called without arguments, it fails \(SystemExit"),
        ({"data": "digits"}, r"images of shape \[1, 8, 8\] do not fit the backbone, which takes \[3, 32, 32\]"),
    ],
)
def test_backbones_that_are_refused(options, said, pictures, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    save_model("resnet", tmp_path / "model")
    values = {"data": pictures, "backbone": f"hf:{tmp_path / 'model'}", "epochs": 1, **options}
    with pytest.raises(OrthoframeError, match=said):
        train(Settings.of(recipe="plain", **values), tmp_path / "run")
    assert not (tmp_path / "run").exists()
