"""One range of temperatures: refused outside of it everywhere, and harmless inside."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from orthoframe import (
    SupConLoss,
    angle_bound,
    decay_rate,
    gradient_flow,
    loss_floor,
    predict_gram,
    solve_ufm,
    supcon_loss,
)
from orthoframe.cli import main
from orthoframe.errors import OptionError
from orthoframe.options import check_temperature
from orthoframe.sklearn import FrameClassifier
from orthoframe.training import Settings, TemperatureSchedule

ROWS, LABELS = torch.eye(4), torch.tensor([0, 0, 1, 1])
ROOMS = {
    "supcon_loss": lambda tau: supcon_loss(ROWS, LABELS, temperature=tau),
    "SupConLoss": lambda tau: SupConLoss(tau),
    "loss_floor": lambda tau: loss_floor(LABELS, temperature=tau),
    "angle_bound": lambda tau: angle_bound(0.1, 1, 2, temperature=tau),
    "decay_rate": lambda tau: decay_rate(1, 2, temperature=tau),
    "predict_gram": lambda tau: predict_gram([2, 2], temperature=tau),
    "solve_ufm": lambda tau: solve_ufm(LABELS, 4, temperature=tau),
    "gradient_flow": lambda tau: gradient_flow(LABELS, ROWS, [1.0], temperature=tau),
    "Settings": lambda tau: Settings.of(recipe="plain", temperature=tau).check(),
    "schedule": lambda tau: Settings.of(recipe="plain", temperature=(0.1, tau)).check(),
    "FrameClassifier": lambda tau: FrameClassifier(hidden=(4,), temperature=tau).fit(ROWS.numpy(), LABELS.numpy()),
}
OUTSIDE = [5e-309, 1e-39, 1e-9, 0.000999, 0.0, -1.0, 1.1e6, 1e39, 1e308, math.inf, math.nan, 10**400, -(10**400)]


@pytest.mark.parametrize("temperature", OUTSIDE, ids=lambda value: f"{value!r:.12}")
@pytest.mark.parametrize("room", ROOMS)
def test_temperatures_outside_are_refused_everywhere(room, temperature):
    with pytest.raises(OptionError, match=r"temperature must be from 0.001 to 1e\+06, not .*; 0.1 is usual") as raised:
        ROOMS[room](temperature)
    assert isinstance(raised.value, ValueError)
    assert len(str(raised.value)) < 300


def test_the_limits_themselves_are_allowed():
    for temperature in (1e-3, 1e6, 1, np.float32(0.001), np.float64(0.5)):
        assert check_temperature(temperature) == float(temperature)
        for room in ("supcon_loss", "SupConLoss", "loss_floor", "predict_gram", "solve_ufm"):
            ROOMS[room](temperature)


def test_the_commands_refuse_them_too(tmp_path, capsys):
    np.save(tmp_path / "features.npy", np.eye(4))
    (tmp_path / "labels.txt").write_text("0\n0\n1\n1\n")
    measured = ["measure", str(tmp_path / "features.npy"), str(tmp_path / "labels.txt")]
    for command in (measured, ["ufm", "--counts", "5x3"], ["train", "--out", str(tmp_path / "run")]):
        assert main([*command, "--temperature", "1e-9"]) == 2
        assert "--temperature must be from 0.001 to 1e+06, not 1e-09" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@given(st.floats(1e-3, 1e6), st.floats(1e-3, 1e6), st.integers(1, 50))
def test_a_schedule_stays_between_its_ends(first, last, epochs):
    schedule = TemperatureSchedule(first, last)
    for epoch in range(epochs):
        assert min(first, last) <= schedule.at(epoch, epochs) <= max(first, last)
