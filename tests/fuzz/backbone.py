"""The description of a backbone, from which it is made without its folder."""

import json

import torch
from tests.fuzz.mutations import mutated_json
from tests.small_models import save_model

from orthoframe.encoders import load_backbone, make_backbone
from orthoframe.errors import DataError

REFUSALS = (DataError,)
WEIGHT = 4


def prepare(folder):
    configs = []
    for kind in ("vit", "resnet"):
        save_model(kind, folder / kind)
        configs.append({**load_backbone(f"hf:{folder / kind}").config, "name": "hf:model"})
    return configs


def make(random, configs, folder):
    return mutated_json(random, configs[int(random.integers(len(configs)))])


def read(text):
    try:
        given = json.loads(text)
    except RecursionError:  # a reader refuses it before it comes here
        return
    if not isinstance(given, dict):
        return
    with torch.no_grad():
        backbone = make_backbone(given, weights=False)
    assert all(value.is_meta for value in backbone.parameters())
    assert json.loads(json.dumps(backbone.config))["out_features"] == backbone.out_features
