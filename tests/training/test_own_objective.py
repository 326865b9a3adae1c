"""A loss of somebody's own: given from Python, without a change in the library, from training to the report."""

import json
from dataclasses import dataclass, replace

import pytest
import torch
from tests.training.runs import interrupt, json_of, rows_of, same, small

from orthoframe import frame_loss, make_frame
from orthoframe.errors import Option, OptionError, TrainingError
from orthoframe.reporting import write_run_report
from orthoframe.runs import load_encoder, read_run
from orthoframe.training import Criterion, Objective, Ramp, resume, train, usual


@dataclass(frozen=True, kw_only=True, repr=False)
class PullAndPush(Objective):
    """Rows of a class are pulled together, and rows of different classes are pushed to a right angle."""

    name = "pull-and-push"

    push: Ramp = usual(Ramp(1.0, 1.0), least=0)  # noqa: RUF009
    """Weight of the push, from the first epoch to the last."""

    def criterion(self, problem):
        weights = {"push": self.push.first}

        def loss(rows, labels):
            cosines, same_class = rows @ rows.T, labels[:, None] == labels
            pull, push = (1 - cosines)[same_class].mean(), cosines[~same_class].square().mean()
            return pull + weights["push"] * push

        schedules = ((self.push, lambda weight: weights.update(push=weight)),)
        return Criterion(loss, problem, schedules)


@dataclass(frozen=True, kw_only=True, repr=False)
class Centred(Objective):
    """The frame term at a temperature of its own, which somebody wrote again."""

    name = "centred"

    def prototypes_of(self, num_classes, dim):
        return make_frame(num_classes, dim)

    def criterion(self, problem):
        frame = problem.prototypes.to(problem.device)
        return Criterion(lambda rows, labels: frame_loss(rows, labels, frame, temperature=0.3), problem)


OWN = PullAndPush(push=(0.5, 2.0))


def settings(**options):
    return replace(small(**options), objective=OWN)


def test_it_trains_and_is_reported(tmp_path):
    result = train(settings(epochs=40, width=64), tmp_path / "run", report=write_run_report)
    rows = rows_of(tmp_path / "run")
    assert rows[-1]["loss"] < 0.8 * rows[0]["loss"]
    assert rows[-1]["delta_of"] < rows[0]["delta_of"]
    assert not {"floor", "gap", "collapsed", "temperature"} & set(rows[0])  # which nobody knows of this loss
    config = json_of(tmp_path / "run" / "config.json")
    assert (config["loss"], config["push"]) == ("pull-and-push", [0.5, 2.0])
    assert not {"margin", "denominator"} & set(config)
    run = read_run(tmp_path / "run")
    assert run.verdict == result.diagnosis.record()
    assert run.config["loss"] == "pull-and-push"
    assert "pull-and-push" in (tmp_path / "run" / "report.html").read_text()
    trained = load_encoder(tmp_path / "run")
    assert trained.has_frame
    assert result.evaluation.test.balanced > 0.5


def test_it_is_resumed_to_the_same_bytes(tmp_path):
    part = tmp_path / "part"
    train(settings(), tmp_path / "whole")
    interrupt(settings(), part, epoch=1, steps=2)
    with pytest.raises(TrainingError, match=r"loss='pull-and-push' came from Python; give the objective again"):
        resume(part)
    config = (part / "config.json").read_text()
    (part / "config.json").write_text(json.dumps(json.loads(config) | {"push": 3.0}))
    with pytest.raises(TrainingError, match=r"push is 3\.0 \(it was \[0\.5, 2\.0\]\)"):
        resume(part, objective=OWN)
    (part / "config.json").write_text(config)
    resume(part, objective=PullAndPush())  # whose values are those of the run
    assert same(part, tmp_path / "whole")


def test_its_values_are_checked():
    with pytest.raises(OptionError) as refused:
        replace(small(), objective=PullAndPush(push=-1.0)).check()
    assert refused.value.args[0] == Option("push")
    with pytest.raises(OptionError, match="margin needs loss="):
        settings().with_options(margin=0.5)  # an option of another loss


def test_it_may_have_prototypes(tmp_path):
    """Images are classified by the directions that it asks for."""
    result = train(replace(small(epochs=20), objective=Centred()), tmp_path / "run")
    centres = load_encoder(tmp_path / "run").centres
    assert torch.equal(centres, make_frame(10, centres.shape[1]).double())
    assert result.evaluation.geometry.delta_of < 0.6


def test_an_objective_without_a_criterion_says_so(tmp_path):
    @dataclass(frozen=True, kw_only=True, repr=False)
    class Nothing(Objective):
        name = "nothing"

    with pytest.raises(NotImplementedError, match="the objective Nothing needs a method `criterion`"):
        train(replace(small(), objective=Nothing()), tmp_path / "run")


@dataclass(frozen=True, kw_only=True, repr=False)
class Weight(Objective):
    """A loss that is its weight, whatever the rows."""

    name = "weight"

    weight: Ramp = usual(Ramp(1.0, 1.0))  # noqa: RUF009

    def criterion(self, problem):
        now = {}
        schedules = ((self.weight, lambda weight: now.update(weight=weight)),)
        return Criterion(lambda rows, labels: 0 * rows.sum() + now["weight"], problem, schedules)


def test_its_schedule_is_followed(tmp_path):
    result = train(replace(small(epochs=3), objective=Weight(weight=(0.5, 2.0))), tmp_path / "run")
    assert [record.loss for record in result.records] == [0.5, 1.25, 2.0]
