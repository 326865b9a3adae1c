"""The encoder that a run hands out."""

import torch
from tests.fuzz.mutations import mutated, safetensors
from tests.fuzz.runs import small_run

from orthoframe.errors import TrainingError
from orthoframe.runs import load_encoder

REFUSALS = (TrainingError,)
WEIGHT = 14


def prepare(folder):
    return (small_run(folder) / "encoder.safetensors").read_bytes()


def make(random, data, folder):
    changed = safetensors(random, data, "orthoframe") if random.random() < 0.7 else data
    if changed is data or random.random() < 0.2:
        changed = mutated(random, changed, data)
    path = folder / "encoder.safetensors"
    path.write_bytes(changed)
    return path


def read(path):
    trained = load_encoder(path)
    features = trained.features(torch.zeros(2, *trained.image_shape, dtype=torch.uint8))
    scores, winners = trained.classify(features)
    assert scores.shape == (2, len(trained.classes))
    assert all(isinstance(trained.classes[winner], str) for winner in winners.tolist())
