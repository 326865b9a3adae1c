"""The verdict at the end of a run: what shows, why, and what to try."""

import pytest
import torch
from tests.training.runs import small
from tests.training.verdicts import FAST, features_of, verdict

from orthoframe.training._setup import set_up


def test_the_frame_is_reached():
    said = verdict()
    assert said["reached"]
    assert said["signature"] == "frame reached"
    assert said["verdict"] == (
        "The frame is reached: class means are orthogonal and classes have collapsed "
        "(distance to the frame 0.0000, beta_NC 0); balanced test accuracy 0.900."
    )
    assert said["causes"] == said["advice"] == []


@pytest.mark.parametrize(
    ("mixed", "signature", "words"),
    [
        ({"tilt": 0.3}, "means not orthogonal", "classes have collapsed, but their means are not orthogonal"),
        ({"tilt": 0.3, "spread": 1.0}, "means not orthogonal, classes not collapsed", "classes have not collapsed"),
    ],
)
def test_signatures(mixed, signature, words):
    said = verdict(**mixed)
    assert not said["reached"]
    assert said["signature"] == f"{signature}, stalled"
    assert said["verdict"].startswith("The frame is not reached: ")
    assert words in said["verdict"]
    assert said["causes"] == ["the distance has stopped falling, and nothing that can be checked explains it"]
    assert "--seed" in said["advice"][0]


def test_orthogonal_means_of_classes_that_have_not_collapsed():
    """Each class is spread over dimensions of its own, evenly around its mean: beta_NC is zero."""

    def features(task):
        rows = torch.zeros(len(task.train), 40, dtype=torch.float64)
        for c in range(10):
            members = (task.train.labels == c).nonzero()[:, 0]
            rows[members, 4 * c + torch.arange(len(members)) % 4] = 1.0
        return rows

    said = verdict(features)
    assert said["signature"] == "classes not collapsed, stalled"
    words = said["verdict"]
    assert words.startswith("The frame is not reached: class means are orthogonal, but classes have not collapsed (")
    assert words.endswith(", mean squared distance to the class mean 0.75).")


def test_still_falling():
    said = verdict(tilt=0.3, deltas=(0.9, 0.8, 0.6))
    assert said["signature"] == "means not orthogonal, still falling"
    assert said["causes"] == ["the distance to the frame is still falling"]
    assert said["advice"] == ["more --epochs"]
    assert verdict(tilt=0.3, deltas=(0.9, 0.8, 0.79))["signature"].endswith("stalled")
    assert verdict(tilt=0.3, deltas=(0.9,))["signature"].endswith("still falling")  # nothing to compare with


@pytest.mark.parametrize(
    ("options", "cause", "advice"),
    [
        ({"loss": "cross-entropy", "temperature": "0.1"}, "cross-entropy does not lead to", "--loss supcon"),
        ({"activation": "none"}, "features may be negative (--activation none)", "--activation relu, abs or square"),
        ({"activation": "leaky-relu"}, "features may be negative (--activation leaky-relu)", "--activation relu"),
        ({"scheme": "partition", "binding": "none"}, "Not certified: class ", "--binding fixed"),
        ({"temperature": "1"}, "temperature 1 is far above 0.48, at", "--temperature 0.1, or a schedule"),
        ({"temperature": "0.1->2", "denominator": "sincere"}, "temperature 2 is far above", "--temperature 0.1, or"),
        ({"head": "none", "model": "resnet18", "width": 4}, "averages of ReLU maps", "--head linear"),
        # THEORY.md 4: 1/(1 + W(rho/e)) with rho = 27.7/3.27, of batches of 32 with 24 of 180 samples in a large class
        ({"temperature": "0.1"}, "temperature 0.1 is far below 0.48, at", "--temperature '0.1->0.5'"),
        ({"temperature": "0.5->0.1", "denominator": "sincere"}, "temperature 0.1 is far below", "0.1->0.5"),
        ({"temperature": "0.05", "denominator": "class-average"}, "temperature 0.05 is far below", "0.1->0.5"),
    ],
    ids=str,
)
def test_causes(options, cause, advice):
    said = verdict(tilt=0.3, **options)
    assert said["causes"][0].startswith(cause) or cause in said["causes"][0]
    assert advice in said["advice"][0]
    assert "stalled" not in said["signature"]  # there is an explanation
    assert not said["reached"]


def test_which_classes_are_not_certified():
    said = verdict(tilt=0.3, scheme="partition", binding="none")
    task = set_up(small(scheme="partition", binding="none"))
    pieces = {report.name: report.components for report in task.certificate()[0].classes}
    worst = max(pieces, key=pieces.get)
    assert f"class {worst} is in {pieces[worst]} pieces" in said["causes"][0]


def test_no_certificate_is_asked_of_cross_entropy():
    said = verdict(tilt=0.3, loss="cross-entropy", temperature="0.1", scheme="partition", binding="none")
    assert not any("certified" in cause.lower() for cause in said["causes"])
    assert not any("temperature" in cause for cause in said["causes"])


def test_other_denominators_have_no_slow_temperature():
    assert not any(
        "temperature" in cause for cause in verdict(tilt=0.3, temperature="0.1", denominator="negatives")["causes"]
    )


def test_features_of_an_mlp_are_no_averages():
    assert not any("averages" in cause for cause in verdict(tilt=0.3, head="none")["causes"])


def test_a_plan_that_was_not_looked_at_to_its_end_is_no_sure_cause():
    options = {"scheme": "reshuffle", "binding": "none", "batch_size": 2, "temperature": "0.1"}
    sure, unsure = (verdict(tilt=0.3, epochs=epochs, **options) for epochs in (20, 21))
    assert sure["causes"][0].startswith("Not certified: ")
    assert len(sure["causes"]) == 1
    assert unsure["causes"][0].startswith("in the first 20 epochs (later ones were not looked at): Not certified: ")
    assert unsure["causes"][1].startswith("temperature 0.1 is far below")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temperature": "0.1->0.5"}, "0.1->0.5"),
        ({"temperature": "0.05->0.1"}, "0.1->0.5"),
        ({"temperature": "0.1", "denominator": "sincere"}, "sincere"),
        ({"scheme": "partition", "binding": "fixed", "bound_classes": 3}, "--binding fixed"),
    ],
)
def test_what_is_in_use_is_not_advised(options, words):
    said = verdict(tilt=0.3, **options)
    assert said["advice"]
    assert not any(words in advice for advice in said["advice"])


def test_an_activation_in_use_is_not_advised():
    said = verdict(lambda task: features_of(task)[:, :8], activation="abs", head="none")
    assert "a larger --width, or a smaller --lr" in said["advice"]
    assert not any("abs" in advice or "--features" in advice for advice in said["advice"])


def test_dead_dimensions():
    def features(task):
        return features_of(task)[:, :8]

    said = verdict(features)
    assert "only 8 dimensions are alive, and 10 classes need one each" in said["causes"]
    dead = int((set_up(small()).train.labels >= 8).sum())
    assert f"{dead} images have no feature above zero" in said["causes"]
    assert any("--activation abs" in advice for advice in said["advice"])


def test_several_causes_the_gravest_first():
    said = verdict(tilt=0.3, activation="none", scheme="partition", binding="none", deltas=(0.9, 0.1))
    assert ["negative" in said["causes"][0], "Not certified" in said["causes"][1]] == [True, True]
    assert said["causes"][-1] == "the distance to the frame is still falling"
    assert said["signature"].endswith("still falling")


def test_distances_that_are_no_numbers():
    """All features are zero: nothing can be said of angles, and that is not falling."""
    task = set_up(small(temperature=FAST))
    said = verdict(lambda task: torch.zeros(len(task.train), 16, dtype=torch.float64), deltas=(0.9, float("nan")))
    assert not said["reached"]
    assert f"{len(task.train)} images have no feature above zero" in said["causes"]
    assert "falling" not in said["signature"]
