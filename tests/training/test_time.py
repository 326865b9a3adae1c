"""Runs that are fitted to a time: what it decides, that it is kept, and that its decisions can be repeated."""

import json
import time
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from tests.training.runs import json_of, noted, same

from orthoframe.errors import OptionError
from orthoframe.training import Interrupted, RunListener, Settings, _fitting, _pace, make_task, resume, train
from orthoframe.training._fitting import fitted_to_time, largest_side
from orthoframe.training._pace import Pace

PARTS = 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Dark and light pictures of 24 pixels."""
    path, random = tmp_path_factory.mktemp("pictures") / "shades", np.random.default_rng(0)
    for low, name, count in ((0, "dark", 40), (120, "light", 15)):
        (path / name).mkdir(parents=True)
        for number in range(count):
            pixels = random.integers(low, low + 120, (24, 24, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(path / name / f"{number:03}.png")
    return path


def asked(folder, **options):
    return Settings.of(data=f"folder:{folder}", **{"model": "mlp", "width": 8, "seed": 3, **options})


def test_the_time_is_kept_and_its_decisions_are_repeated(folder, tmp_path):
    begun = time.monotonic()
    outcome = train(asked(folder, minutes=0.06), tmp_path / "run")
    assert 0.6 * 3.6 < time.monotonic() - begun < 3.6 + 6  # the machine of a test may be busy at the end
    schedule = outcome.settings.schedule
    assert (len(schedule.steps), schedule.epochs, len(outcome.records)) == (PARTS, PARTS, PARTS)
    config = json_of(tmp_path / "run" / "config.json")
    assert (tuple(config["steps"]), config["minutes"]) == (schedule.steps, 0.06)
    train(Settings.from_dict(config), tmp_path / "again")
    assert same(tmp_path / "run", tmp_path / "again")


def test_a_run_that_was_killed_goes_on_with_what_was_decided(folder, tmp_path):
    def stop(loop):
        if (loop.state.epoch, loop.state.steps) == (7, 1):
            raise KeyboardInterrupt

    with pytest.raises((KeyboardInterrupt, Interrupted)):
        train(asked(folder, minutes=0.06), tmp_path / "run", RunListener(on_step=stop), save_seconds=0.0)
    before = json_of(tmp_path / "run" / "config.json")["steps"]
    assert len(before) == 8
    outcome = resume(tmp_path / "run")
    config = json_of(tmp_path / "run" / "config.json")
    assert config["steps"][:8] == before
    assert len(config["steps"]) == PARTS == len(outcome.records)
    train(Settings.from_dict(config), tmp_path / "again")
    assert same(tmp_path / "run", tmp_path / "again")
    assert resume(tmp_path / "run").records == outcome.records


def test_decided_steps_that_were_changed_are_refused(folder, tmp_path):
    train(asked(folder, steps=40), tmp_path / "run")
    config = json_of(tmp_path / "run" / "config.json")
    config["steps"][3] += 1
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    with pytest.raises(OptionError.__mro__[1], match="steps"):
        resume(tmp_path / "run")


def test_steps_are_cut_into_epochs(folder):
    task = make_task(asked(folder, steps=45, batch_size=10))
    assert sum(task.settings.schedule.steps) == 45
    assert [len(task.batches(epoch)) for epoch in range(PARTS)] == list(task.settings.schedule.steps)
    passes = [batch.tolist() for number in range(15) for batch in task.plan.batches(number)]
    assert [batch.tolist() for epoch in range(PARTS) for batch in task.batches(epoch)] == passes[:45]
    assert len(make_task(asked(folder, steps=7)).settings.schedule.steps) == 7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 100, "minutes": 1.0}, "decides the number of steps"),
        ({"steps": 100, "epochs": 3}, "are those of 20 epochs, and not of epochs=3"),
        ({"steps": 0}, "steps must be"),
        ({"steps": ()}, "steps must be"),
    ],
)
def test_steps_that_cannot_be(options, message):
    with pytest.raises(OptionError, match=message):
        Settings.of(data="folder:x", **options).check()


class Clock:
    """A clock that steps and measurements move, on a machine of changing speed."""

    def __init__(self):
        self.now, self.slowness = 100.0, 1.0

    def monotonic(self):
        return self.now

    def process_time(self):
        return self.now

    def pass_by(self, seconds):
        self.now += seconds * self.slowness


@pytest.mark.parametrize("slow", [{}, {5: 3.0}, {3: 0.5, 15: 1.5}, {18: 2.0}, {2: 5.0, 10: 1.0}])
def test_nine_tenths_of_the_time_are_used_and_never_much_more(slow, folder, monkeypatch):
    """With steps, measurements and a report that take as long as they did when they were timed, on a busy machine."""
    clock, step, image = Clock(), 0.01, 0.0005
    task = make_task(asked(folder, minutes=2.0))
    monkeypatch.setattr(_pace, "time", clock)
    monkeypatch.setattr(_pace, "Loop", lambda *_: None)
    monkeypatch.setattr(_pace, "_seconds_per_step", lambda *_: step)
    monkeypatch.setattr(_pace, "_seconds_per_image", lambda *_: image)
    fabric = SimpleNamespace(broadcast=lambda value: value)
    begun = clock.now
    clock.pass_by(5)  # start-up
    pace = Pace(task, fabric, begun, has_report=False)
    images = len(task.train) + len(task.validation)
    for epoch in range(PARTS):
        clock.slowness = slow.get(epoch, clock.slowness)
        task = pace.decided(task)
        for _ in task.batches(epoch):
            clock.pass_by(step)
            pace.on_step()
        if task.settings.is_measured(epoch + 1):
            clock.pass_by(image * images)
    clock.pass_by(image * len(task.test))
    assert 0.9 * 120 <= clock.now - begun <= 1.05 * 120


def test_steps_that_a_resumed_run_does_before_it_decides_are_timed(folder, monkeypatch):
    """It goes on inside an epoch, whose steps were decided before."""
    clock, step = Clock(), 0.01
    task = make_task(asked(folder, minutes=1.0))
    monkeypatch.setattr(_pace, "time", clock)
    monkeypatch.setattr(_pace, "Loop", lambda *_: None)
    monkeypatch.setattr(_pace, "_seconds_per_step", lambda *_: step)
    monkeypatch.setattr(_pace, "_seconds_per_image", lambda *_: 1e-5)
    pace = Pace(task, SimpleNamespace(broadcast=lambda value: value), clock.now, has_report=False)
    for _ in range(20):
        clock.pass_by(step)
        pace.on_step()
    assert pace.decided(task).settings.schedule.steps[0] == pytest.approx(60 / PARTS / step, rel=0.1)


def test_measurements_take_a_small_part_of_the_time(folder, monkeypatch):
    task = make_task(asked(folder, minutes=1.0))
    monkeypatch.setattr(_pace, "Loop", lambda *_: None)
    monkeypatch.setattr(_pace, "_seconds_per_step", lambda *_: 0.01)
    fabric = SimpleNamespace(broadcast=lambda value: value)
    for image, every in ((1e-5, 1), (0.01, 4), (1.0, 20)):  # seconds
        monkeypatch.setattr(_pace, "_seconds_per_image", lambda *_, image=image: image)
        decided = Pace(task, fabric, time.monotonic(), has_report=False).decided(task)
        assert decided.settings.evaluation.measure_every == every


def test_a_time_that_is_too_short_is_noted(folder, tmp_path):
    notes = []
    outcome = train(asked(folder, minutes=0.01), tmp_path / "run", noted(notes), spent=30.0)
    assert outcome.settings.schedule.steps == (1,) * PARTS
    assert notes[0].startswith("minutes=0.01 is too short: start-up, measurements and report alone take about 0.5 ")
    assert notes[0].endswith(" minutes; training 20 steps anyway")


@pytest.mark.parametrize(
    ("minutes", "width", "batch_size"), [(100.0, 32, 32), (2.0, 32, 32), (1.0, 16, 32), (0.04, 8, 16), (0.001, 8, 8)]
)
def test_the_network_that_there_is_time_for(minutes, width, batch_size, monkeypatch):
    """A step with a network of width 16 takes a hundredth of a second."""
    monkeypatch.setattr(_fitting, "_step", lambda shape, width, batch: width**2 * batch / 32 * 0.01 / 256)
    decided = fitted_to_time(Settings.of(data="folder:x", minutes=minutes), (3, 32, 32))
    assert (decided.encoder.width, decided.batches.batch_size) == (width, batch_size)
    assert decided.images.size == (32, 32)
    settings = fitted_to_time(Settings.of(data="folder:x", minutes=minutes, batch_size=64), (3, 32, 32))
    assert settings.batches.batch_size == 64


@pytest.mark.parametrize(
    "options", [{"epochs": 3}, {"steps": 100}, {"width": 8}, {"model": "vit"}, {"backbone": "hf:x"}]
)
def test_what_is_given_is_not_decided_by_time(options):
    settings = Settings.of(data="folder:x", **options)
    assert fitted_to_time(settings, (3, 32, 32)) == settings
    assert largest_side(settings) is None


@pytest.mark.parametrize(("minutes", "side"), [(100.0, 224), (5.0, 128), (0.1, 32)])
def test_the_size_that_there_is_time_for(minutes, side, monkeypatch):
    monkeypatch.setattr(_fitting, "_step", lambda shape, width, batch: shape[1] * shape[2] * 1e-5)
    assert largest_side(Settings.of(data="folder:x", minutes=minutes)) == side


def test_own_images_are_given_five_minutes():
    assert Settings.of(data="folder:x").usual_options()["minutes"] == 5
    assert Settings.of(data="folder:x", epochs=3).usual_options()["minutes"] is None
    assert Settings.of(data="digits").usual_options()["minutes"] is None
