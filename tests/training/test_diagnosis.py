"""The verdict at the end of a run: what shows, why, and what to try."""

import re

import pytest
import torch
from tests.training.runs import small
from tests.training.verdicts import FAST, causes, features_of, record, verdict

from orthoframe.errors import Option
from orthoframe.runs import Cause, Ending, Signature
from orthoframe.training import LikelyCause, make_task


def test_the_frame_is_reached():
    said = verdict()
    assert said.reached
    assert (said.signature, said.ending, said.causes) == (Signature.FRAME, None, ())
    assert "(distance to the frame 0.0000, beta_NC 0); balanced test accuracy 1.000." in said.sentence
    assert said.label == "frame reached"


@pytest.mark.parametrize(
    ("mixed", "signature"),
    [({"tilt": 0.3}, Signature.NOT_ORTHOGONAL), ({"tilt": 0.3, "spread": 1.0}, Signature.NEITHER)],
)
def test_signatures(mixed, signature):
    said = verdict(**mixed)
    assert not said.reached
    assert (said.signature, said.ending) == (signature, Ending.STALLED)
    assert signature.sentence in said.sentence
    assert causes(said) == [Cause.STALLED]
    assert "seed" in said.causes[0].advice


def test_orthogonal_means_of_classes_that_have_not_collapsed():
    """Each class is spread over dimensions of its own, evenly around its mean: beta_NC is zero."""

    def features(task):
        rows = torch.zeros(len(task.train), 40, dtype=torch.float64)
        for c in range(10):
            members = (task.train.labels == c).nonzero()[:, 0]
            rows[members, 4 * c + torch.arange(len(members)) % 4] = 1.0
        return rows

    said = verdict(features)
    assert (said.signature, said.ending) == (Signature.NOT_COLLAPSED, Ending.STALLED)
    assert "mean squared distance to the class mean 0.75" in said.sentence


def test_still_falling():
    said = verdict(tilt=0.3, deltas=(0.9, 0.8, 0.6))
    assert said.ending is Ending.FALLING
    assert said.ending.waiting
    assert causes(said) == [Cause.STILL_FALLING]
    assert said.causes[0].sentence.startswith("the distance to the frame ")
    assert said.causes[0].advice == "more epochs"
    assert verdict(tilt=0.3, deltas=(0.9, 0.8, 0.79)).ending is Ending.STALLED
    assert verdict(tilt=0.3, deltas=(0.9,)).ending is Ending.FALLING  # nothing to compare with


@pytest.mark.parametrize(
    ("options", "cause", "values", "advice"),
    [
        (
            {"loss": "cross-entropy"},
            Cause.FREE_LENGTHS,
            "lengths of features free",
            "loss='frame' or supcon",
        ),
        ({"activation": "none"}, Cause.NEGATIVE, "activation='none'", "activation='relu', abs or square"),
        ({"activation": "leaky-relu"}, Cause.NEGATIVE, "activation='leaky-relu'", "activation='relu'"),
        ({"scheme": "partition", "binding": "none"}, Cause.UNCERTIFIED, "class ", "binding='fixed'"),
        ({"temperature": 1.0}, Cause.TOO_HOT, "temperature 1 is far above 0.48, at", "temperature=0.1, or a schedule"),
        ({"temperature": (0.1, 2), "denominator": "sincere"}, Cause.TOO_HOT, "temperature 2 ", "temperature=0.1, or"),
        ({"head": "none", "model": "resnet18", "width": 4}, Cause.POOLED_MAPS, "", "head='linear'"),
        # docs/theory.md: 1/(1 + W(rho/e)) with rho = 27.7/3.27, in batches of 32 where a large class has 24 of 180
        ({"temperature": 0.1}, Cause.TOO_COLD, "temperature 0.1 is far below 0.48, at", "temperature=(0.1, 0.5)"),
        ({"temperature": (0.5, 0.1), "denominator": "sincere"}, Cause.TOO_COLD, "temperature 0.1 ", "(0.1, 0.5)"),
        ({"temperature": 0.05, "denominator": "class-average"}, Cause.TOO_COLD, "temperature 0.05 ", "(0.1, 0.5)"),
    ],
    ids=str,
)
def test_causes(options, cause, values, advice):
    said = verdict(tilt=0.3, **options)
    assert causes(said)[0] is cause
    assert values in said.causes[0].sentence
    assert advice in said.causes[0].advice
    assert said.ending is not Ending.STALLED  # there is an explanation
    assert not said.reached


@pytest.mark.parametrize(
    "options",
    [
        {"loss": "frame", "binding": "none", "scheme": "weighted", "temperature": 0.05},
        {"temperature": 0.05, "margin": 0.3},
        {"temperature": 0.05, "denominator": "sincere"},
    ],
    ids=str,
)
def test_what_is_advised_is_allowed(options):
    """A temperature that is too low: other denominators and margins, where the loss has them."""
    (likely,) = verdict(tilt=0.3, **options).causes
    assert likely.cause is Cause.TOO_COLD
    names = {name: eval(value) for name, value in re.findall(r"(\w+)=(\([^)]*\)|'[^']*'|[\d.]+)", likely.advice)}
    assert names.keys() >= {"temperature"}
    for name, value in names.items():
        small(**options | {name: value}).check()


def test_a_classifier_beside_the_loss():
    said = verdict(tilt=0.3, loss="frame", classifier=1.0, temperature=0.15, scheme="weighted", binding="none")
    assert causes(said) == [Cause.CLASSIFIER]
    assert said.causes[0].advice == "recipe='accurate' with goal='frame', which settles onto the frame"


def test_options_are_spelled_as_the_reader_writes_them():
    likely = LikelyCause(Cause.LARGE_LR, ("a smaller ", Option("lr")), {"lr": Option("lr", 3.0), "percent": 12.3})
    assert likely.sentence().startswith("lr=3.0 is large")
    assert likely.sentence(lambda option: f"<{option.name}>").startswith("<lr> is large")
    assert " 12 % " in likely.sentence()


def test_every_sentence_can_be_filled():
    """Each cause has a sentence of its own, and a code that files keep."""
    for kind in (Cause, Signature, Ending):
        assert len({member.sentence for member in kind}) == len(kind)
        assert all(member.value == member.value.lower() and " " not in member.value for member in kind)


def test_which_classes_are_not_certified():
    said = verdict(tilt=0.3, scheme="partition", binding="none")
    task = make_task(small(scheme="partition", binding="none"))
    pieces = {report.name: report.components for report in task.certificate().certificate.classes}
    worst = max(pieces, key=pieces.get)
    assert f"class {worst} splits into {pieces[worst]} components" in said.causes[0].sentence


def test_no_certificate_is_asked_of_cross_entropy():
    said = verdict(tilt=0.3, loss="cross-entropy", scheme="partition", binding="none")
    assert not {Cause.UNCERTIFIED, Cause.UNCERTIFIED_SO_FAR, Cause.TOO_COLD, Cause.TOO_HOT} & set(causes(said))


def test_other_denominators_have_no_slow_temperature():
    assert Cause.TOO_COLD not in causes(verdict(tilt=0.3, temperature=0.1, denominator="negatives"))


def test_features_of_an_mlp_are_no_averages():
    assert Cause.POOLED_MAPS not in causes(verdict(tilt=0.3, head="none"))


def test_a_plan_that_was_not_looked_at_to_its_end_is_no_sure_cause():
    options = {"scheme": "reshuffle", "binding": "none", "batch_size": 2, "temperature": 0.1}
    sure, unsure = (verdict(tilt=0.3, epochs=epochs, **options) for epochs in (20, 21))
    assert causes(sure) == [Cause.UNCERTIFIED]
    assert causes(unsure) == [Cause.UNCERTIFIED_SO_FAR, Cause.TOO_COLD]
    assert "the first 20 epochs" in unsure.causes[0].sentence


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temperature": (0.1, 0.5)}, "(0.1, 0.5)"),
        ({"temperature": (0.05, 0.1)}, "(0.1, 0.5)"),
        ({"temperature": 0.1, "denominator": "sincere"}, "sincere"),
        ({"scheme": "partition", "binding": "fixed", "bound_classes": 3}, "binding='fixed'"),
    ],
)
def test_what_is_in_use_is_not_advised(options, words):
    said = verdict(tilt=0.3, **options)
    assert said.causes
    assert not any(words in cause.advice for cause in said.causes)


def test_an_activation_in_use_is_not_advised():
    said = verdict(lambda task: features_of(task)[:, :8], activation="abs", head="none")
    assert "a larger width, or a smaller lr" in [cause.advice for cause in said.causes]
    assert not any("abs" in cause.advice or "features" in cause.advice for cause in said.causes)


def test_dead_dimensions():
    said = verdict(lambda task: features_of(task)[:, :8])
    sentences = [cause.sentence for cause in said.causes]
    assert "only 8 dimensions are alive, and 10 classes need one each" in sentences
    dead = int((make_task(small()).train.labels >= 8).sum())
    assert any(sentence.endswith(f": {dead}") for sentence in sentences)
    assert {Cause.DEAD_DIMENSIONS, Cause.DEAD_ROWS} <= set(causes(said))
    assert any("activation='abs'" in cause.advice for cause in said.causes)


def test_several_causes_most_severe_first():
    said = verdict(tilt=0.3, activation="none", scheme="partition", binding="none", deltas=(0.9, 0.1))
    assert causes(said) == [Cause.NEGATIVE, Cause.UNCERTIFIED, Cause.STILL_FALLING]


def test_distances_that_are_not_finite():
    """All features are zero: nothing can be said of angles, and that is not falling."""
    task = make_task(small(temperature=FAST))
    said = verdict(lambda task: torch.zeros(len(task.train), 16, dtype=torch.float64), deltas=(0.9, float("nan")))
    assert not said.reached
    assert any(cause.sentence.endswith(f": {len(task.train)}") for cause in said.causes)
    assert said.ending is not Ending.FALLING


def merged(task, *groups):
    """Features in which the classes of each group have one direction."""
    owner = list(range(10))
    for group in groups:
        for c in group:
            owner[c] = group[0]
    return torch.nn.functional.one_hot(torch.tensor(owner)[task.train.labels], 16).double()


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([(3, 7)], "; classes 3 and 7 share a direction."),
        ([(1, 2), (3, 7, 8)], "; classes 3, 7 and 8 share a direction, and so do 1 and 2."),
        ([(0, 1, 2, 3, 4, 5, 6, 7, 8)], "; classes 0, 1, 2, 3, 4, 5, 6, 7 and 1 more share a direction."),
        ([(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)], ", and so do 4 and 5, and so do 2 more groups."),
        ([tuple(range(10))], "; all 10 classes share a direction."),
    ],
)
def test_merged_classes_are_named(groups, words):
    said = verdict(lambda task: merged(task, *groups))
    assert said.sentence.endswith(words)
    assert said.merged == tuple(sorted(groups, key=lambda group: -len(group)))
    assert verdict(tilt=0.3).merged == ()


@pytest.mark.parametrize(
    ("losses", "ending", "cause"),
    [
        ((9.0, 9.0), Ending.MIXED, Cause.MIXED),
        ((30.0, 5.0), Ending.HARDLY_BEGUN, Cause.MIXED),
        ((3.0, 3.0), Ending.ALIKE, Cause.ALIKE),
        ((3.1, 3.1), Ending.ALIKE, Cause.ALIKE),
    ],
)
def test_a_loss_above_that_of_features_that_are_all_alike(losses, ending, cause):
    columns = {"floor": 1.0, "collapsed": 3.0, "delta_of": 0.9}
    records = [record(10 * (n + 1), loss=loss, gap=loss - 1.0, **columns) for n, loss in enumerate(losses)]
    said = verdict(records=records, tilt=0.3)
    assert said.ending is ending
    assert causes(said) == [cause]
    if cause is Cause.MIXED:
        assert f"the loss, {losses[-1]:.4f}, is far above that of features that are all alike, 3.0000" in (
            said.causes[0].sentence
        )
        assert "a smaller lr" in said.causes[0].advice


def test_the_test_images_are_kept_with_the_verdict():
    said = verdict()
    assert said.test.accuracy.balanced == 1
    assert (said.test.confusion.wrong, said.test.confusion.rows) == (0, (1,) * 10)
    assert said.test.calibration_error is None
