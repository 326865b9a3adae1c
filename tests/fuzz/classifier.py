"""A classifier in a file."""

import numpy as np
from tests.fuzz.mutations import mutated, safetensors

from orthoframe.sklearn import FrameClassifier

REFUSALS = (ValueError,)
WEIGHT = 20


def prepare(folder):
    random = np.random.default_rng(0)
    files = []
    for names in (np.array([0, 1]), np.array(["cat", "dog"])):
        labels = names[np.arange(8) % 2]
        rows = random.normal(size=(8, 3)) + (np.arange(8) % 2)[:, None]
        options = {} if names[0] == 0 else {"class_weight": {"cat": 1, "dog": 2.5}}
        classifier = FrameClassifier(hidden=(4, 4), epochs=2, random_state=0, **options).fit(rows, labels)
        classifier.save(folder / "classifier.safetensors")
        files.append((folder / "classifier.safetensors").read_bytes())
    return files


def make(random, files, folder):
    data, other = files if random.random() < 0.5 else files[::-1]
    changed = safetensors(random, data, "orthoframe") if random.random() < 0.7 else data
    if changed is data or random.random() < 0.2:
        changed = mutated(random, changed, other)
    path = folder / "classifier.safetensors"
    path.write_bytes(changed)
    return path


def read(path):
    classifier = FrameClassifier.load(path)
    try:
        found = classifier.predict(np.zeros((2, 3)))
        chances = classifier.predict_proba(np.zeros((2, 3)))
    except Exception as error:
        raise AssertionError("it was loaded, and cannot predict") from error
    assert found.shape == (2,)
    assert chances.shape == (2, len(classifier.classes_))
    assert str(classifier.geometry_)
