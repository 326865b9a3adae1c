"""Verdicts of runs that never were: features and records of epochs made by hand."""

import torch
from tests.training.runs import small

from orthoframe.geometry import Confusion, NearestCentre, accuracy_of, measure
from orthoframe.runs import EpochRecord, TestRecord
from orthoframe.training import OBJECTIVES, Evaluation, diagnose, make_task

FAST = 0.5  # a temperature at which features near the frame move


def features_of(task, *, spread=0.0, tilt=0.0, dim=16):
    """Unit features of the training images: a dimension for each class, mixed with all others and with noise."""
    generator = torch.Generator().manual_seed(0)
    labels = task.train.labels
    rows = torch.nn.functional.one_hot(labels, dim).double() + tilt
    rows += spread * torch.rand(len(labels), dim, generator=generator, dtype=torch.float64)
    return torch.nn.functional.normalize(rows, dim=1)


def record(epoch, *, lr=1.0, loss=1.0, **columns):
    """A row of metrics.csv."""
    return EpochRecord(epoch=epoch, seconds=0.1, lr=lr, temperature=FAST, loss=loss, **columns)


def verdict(features=None, deltas=(0.9, 0.9), spread=0.0, tilt=0.0, records=None, **options):
    """What is said of a run with these settings that ended with these features, and with these distances on the way."""
    has_temperature = OBJECTIVES[options.get("loss", "supcon")].has_head
    options = {"temperature": FAST, **options} if has_temperature else options
    task = make_task(small(**options))
    features = features_of(task, spread=spread, tilt=tilt) if features is None else features(task)
    geometry = measure(features, task.train.labels, num_classes=10)
    if records is None:
        records = [record(10 * (number + 1), delta_of=delta) for number, delta in enumerate(deltas)]
    test = accuracy_of(torch.arange(10), torch.arange(10), range(10))
    final_test = TestRecord(test, Confusion.of(torch.arange(10), torch.arange(10), range(10)))
    rule = NearestCentre(geometry.means)
    evaluation = Evaluation(geometry=geometry, test=test, rule=rule, centres=geometry.means, final_test=final_test)
    diagnosis = diagnose(task, task.certificate(), records, evaluation)
    said = diagnosis.record()
    assert said.reached == diagnosis.reached
    for sentence in (said.sentence, *(words for cause in said.causes for words in (cause.sentence, cause.advice))):
        assert sentence
        assert "\n" not in sentence
        assert "--" not in sentence
        assert "{" not in sentence
    return said


def causes(said):
    """The codes of its causes."""
    return [cause.cause for cause in said.causes]
