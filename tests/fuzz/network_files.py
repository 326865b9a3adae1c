"""Hostile encoders, classifiers and descriptions of backbones."""

import json

import numpy as np
import torch
from tests.fuzz.mutations import Target, mutated, mutated_json, safetensors
from tests.fuzz.run_files import small_run
from tests.small_models import save_model

from orthoframe.encoders import load_backbone, make_backbone
from orthoframe.errors import DataError, TrainingError
from orthoframe.runs import load_encoder
from orthoframe.sklearn import FrameClassifier


def prepare_encoder(folder):
    return (small_run(folder) / "encoder.safetensors").read_bytes()


def hostile_encoder(random, data, folder):
    changed = safetensors(random, data, "orthoframe") if random.random() < 0.7 else data
    if changed is data or random.random() < 0.2:
        changed = mutated(random, changed, data)
    path = folder / "encoder.safetensors"
    path.write_bytes(changed)
    return path


def check_encoder(path):
    trained = load_encoder(path)
    features = trained.features(torch.zeros(2, *trained.image_shape, dtype=torch.uint8))
    scores, winners = trained.classify(features)
    assert scores.shape == (2, len(trained.classes))
    assert all(isinstance(trained.classes[winner], str) for winner in winners.tolist())


def prepare_classifier(folder):
    random = np.random.default_rng(0)
    files = []
    for names in (np.array([0, 1]), np.array(["cat", "dog"])):
        labels = names[np.arange(8) % 2]
        rows = random.normal(size=(8, 3)) + (np.arange(8) % 2)[:, None]
        options = {"hidden": (4, 4)} if names[0] == 0 else {"hidden": (), "class_weight": {"cat": 1, "dog": 2.5}}
        classifier = FrameClassifier(epochs=2, random_state=0, **options).fit(rows, labels)
        classifier.save(folder / "classifier.safetensors")
        files.append((folder / "classifier.safetensors").read_bytes())
    return files


def hostile_classifier(random, files, folder):
    data, other = files if random.random() < 0.5 else files[::-1]
    changed = safetensors(random, data, "orthoframe") if random.random() < 0.7 else data
    if changed is data or random.random() < 0.2:
        changed = mutated(random, changed, other)
    path = folder / "classifier.safetensors"
    path.write_bytes(changed)
    return path


def check_classifier(path):
    classifier = FrameClassifier.load(path)
    try:
        classes = classifier.predict(np.zeros((2, 3)))
        chances = classifier.predict_proba(np.zeros((2, 3)))
    except Exception as error:
        raise AssertionError("it was loaded, and cannot predict") from error
    assert classes.shape == (2,)
    assert chances.shape == (2, len(classifier.classes_))
    assert str(classifier.geometry_)


def prepare_backbone(folder):
    configs = []
    for kind in ("vit", "resnet"):
        save_model(kind, folder / kind)
        configs.append({**load_backbone(f"hf:{folder / kind}").config, "name": "hf:model"})
    return configs


def hostile_backbone(random, configs, folder):
    return mutated_json(random, configs[int(random.integers(len(configs)))])


def check_backbone(text):
    try:
        model = json.loads(text)
    except RecursionError:  # a reader refuses it before it comes here
        return
    if not isinstance(model, dict):
        return
    with torch.no_grad():
        backbone = make_backbone(model)
    assert all(value.is_meta for value in backbone.parameters())
    assert json.loads(json.dumps(backbone.config))["out_features"] == backbone.out_features


TARGETS = {
    "encoder": Target((TrainingError,), 14, prepare_encoder, hostile_encoder, check_encoder),
    "classifier": Target((ValueError,), 20, prepare_classifier, hostile_classifier, check_classifier),
    "backbone": Target((DataError,), 4, prepare_backbone, hostile_backbone, check_backbone),
}
