"""Every loss that can be asked for: what is minimised, what is known of it, and how its network classifies."""

import io
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from tests.training.runs import interrupt, noted, rows_of, same, small
from torch import nn

from orthoframe import frame_floor, frame_loss, make_frame, supcon_loss
from orthoframe.geometry import LinearClassifier, NearestCentre, accuracy_of
from orthoframe.reporting import write_report
from orthoframe.runs import Cause, load_encoder, read_run
from orthoframe.training import (
    OBJECTIVES,
    Loop,
    Ramp,
    Settings,
    encode,
    export_onnx,
    make_task,
    resume,
    train,
)
from orthoframe.training._criteria import mean_cosine
from orthoframe.training._evaluation import fit_probe

LOSSES = list(OBJECTIVES)


def loop_of(settings):
    fabric = Fabric(accelerator="cpu", devices=1)
    fabric.launch()
    return Loop(make_task(settings), fabric)


def batch_of(loop, epoch=0):
    """Images and labels of the first batch."""
    batch = loop.task.plan.batches(epoch)[0]
    images, labels = loop.draw(batch, next(loop.images.batches([batch], torch.device("cpu"))), epoch, 0)
    return batch, images, labels


@pytest.mark.parametrize("loss", LOSSES)
def test_the_loss_of_a_step_is_the_formula(loss):
    options = {} if "entropy" in loss or "softmax" in loss else {"margin": (0.1, 0.3), "temperature": (0.1, 0.2)}
    options |= {"supcon": (0.2, 0.6)} if loss == "frame" else {}
    loop = loop_of(small(loss=loss, scheme="weighted", binding="none", epochs=3, **options))
    loop.criterion.set_epoch(1)  # in the middle of every schedule
    batch, images, labels = batch_of(loop, 1)
    task = loop.task
    value = loop.criterion.loss(loop.network(images), labels, len(batch))
    if task.settings.objective.has_head:
        features, tau, margin = task.encoder(images), math.sqrt(0.1 * 0.2), 0.2
        contrastive = supcon_loss(features, labels, temperature=tau, margin=margin)
        expected = contrastive
        if loss == "frame":
            frame, shares = make_frame(10, task.encoder.out_features), task.shares()
            options = {"temperature": tau, "margin": margin, "shares": shares}
            expected = frame_loss(features, labels, frame, **options) + 0.4 * contrastive
    else:
        scores = task.classifier(task.encoder.backbone(images))
        if loss == "balanced-softmax":
            scores = scores + torch.from_numpy(task.shares()).float().log()
        expected = F.cross_entropy(scores, labels)
    torch.testing.assert_close(value, expected)


@pytest.mark.parametrize("loss", ["supcon", "frame"])
def test_a_classifier_learns_beside_the_loss(loss):
    settings = small(loss=loss, scheme="weighted", epochs=3, classifier=(1.0, 0.5))
    loop = loop_of(settings)
    loop.criterion.set_epoch(1)
    batch, images, labels = batch_of(loop, 1)
    outputs, task = loop.network(images), loop.task
    loss = loop.criterion.loss(outputs, labels, len(batch))
    scores = task.classifier(task.encoder.backbone(images)) + torch.from_numpy(task.shares()).float().log()
    expected = loss + 0.75 * F.cross_entropy(scores, labels)
    torch.testing.assert_close(loop.criterion.minimised(loss, outputs, labels, len(batch)), expected)
    before = task.classifier.weight.detach().clone()
    loop.run_epoch()
    assert not torch.equal(task.classifier.weight, before)


@pytest.mark.parametrize("last", [1.0, 0.0])
def test_a_classifier_beside_the_loss_predicts_unless_its_weight_ends_at_zero(last, tmp_path):
    settings = small(loss="frame", binding="none", classifier=(1.0, last), validation=0.3)
    outcome = train(settings, tmp_path / "run")
    rule, trained = outcome.evaluation.rule, load_encoder(tmp_path / "run")
    assert isinstance(rule, LinearClassifier if last else NearestCentre)
    assert (trained.classifier is not None) == bool(last)
    assert outcome.settings.evaluation.adjust == "fit"
    assert outcome.evaluation.raw_delta_of is None
    task = make_task(outcome.settings)
    pixels = torch.from_numpy(np.asarray(task.test.pixels[:20]))
    features = trained.features(pixels)
    assert features.shape[1] == (task.encoder.backbone if last else task.encoder).out_features
    torch.testing.assert_close(trained.rule.scores(features), rule.scores(features))


def test_the_loss_that_is_reported_is_that_without_the_classifier():
    """So that the floor and the gap are about it."""
    loops = [loop_of(small(loss="frame", binding="none", classifier=weight)) for weight in (0.0, 1.0)]
    for loop in loops:
        loop.criterion.set_epoch(0)
    batch = loops[0].task.plan.batches(0)[0]
    values = [loop.step(batch, next(loop.images.batches([batch], torch.device("cpu"))), 0, 0) for loop in loops]
    assert torch.equal(*values)  # of the first step, before the networks differ


def test_shares_are_those_of_the_rows_that_are_drawn():
    task = make_task(small(loss="frame", scheme="weighted", power=0.25, binding="redrawn"))
    rows = np.concatenate([np.concatenate(task.plan.batches(epoch)) for epoch in range(200)])
    seen = np.bincount(task.train.labels.numpy()[rows], minlength=10) / len(rows)
    assert np.abs(task.shares() - seen).max() < 0.002
    assert task.shares().sum() == pytest.approx(1)


def test_no_weighted_batch_is_too_short():
    """A BatchNorm needs two rows: 180 images in batches of 179 would leave one."""
    plan = make_task(small(loss="frame", scheme="weighted", binding="none", head_norm="batch", batch_size=179)).plan
    assert [len(batch) for batch in plan.batches(0)] == [90, 90]


def test_floor_and_gap_of_the_frame_term(tmp_path):
    settings = small(loss="frame", scheme="weighted", binding="none", margin=0.3, head_norm="batch", epochs=60)
    outcome = train(settings, tmp_path / "run")
    task = make_task(outcome.settings)
    for row in rows_of(tmp_path / "run")[:3]:
        batches = task.plan.batches(int(row["epoch"]) - 1)
        options = {"temperature": 0.1, "shares": task.shares(), "margin": 0.3}
        floors = [float(frame_floor(task.train.labels[torch.from_numpy(each)], 10, **options)) for each in batches]
        assert row["floor"] == pytest.approx(sum(floors) / len(floors), rel=1e-5)
    assert outcome.certificate.certificate.holds
    assert outcome.certificate.certificate.frame
    distances = [record.delta_of for record in outcome.records if record.delta_of is not None]
    assert distances[-1] < distances[0] / 3
    assert outcome.records[-1].relative_gap < outcome.records[0].relative_gap / 3


@pytest.mark.parametrize("loss", LOSSES)
def test_it_predicts_as_it_was_trained_to(loss, tmp_path):
    """What is handed out classifies as the run did, with its file, and as an ONNX graph."""
    outcome = train(small(loss=loss, epochs=12, adjust=0.1), tmp_path / "run")
    trained, task = load_encoder(tmp_path / "run"), make_task(outcome.settings)
    scores, classes = trained.classify(trained.features(task.test.pixels))
    accuracy = accuracy_of(scores, task.test.labels, task.train.classes, task.class_counts)
    unknown, run = {"margin": None, "minority_margin": None}, outcome.evaluation.test
    assert replace(accuracy, **unknown) == replace(run, **unknown)
    margins = pytest.approx((run.margin, run.minority_margin), rel=1e-12)  # sums of batches of another size
    assert (accuracy.margin, accuracy.minority_margin) == margins
    assert torch.equal(classes, scores.argmax(1))
    if loss in ("supcon", "frame"):
        assert isinstance(trained.rule, NearestCentre)
        assert trained.adjust == 0.1
        if loss == "frame":  # prototypes where there are any
            assert torch.equal(trained.centres, make_frame(10, trained.encoder.out_features).double())
        assert outcome.evaluation.raw_delta_of is None
    else:
        assert isinstance(trained.rule, LinearClassifier)
        raw = trained.encoder.backbone(trained.normaliser(task.test.pixels[:5])).double()
        assert torch.allclose(trained.rule.scores(raw), scores[:5])
        assert outcome.evaluation.raw_delta_of != outcome.evaluation.geometry.delta_of
        assert rows_of(tmp_path / "run")[-1]["raw_delta_of"] == outcome.evaluation.raw_delta_of
    said = export_onnx(trained, tmp_path / "out.onnx")
    assert "the same classes" in said


@pytest.mark.parametrize("loss", LOSSES)
def test_killed_and_resumed_to_the_same_bytes(loss, tmp_path):
    options = {"head_norm": "batch", "margin": (0.0, 0.5)} if loss in ("supcon", "frame") else {}
    settings = small(loss=loss, scheme="weighted", epochs=4, **options)
    train(settings, tmp_path / "whole")
    interrupt(settings, tmp_path / "part", 1, 2)
    resume(tmp_path / "part")
    assert same(tmp_path / "part", tmp_path / "whole")


def test_adjustment_of_a_linear_classifier_is_that_of_its_scores(tmp_path):
    plain = train(small(loss="cross-entropy", epochs=5), tmp_path / "plain")
    adjusted = train(small(loss="cross-entropy", epochs=5, adjust=1.0), tmp_path / "adjusted")
    shares = torch.from_numpy(make_task(plain.settings).shares())
    change = adjusted.evaluation.rule.bias - plain.evaluation.rule.bias
    assert torch.allclose(change, -(shares / shares.max()).log())


def test_adjustment_is_fitted_where_there_are_validation_images(tmp_path):
    options = {"majority": 90, "ratio": 10.0, "validation": 0.3, "epochs": 60, "width": 64, "batch_size": 64}
    outcome = train(small(margin=0.5, **options), tmp_path / "run")
    assert outcome.settings.evaluation.adjust == "fit"
    assert outcome.evaluation.rule.adjust > 0  # small classes scatter more


def test_a_probe_of_the_backbone(tmp_path):
    outcome = train(small(epochs=10, probe=True), tmp_path / "run")
    trained, task = load_encoder(tmp_path / "run"), make_task(outcome.settings)
    assert isinstance(outcome.evaluation.rule, LinearClassifier)
    scores, _ = trained.classify(trained.features(task.test.pixels))
    assert accuracy_of(scores, task.test.labels, task.train.classes, task.class_counts) == outcome.evaluation.test


def test_the_probe_is_balanced_logistic_regression():
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    generator = torch.Generator().manual_seed(0)
    for classes in (2, 4):
        labels = torch.arange(200) % classes
        labels[:100] = 0
        rows = torch.randn(200, 5, generator=generator) + F.one_hot(labels, 5) * 2
        probe = fit_probe(classes + 1, (rows, labels))  # and one without rows
        model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, class_weight="balanced", max_iter=1000))
        model.fit(rows.numpy(), labels.numpy())
        expected = model.predict_proba(rows.numpy())
        # torch divides by n - 1.
        assert np.abs(probe.scores(rows).softmax(1)[:, :classes].numpy() - expected).max() < 2e-3


def test_mean_cosine():
    rows = F.normalize(torch.randn(7, 3, generator=torch.Generator().manual_seed(0)))
    pairs = [float(rows[i] @ rows[j]) for i in range(7) for j in range(7) if i != j]
    assert mean_cosine(rows) == pytest.approx(sum(pairs) / len(pairs))


def test_a_batch_of_one_class_is_no_cold_start():
    """Its rows should be alike, and its floor is the loss of identical features."""
    criterion = make_task(small(batch_size=16)).criterion(torch.device("cpu"), 1)
    criterion.set_epoch(0)
    rows = F.normalize(torch.ones(16, 4) + 0.1 * torch.rand(16, 4, generator=torch.Generator().manual_seed(0)))
    loss = math.log(15)
    assert criterion.is_cold(loss, rows, torch.arange(16) % 2) is not None
    assert criterion.is_cold(loss, rows, torch.zeros(16, dtype=torch.long)) is None


def test_a_cold_start_is_noticed_after_a_hundred_steps(tmp_path):
    """A real one: a narrow network in small batches stays where all features are alike; the frame term does not."""
    notes = []
    outcome = train(small(epochs=12, batch_size=16), tmp_path / "cold", noted(notes))
    (note,) = [note for note in notes if note.startswith("cold start: after 100 steps features are still collapsed")]
    assert note.endswith("; loss='frame' starts without this plateau")
    assert "(mean cosine of two rows " in note
    assert Cause.COLD_START in [likely.cause for likely in outcome.diagnosis.causes]
    advice = next(likely.advice for likely in outcome.diagnosis.causes if likely.cause is Cause.COLD_START)
    assert "".join(map(str, advice)) == "loss='frame', which starts without this plateau, or more epochs"
    notes.clear()
    outcome = train(small(epochs=12, batch_size=16, loss="frame"), tmp_path / "warm", noted(notes))
    assert not [note for note in notes if "cold start" in note]
    assert Cause.COLD_START not in [likely.cause for likely in outcome.diagnosis.causes]


def test_recipes():
    def values(**options):
        return Settings.of(**options).usual_options()

    assert values(data="npz:x")["loss"] == "frame"
    assert values(recipe="accurate", goal="frame")["margin"] == Ramp(0.0, 0.5)
    assert values(recipe="accurate", goal="accuracy")["clean_fraction"] == 0.0
    settled = values(recipe="accurate", goal="frame", probe=True)  # a classifier that has left does not predict
    assert settled["classifier"] == Ramp(1.0, 0.0)


def test_the_contrastive_loss_of_the_recipe_is_bound():
    assert Settings.of(recipe="accurate", loss="supcon").usual_options()["binding"] == "fixed"
    assert Settings.of(recipe="accurate").usual_options()["binding"] == "none"


def test_what_settling_cost_is_said(tmp_path):
    settings = Settings.of(recipe="accurate", goal="frame", **{**small_options(), "validation": 0.3, "epochs": 10})
    outcome = train(settings, tmp_path / "run")
    before, after = outcome.diagnosis.settling
    rows = rows_of(tmp_path / "run")
    assert before == rows[5]["validation_balanced_accuracy"]  # of ten epochs, four have images as they are
    assert after == rows[9]["validation_balanced_accuracy"]
    said = f"settling took balanced validation accuracy from {before:.3f} to {after:.3f}"
    assert said in outcome.diagnosis.sentence()
    assert train(Settings.of(recipe="accurate", **small_options()), tmp_path / "b").diagnosis.settling is None


@pytest.mark.parametrize(("epochs", "augment", "settles"), [(2, True, False), (5, False, True)])
def test_settling_needs_an_epoch_for_it_and_no_augmentation(tmp_path, epochs, augment, settles):
    """The classifier leaves and the margin rises whether or not images are augmented."""
    options = {**small_options(), "validation": 0.3, "epochs": epochs, "augment": augment}
    outcome = train(Settings.of(recipe="accurate", goal="frame", **options), tmp_path / "run")
    assert (outcome.diagnosis.settling is not None) is settles


def test_what_settling_costs_needs_validation_images():
    notes = make_task(Settings.of(recipe="accurate", goal="frame", **small_options())).notes()
    assert any("cannot say what settling onto the frame costs" in str(note[0]) for note in notes)
    held_out = {**small_options(), "validation": 0.3}
    assert make_task(Settings.of(recipe="accurate", goal="frame", **held_out)).notes() == []


@pytest.mark.parametrize("loss", ["cross-entropy", "balanced-softmax"])
def test_a_linear_classifier_has_no_certificate(tmp_path, loss):
    """It compares no rows with each other: that batches bind them is no guarantee of a frame."""
    train(small(loss=loss), tmp_path / "run")
    assert not (tmp_path / "run" / "certificate.json").exists()
    file = io.BytesIO()
    write_report([read_run(tmp_path / "run")], file)
    page = file.getvalue().decode()
    assert "This run has no certificate" in page
    assert "linear classifier" in page
    assert "without normalisation" in page
    assert "Certified" not in page


def small_options():
    return {"data": "digits", "majority": 40, "ratio": 2.0, "width": 16, "features": 16, "epochs": 3, "batch_size": 32}


def test_features_of_a_linear_classifier_are_as_they_come(tmp_path):
    outcome = train(small(loss="cross-entropy"), tmp_path / "run")
    task = make_task(outcome.settings)
    assert (task.settings.encoder.head, task.encoder.head.linear) == ("none", None)
    assert isinstance(task.classifier, nn.Linear)
    raw = encode(task.encoder.backbone, task.train, task.normaliser)
    assert float((raw.norm(dim=1) - 1).abs().max()) > 0.1
