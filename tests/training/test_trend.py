"""The verdict at the end of a run: whether it was still on its way."""

from dataclasses import replace

import pytest
import torch
from tests.training.verdicts import causes, record, verdict

from orthoframe.runs import Cause, Ending, Signature
from orthoframe.training import Ramp, Settings, train


def losses(*values, lr=0.1, delta=1.169):
    """Records of a run: the loss is 4.87 if all features are alike, and 2.87 at its floor."""
    return [
        record(number + 1, lr=lr, loss=loss, floor=2.87, collapsed=4.87, gap=loss - 2.87, delta_of=delta)
        for number, loss in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("values", "options", "ending", "cause", "words", "advice"),
    [
        # A ResNet on Fashion-MNIST ended so after 3 epochs.
        ((5.15, 4.9, 4.84), {}, Ending.HARDLY_BEGUN, Cause.ALIKE, "the loss, 4.8400, is", "more epochs, or another lr"),
        ((4.9, 4.3, 4.0), {}, Ending.HARDLY_BEGUN, Cause.HARDLY_BEGUN, " 44 % of the way", "more epochs"),
        ((4.9, 4.3, 4.0), {"lr": 1e-4}, Ending.HARDLY_BEGUN, Cause.SMALL_LR, "lr=0.0001 is small", "lr=0.1, or"),
        ((4.87, 4.87, 4.87), {}, Ending.ALIKE, Cause.ALIKE, "the loss, 4.8700, is", "more epochs, or another lr"),
        ((4.87, 4.87, 4.87), {"lr": 2.0}, Ending.ALIKE, Cause.LARGE_LR, "lr=2.0 is large", "lr=0.1"),
        ((4.5, 4.4, 4.0), {"lr": 2.0}, None, Cause.LARGE_LR, "lr=2.0 is large", "lr=0.1"),
        ((4.9, 4.0, 3.4), {}, Ending.FALLING, Cause.STILL_FALLING, "the gap above the floor", "more epochs"),
        ((4.9, 4.0, 4.0), {}, Ending.STALLED, Cause.STALLED, "the gap above the floor has stopped", "another seed"),
        ((4.9, 2.9, 2.9), {}, Ending.STALLED, Cause.STALLED, "the distance to the frame has stopped", "another seed"),
    ],
)
def test_how_far_the_loss_has_gone(values, options, ending, cause, words, advice):
    said = verdict(tilt=0.3, spread=1.0, records=losses(*values), **options)
    assert said.ending is ending
    assert causes(said) == [cause]
    assert words in said.causes[0].sentence
    assert advice in said.causes[0].advice


def test_a_low_temperature_is_not_blamed_before_the_loss_is_near_its_floor():
    stuck, slow = (verdict(tilt=0.3, temperature=0.1, records=losses(4.9, end, end)) for end in (3.5, 2.88))
    assert stuck.ending is Ending.STALLED
    assert slow.ending is Ending.SLOW
    assert causes(slow)[0] is Cause.TOO_COLD


def test_a_gap_that_grows_with_the_margin_is_not_the_end():
    """The distance falls, while the margin raises loss and floor: more epochs are what is missing."""
    gaps, deltas = (4.0, 3.6, 3.7), (1.1, 0.9, 0.7)
    records = [replace(row, delta_of=delta) for row, delta in zip(losses(*gaps), deltas, strict=True)]
    said = verdict(
        tilt=0.3, spread=1.0, records=records, temperature=0.1, margin=Ramp(0.0, 0.5), epochs=3, clean_fraction=0.0
    )
    assert causes(said) == [Cause.STILL_FALLING]
    assert "the distance to the frame is still falling" in said.causes[0].sentence
    same = verdict(tilt=0.3, spread=1.0, records=records, temperature=0.1, epochs=3, clean_fraction=0.0)
    assert "the gap above the floor has stopped falling" in same.causes[0].sentence


def test_slow():
    said = verdict(tilt=0.3, deltas=(0.9, 0.8, 0.76))
    assert (said.signature, said.ending) == (Signature.NOT_ORTHOGONAL, Ending.SLOW)
    assert causes(said) == [Cause.SLOW]
    assert said.causes[0].advice.startswith("many more epochs")


def test_epochs_without_a_learning_rate_do_not_count():
    """The distance fell as long as the learning rate let it."""
    rates = [0.1] * 5 + [1e-4] * 5
    deltas = [0.9, 0.8, 0.7, 0.6, 0.5] + [0.5] * 5

    def ending(rates):
        records = [
            record(n + 1, lr=lr, delta_of=delta) for n, (lr, delta) in enumerate(zip(rates, deltas, strict=True))
        ]
        return verdict(tilt=0.3, clean_fraction=0.0, records=records).ending

    assert ending(rates) is Ending.FALLING
    assert ending([0.1] * 10) is Ending.STALLED


def test_what_fell_when_augmentation_ended_is_not_falling():
    records = [record(n + 1, lr=0.1, delta_of=0.9 if n < 8 else 0.5) for n in range(10)]
    assert verdict(tilt=0.3, clean_fraction=0.2, epochs=10, records=records).ending is Ending.STALLED


def test_collapse_is_still_falling():
    """The means are orthogonal already; it is the classes that have some way to go."""

    def features(task):
        rows = torch.nn.functional.one_hot(task.train.labels, 40).double()
        rows[torch.arange(len(rows)), 10 + torch.arange(len(rows)) % 30] = 0.2
        return torch.nn.functional.normalize(rows, dim=1)

    records = [record(n + 1, lr=0.1, delta_of=0.01, beta_nc=0.1 / (n + 1)) for n in range(10)]
    said = verdict(features, records=records)
    assert (said.signature, said.ending) == (Signature.NOT_COLLAPSED, Ending.FALLING)
    assert causes(said) == [Cause.STILL_FALLING]
    assert said.causes[0].sentence.startswith("beta_NC ")


@pytest.mark.parametrize(
    ("options", "ending", "cause", "words", "advice"),
    [
        ({"epochs": 30}, Ending.FALLING, Cause.STILL_FALLING, "the distance to the frame is", "more epochs"),
        ({"epochs": 30, "temperature": (0.1, 0.5)}, Ending.FALLING, Cause.STILL_FALLING, "the distance", "more epochs"),
        ({"epochs": 3}, Ending.HARDLY_BEGUN, Cause.HARDLY_BEGUN, "the loss has gone ", "more epochs"),
        ({"epochs": 5, "lr": 30.0}, Ending.ALIKE, Cause.LARGE_LR, "lr=30.0 is large", "lr=0.1"),
        ({"epochs": 5, "lr": 1e-5}, Ending.HARDLY_BEGUN, Cause.SMALL_LR, "lr=1e-05 is small", "lr=0.1"),
        ({"epochs": 30, "temperature": 5.0}, None, Cause.TOO_HOT, "temperature 5 is far above 0.56", "0.1"),
        ({"epochs": 60, "temperature": 0.05}, Ending.SLOW, Cause.TOO_COLD, "0.05 is far below 0.56", "(0.1, 0.5)"),
    ],
    ids=str,
)
def test_real_runs(options, ending, cause, words, advice, tmp_path):
    """The digits as they come; each of these runs was once blamed on something else, or belongs beside one that was."""
    said = train(Settings.of(recipe="plain", **options), tmp_path / "run").diagnosis.record()
    assert said.ending is ending
    assert causes(said)[0] is cause
    assert words in said.causes[0].sentence
    assert advice in said.causes[0].advice
    assert not said.reached
