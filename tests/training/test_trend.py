"""The verdict at the end of a run: whether it was still on its way."""

import pytest
import torch
from tests.training.verdicts import verdict

from orthoframe.training import Settings, train


def losses(*values, lr=0.1, delta=1.169, **columns):
    """Rows of a run: the loss is 4.87 if all features are alike, and 2.87 at its floor."""
    return [
        {
            "epoch": number + 1,
            "lr": lr,
            "loss": loss,
            "floor": 2.87,
            "collapsed": 4.87,
            "gap": loss - 2.87,
            "delta_of": delta,
            **columns,
        }
        for number, loss in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("values", "options", "ending", "cause", "advice"),
    [
        # A ResNet on Fashion-MNIST ended so after 3 epochs.
        ((5.15, 4.9, 4.84), {}, "hardly begun", "the loss, 4.8400, is about that of", "more --epochs, or another --lr"),
        ((4.9, 4.3, 4.0), {}, "hardly begun", "the loss has gone 44 % of the way", "more --epochs"),
        ((4.9, 4.3, 4.0), {"lr": 1e-4}, "hardly begun", "and --lr 0.0001 is small", "a larger --lr, such as 0.1, or"),
        ((4.87, 4.87, 4.87), {}, "features all alike", "the loss, 4.8700, is about", "more --epochs, or another --lr"),
        ((4.87, 4.87, 4.87), {"lr": 2.0}, "features all alike", "and --lr 2 is large", "a smaller --lr, such as 0.1"),
        ((4.5, 4.4, 4.0), {"lr": 2.0}, "classes not collapsed", "and --lr 2 is large", "a smaller --lr, such as 0.1"),
        ((4.9, 4.0, 3.4), {}, "still falling", "the gap above the floor is still falling", "more --epochs"),
        ((4.9, 4.0, 4.0), {}, "stalled", "the distance has stopped falling", "another --seed"),
        ((4.9, 2.9, 2.9), {}, "stalled", "the distance has stopped falling", "another --seed"),
    ],
)
def test_how_far_the_loss_has_gone(values, options, ending, cause, advice):
    said = verdict(tilt=0.3, spread=1.0, rows=losses(*values), **options)
    assert said["signature"].endswith(f", {ending}")
    assert cause in said["causes"][0]
    assert advice in said["advice"][0]
    assert len(said["causes"]) == 1


def test_a_low_temperature_is_not_blamed_before_the_loss_is_near_its_floor():
    stuck, slow = (verdict(tilt=0.3, temperature="0.1", rows=losses(4.9, end, end)) for end in (3.5, 2.88))
    assert stuck["signature"].endswith(", stalled")
    assert slow["signature"].endswith(", slow")
    assert slow["causes"][0].startswith("temperature 0.1 is far below 0.48")


def test_slow():
    said = verdict(tilt=0.3, deltas=(0.9, 0.8, 0.76))
    assert said["signature"] == "means not orthogonal, slow"
    assert said["causes"] == ["the distance falls slowly, and nothing that can be checked explains it"]
    assert said["advice"][0].startswith("many more --epochs")


def test_epochs_without_a_learning_rate_do_not_count():
    """The distance fell as long as the learning rate let it."""
    rates = [0.1] * 5 + [1e-4] * 5
    deltas = [0.9, 0.8, 0.7, 0.6, 0.5] + [0.5] * 5
    rows = [
        {"epoch": n + 1, "lr": lr, "delta_of": delta} for n, (lr, delta) in enumerate(zip(rates, deltas, strict=True))
    ]
    assert verdict(tilt=0.3, settle=0.0, rows=rows)["signature"].endswith("still falling")
    assert verdict(tilt=0.3, settle=0.0, rows=[{**row, "lr": 0.1} for row in rows])["signature"].endswith("stalled")


def test_what_fell_when_augmentation_ended_is_not_falling():
    rows = [{"epoch": n + 1, "lr": 0.1, "delta_of": 0.9 if n < 8 else 0.5} for n in range(10)]
    assert verdict(tilt=0.3, settle=0.2, rows=rows)["signature"].endswith("stalled")


def test_collapse_is_still_falling():
    """The means are orthogonal already; it is the classes that have some way to go."""

    def features(task):
        rows = torch.nn.functional.one_hot(task.train.labels, 40).double()
        rows[torch.arange(len(rows)), 10 + torch.arange(len(rows)) % 30] = 0.2
        return torch.nn.functional.normalize(rows, dim=1)

    rows = [{"epoch": n + 1, "lr": 0.1, "delta_of": 0.01, "beta_nc": 0.1 / (n + 1)} for n in range(10)]
    said = verdict(features, rows=rows)
    assert said["signature"] == "classes not collapsed, still falling"
    assert said["causes"] == ["beta_NC is still falling"]


@pytest.mark.parametrize(
    ("options", "ending", "cause", "advice"),
    [
        ({"epochs": 30}, "still falling", "the distance to the frame is still falling", "more --epochs"),
        ({"epochs": 30, "temperature": "0.1->0.5"}, "still falling", "the distance to the frame is", "more --epochs"),
        ({"epochs": 3}, "hardly begun", "the loss has gone ", "more --epochs"),
        ({"epochs": 5, "lr": 30.0}, "features all alike", "and --lr 30 is large", "a smaller --lr, such as 0.1"),
        ({"epochs": 5, "lr": 1e-5}, "hardly begun", "and --lr 1e-05 is small", "a larger --lr, such as 0.1"),
        ({"epochs": 30, "temperature": "5"}, "classes not collapsed", "temperature 5 is far above 0.56", "0.1"),
        ({"epochs": 60, "temperature": "0.05"}, "slow", "temperature 0.05 is far below 0.56", "0.1->0.5"),
    ],
    ids=str,
)
def test_real_runs(options, ending, cause, advice, tmp_path):
    """The digits as they come; each of these runs was once blamed on something else, or belongs beside one that was."""
    said = train(Settings(precision="32", **options), tmp_path / "run").verdict
    assert said["signature"].endswith(ending)
    assert cause in said["causes"][0]
    assert advice in said["advice"][0]
    assert not said["reached"]
