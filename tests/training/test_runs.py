"""Runs with every option: what is in their folder, and that it is true."""

import json
import math
from dataclasses import replace

import msgspec
import numpy as np
import pytest
import torch
from tests.training.runs import json_of, lines_of, recomputed, rows_of, small

from orthoframe import certify, loss_floor
from orthoframe.batches import BatchPlan
from orthoframe.runs import COLUMNS, CertificateRecord, EpochRecord, Measurement, RunEnvironment, VerdictRecord
from orthoframe.training import AUTO, OBJECTIVES, Settings, train

TWO = {"epochs": 2, "majority": 12}
OPTIONS = [
    {},
    {"model": "resnet18", "width": 4, **TWO},
    {"model": "resnet34", "width": 4, **TWO},
    {"model": "densenet40", "width": 4, **TWO},
    {"model": "vit", "width": 16, **TWO},
    {"model": "resnet18", "width": 4, "head": "none", **TWO},
    *({"activation": name} for name in ("abs", "square", "softplus", "gelu", "leaky-relu", "none")),
    {"activation": "none", "head": "none"},
    {"loss": "cross-entropy"},
    *({"denominator": name} for name in ("sincere", "negatives", "class-average")),
    {"scheme": "full", "batch_size": 128},
    *({"scheme": name} for name in ("partition", "balanced", "rare-hub")),
    *({"binding": name} for name in ("none", "present", "redrawn", "random")),
    {"imbalance": "long-tail", "ratio": 10.0},
    {"imbalance": "none", "ratio": 1.0},
    {"views": 2},
    {"views": 2, "clean_fraction": 0.0},
    {"augment": False},
    {"clean_fraction": 0.0, "lr_schedule": "step"},
    {"temperature": (0.1, 0.5)},
    {"precision": "bf16-mixed"},
    {"measure_every": 2, "epochs": 5},
    {"batch_size": 1, "binding": "none", "majority": 4},  # no row has a positive
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_folder_says_what_happened(options, tmp_path):
    check(train(small(**options), tmp_path / "run"), options)


def decoded(path, kind):
    return msgspec.json.decode(path.read_bytes(), type=kind)


def check(outcome, options):
    """The files of a run, against what was asked for and what can be computed again."""
    folder, settings = outcome.folder, outcome.settings
    config = json_of(folder / "config.json")
    objective = OBJECTIVES[options.get("loss", "supcon")]
    made = {"imbalance": "step", "model": "mlp", "validation": 0.0, "adjust": 0.0, "epochs": 3}
    made |= {"head": "linear" if objective.has_head else "none"}
    expected = made | {"width": 16} | options
    if "temperature" in options:
        expected["temperature"] = list(options["temperature"])
    assert {name: config[name] for name in expected} == expected
    assert settings.undecided() == []
    assert Settings.from_dict(config) == replace(settings, goal=AUTO)  # which a file has no need of
    schedule = settings.schedule
    rows = rows_of(folder)
    every = settings.evaluation.measure_every or 1
    epochs = range(1, schedule.epochs + 1)
    settles = math.ceil((1 - schedule.clean_fraction) * schedule.epochs)  # its images are augmented for the last time
    measured = [epoch for epoch in epochs if epoch in (1, settles, schedule.epochs) or epoch % every == 0]
    assert [row["epoch"] for row in rows] == list(epochs)
    assert [row["epoch"] for row in rows if "delta_of" in row] == measured

    geometry, task = recomputed(folder)
    for row in rows:
        assert set(row) <= set(COLUMNS)
        assert math.isfinite(row["loss"])
        epoch = int(row["epoch"]) - 1
        if objective.has_head:
            assert row["temperature"] == settings.objective.temperature.at(epoch, schedule.epochs)
            labels = [task.train.labels[torch.from_numpy(batch)] for batch in task.plan.batches(epoch)]
            floors = [
                float(
                    loss_floor(
                        y.repeat(settings.views_in(epoch)),
                        temperature=row["temperature"],
                        denominator=settings.objective.denominator,
                    )
                )
                for y in labels
            ]
            assert row["floor"] == pytest.approx(sum(floors) / len(floors), abs=1e-12)
            assert row["gap"] == pytest.approx(row["loss"] - row["floor"], abs=1e-12)
            if task.encoder.nonnegative:
                assert row["gap"] >= -1e-5  # float32
        else:
            assert not {"floor", "gap", "collapsed", "temperature"} & set(row)

    last, lines = rows[-1], lines_of(folder / "geometry.jsonl")
    # Features in float32, in other batches of the compiled code at most: the same to its rounding.
    for name in ("delta_of", "delta_etf", "beta_nc"):
        assert last[name] == pytest.approx(getattr(geometry, name), rel=1e-4, abs=1e-6)
        assert lines[-1]["train"][name] == last[name]
    assert last["dead_rows"] == geometry.dead_rows
    assert last["live_dimensions"] == geometry.dim - geometry.ownership.dead
    assert last["balanced_accuracy"] == pytest.approx(geometry.accuracy.balanced)
    assert [line["epoch"] for line in lines] == measured
    assert [entry["name"] for entry in lines[-1]["train"]["classes"]] == list(task.train.classes)
    assert [entry["rows"] for entry in lines[-1]["train"]["classes"]] == task.class_counts
    assert last["test_balanced_accuracy"] == lines[-1]["test"]["balanced"] == outcome.evaluation.test.balanced

    if not objective.has_head:
        assert not (folder / "certificate.json").exists()
    else:
        certificate = json_of(folder / "certificate.json")
        batches = [batch for epoch in range(certificate["epochs"]) for batch in task.plan.batches(epoch)]
        views, denominator = settings.views_in(schedule.epochs - 1), settings.objective.denominator
        certified = certify(task.train.labels.numpy(), batches, views=views, denominator=denominator)
        assert certificate["holds"] == certified.holds
        assert [entry["name"] for entry in certificate["classes"]] == sorted(task.train.classes)
        record, said = decoded(folder / "certificate.json", CertificateRecord), outcome.certificate
        assert (record.epochs, record.conclusive) == (said.epochs, said.conclusive)
    assert decoded(folder / "verdict.json", VerdictRecord) == outcome.diagnosis.record()
    assert decoded(folder / "run.json", RunEnvironment) == outcome.environment
    measurement = msgspec.json.decode(json.dumps(lines[-1]), type=Measurement)
    assert (measurement.epoch, measurement.test) == (schedule.epochs, outcome.evaluation.test)
    table = [EpochRecord(**{**dict.fromkeys(COLUMNS), **row}) for row in rows]
    assert table == list(outcome.records)
    assert not list(folder.glob(".orthoframe.*"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
def test_compiled(tmp_path):
    options = {"compile": True, "epochs": 2, "batch_size": 36}  # batches of one size, which are compiled once
    check(outcome := train(small(**options), tmp_path / "run"), options)
    plain = train(small(**options | {"compile": False}), tmp_path / "plain")
    assert outcome.records[-1].loss == pytest.approx(plain.records[-1].loss, rel=1e-5)


def test_same_seed_same_bytes(tmp_path):
    def content(name, **options):
        train(small(**options), tmp_path / name)
        return (tmp_path / name / "encoder.safetensors").read_bytes()

    state = torch.random.get_rng_state()
    first = content("first")
    torch.manual_seed(17)  # nothing is drawn from generators that others use
    np.random.seed(17)  # noqa: NPY002
    assert content("second") == first
    assert content("third", seed=1) != first
    torch.random.set_rng_state(state)


def test_training_leaves_the_global_generator_alone(tmp_path):
    before = torch.random.get_rng_state()
    train(small(), tmp_path / "run")
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_run_of_few_seconds_reaches_the_frame(tmp_path):
    """With images as they are and a temperature that rises, in fewer epochs; without ReLU it does not."""
    short = Settings.of(
        recipe="plain", epochs=120, majority=40, ratio=4.0, temperature=(0.1, 0.5), augment=False, clean_fraction=0.0
    )
    reached = train(short, tmp_path / "relu")
    assert reached.diagnosis.reached
    assert reached.evaluation.geometry.delta_of < 0.05
    assert reached.evaluation.test.balanced > 0.85
    away = train(short.with_options(activation="none"), tmp_path / "none")
    assert not away.diagnosis.reached
    assert away.evaluation.geometry.delta_of > 0.3


def test_the_demo(tmp_path):
    """The demonstration that the README promises: ten seconds on one core."""
    done = train(Settings.of(adjust=0.25), tmp_path / "run")
    assert done.diagnosis.reached
    assert done.evaluation.geometry.delta_of <= 0.005
    assert done.evaluation.test.balanced >= 0.93


def test_certificate_of_reshuffled_batches_is_over_several_epochs(tmp_path):
    train(small(binding="none", epochs=6, batch_size=16), tmp_path / "run")
    certificate = json_of(tmp_path / "run" / "certificate.json")
    assert certificate["epochs"] == 6
    assert certificate["num_batches"] == 6 * math.ceil(180 / 16)


def test_classes_have_their_names(tmp_path):
    """Not numbers, and in the order of the data, wherever a class is named."""
    random = np.random.default_rng(0)
    names = np.array(["wolf", "cat", "emu"])
    labels = np.repeat(names, (12, 8, 4))
    pixels = random.integers(0, 100, (24, 8, 8)).astype(np.uint8) + 50 * np.repeat([0, 1, 2], (12, 8, 4))[:, None, None]
    np.savez(
        tmp_path / "animals.npz",
        x_train=pixels.astype(np.uint8),
        y_train=labels,
        x_test=pixels.astype(np.uint8),
        y_test=labels,
    )
    settings = small(data=f"npz:{tmp_path / 'animals.npz'}", majority=None, ratio=1.0, validation=0.0)
    settings = settings.with_options(scheme="partition", binding="none", batch_size=4)
    outcome = train(settings, tmp_path / "run")
    line = lines_of(tmp_path / "run" / "geometry.jsonl")[-1]
    classes = [entry["name"] for entry in line["train"]["classes"]]
    assert sorted(classes) == sorted(names)
    for accuracy in (line["train"]["accuracy"], line["test"]):
        assert accuracy["worst_class"] in names
    for c, name in enumerate(classes):
        assert line["train"]["classes"][c]["rows"] == {"wolf": 12, "cat": 8, "emu": 4}[name]
    certificate = json_of(tmp_path / "run" / "certificate.json")
    assert not certificate["holds"]
    assert {entry["name"] for entry in certificate["classes"]} == set(names)
    assert any(name in " ".join([cause.sentence for cause in outcome.diagnosis.record().causes]) for name in names)


def test_plans_are_as_the_settings_say(tmp_path):
    settings = small(scheme="balanced", binding="redrawn", views=2, clean_fraction=0.0, seed=3)
    outcome = train(settings, tmp_path / "run")
    _, task = recomputed(outcome.folder)
    expected = BatchPlan(task.train.labels.numpy(), 32, scheme="balanced", binding="redrawn", seed=3, views=2)
    assert task.plan.fingerprint() == expected.fingerprint()
