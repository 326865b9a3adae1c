"""A run on batches from Python."""

import pytest

from orthoframe import BatchPlan
from orthoframe.errors import OptionError, TrainingError
from orthoframe.runs import CertificateRecord, read_run
from orthoframe.training import Interrupted, RunListener, Settings, make_task, resume, train

OPTIONS = {"recipe": "plain", "majority": 24, "ratio": 2.0, "width": 16, "epochs": 3}


def settings(**options):
    return Settings.of(**{**OPTIONS, **options})


def labels():
    return make_task(settings()).train.labels.numpy()


@pytest.fixture
def plan():
    return BatchPlan(labels(), 45, scheme="partition", binding="none", seed=5)


def columns(folder):
    """metrics.csv without the seconds."""
    return [[*row.split(",")[:1], *row.split(",")[2:]] for row in (folder / "metrics.csv").read_text().splitlines()]


def test_its_batches_are_those_of_the_run(plan, tmp_path):
    outcome = train(settings(), tmp_path / "run", plan=plan)
    run = read_run(tmp_path / "run")
    assert (run.config["scheme"], run.config["binding"], run.config["batch_size"]) == ("partition", "none", 45)
    assert isinstance(run.certificate, CertificateRecord)
    assert outcome.certificate.certificate.holds == plan.certificate().holds is False


def test_it_resumes_to_the_same_bytes_with_the_plan_alone(plan, tmp_path):
    train(settings(), tmp_path / "whole", plan=plan)

    def stop(loop):
        if (loop.state.epoch, loop.state.steps) == (1, 2):
            raise KeyboardInterrupt

    with pytest.raises((KeyboardInterrupt, Interrupted)):
        train(settings(), tmp_path / "run", RunListener(on_step=stop), plan=plan, save_seconds=0.0)
    with pytest.raises(TrainingError, match="a plan from Python, which has to be passed again"):
        resume(tmp_path / "run")
    resume(tmp_path / "run", plan=plan)
    for name in ("encoder.safetensors", "geometry.jsonl", "verdict.json", "config.json"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert columns(tmp_path / "run") == columns(tmp_path / "whole")


def test_it_stays_when_time_decides_the_epochs(plan, tmp_path):
    asked = settings(epochs=None, minutes=0.02)
    outcome = train(asked, tmp_path / "run", plan=plan)
    assert outcome.settings.batches.batch_size == 45
    resume(tmp_path / "run", plan=plan)


def test_epochs_are_as_many_as_its_batches_need(plan):
    task = make_task(settings(epochs=None), plan=plan)
    assert task.settings.schedule.epochs == round(2000 / len(plan.batches(0)))


@pytest.mark.parametrize("name", ["scheme", "binding", "batch_size", "views"])
def test_batch_settings_beside_it_are_refused(name, plan, tmp_path):
    value = {"scheme": "balanced", "binding": "fixed", "batch_size": 10, "views": 1}[name]
    with pytest.raises(OptionError) as refused:
        train(settings(**{name: value}), tmp_path / "run", plan=plan)
    assert name in [getattr(part, "name", None) for part in refused.value.args]


def test_a_plan_of_other_images_is_refused(plan, tmp_path):
    with pytest.raises(OptionError, match="does not match these"):
        train(settings(majority=30), tmp_path / "run", plan=plan)
    with pytest.raises(OptionError, match="counts 2 views"):
        train(settings(), tmp_path / "run", plan=BatchPlan(labels(), 45, views=2))
    assert not (tmp_path / "run" / "config.json").exists()
