"""Short runs on real images: they learn, and move towards the frame."""

import pytest
from tests.data.conftest import real_data  # noqa: F401 - a fixture
from tests.training.runs import rows_of

from orthoframe.training import Settings, train

# Chance is 0.1; such runs reached 0.92 and 0.77.
RUNS = [
    pytest.param("mnist", {"width": 128, "epochs": 15}, 0.85, id="mnist: an MLP"),
    pytest.param("fashion-mnist", {"width": 128, "epochs": 15}, 0.65, id="fashion-mnist: an MLP"),
]


@pytest.mark.parametrize(("real_data", "options", "accuracy"), RUNS, indirect=["real_data"])
def test_a_short_run(real_data, options, accuracy, tmp_path):  # noqa: F811
    name, folder = real_data
    settings = Settings.of(
        recipe="plain",
        data=name,
        data_dir=folder,
        majority=300,
        ratio=3.0,
        temperature=(0.1, 0.3),
        precision="32",
        measure_every=5,
        **options,
    )
    outcome = train(settings, tmp_path / "run")
    rows = rows_of(tmp_path / "run")
    assert outcome.evaluation.test.balanced > accuracy
    assert rows[-1]["delta_of"] < 0.8 * rows[0]["delta_of"]
    assert rows[-1]["gap"] < rows[0]["gap"]
