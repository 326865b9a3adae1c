"""A setting that would have no effect is refused, or what it came to is noted: none is ignored without a word."""

import numpy as np
import pytest
from PIL import Image
from tests.training.runs import noted, small, train

from orthoframe.cli import main
from orthoframe.data import load_data
from orthoframe.errors import OptionError
from orthoframe.training import Settings


@pytest.fixture(scope="module")
def arrays(tmp_path_factory):
    path = tmp_path_factory.mktemp("arrays") / "x.npz"
    np.savez(path, x=np.random.default_rng(0).integers(0, 255, (40, 8, 8)).astype(np.uint8), y=np.arange(40) % 2)
    return path


@pytest.mark.parametrize(
    ("option", "value"), [("--fit", "crop"), ("--size", "16"), ("--workers", "1"), ("--memory", "1")]
)
def test_what_image_files_alone_can_have(option, value, arrays, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for data in ("digits", "mnist", f"npz:{arrays}"):
        assert main(["train", "--data", data, option, value]) == 2
        assert (
            capsys.readouterr().err == f"orthoframe: {option} is for folder:PATH and csv:FILE, not for --data {data}\n"
        )
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_data_sets_beside_data_that_has_a_place(arrays, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for data in ("digits", f"npz:{arrays}", "folder:photos", "csv:table.csv"):
        assert main(["train", "--data", data, "--data-dir", "there"]) == 2
        said = f"orthoframe: --data-dir is for data sets that are downloaded, not for --data {data}\n"
        assert capsys.readouterr().err == said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"size": (16, 16)}, "size has no effect, because the images from Python are ready"),
        ({"fit": "crop"}, "fit has no effect"),
        ({"validation": 0.2}, "validation has no effect"),
        ({"workers": 1}, "workers has no effect"),
        ({"memory": 1.0}, "memory has no effect"),
        ({"data": "mnist"}, "data='mnist' and images from Python; leave one of them out"),
    ],
)
def test_images_from_python_are_ready(options, said, tmp_path):
    with pytest.raises(OptionError, match=said):
        train(Settings.of(recipe="plain", epochs=1, **options), tmp_path / "run", data=load_data("digits"))
    assert not (tmp_path / "run").exists()


def test_a_ratio_needs_an_imbalance(arrays, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "--data", f"npz:{arrays}", "--ratio", "5"]) == 2
    assert capsys.readouterr().err.startswith("orthoframe: --ratio needs --imbalance step, because your own images")
    assert list(tmp_path.iterdir()) == []


def test_a_validation_split_beside_one_that_the_data_has(tmp_path):
    for part in ("train", "validation", "test"):
        for kind in ("a", "b"):
            (tmp_path / "images" / part / kind).mkdir(parents=True)
            for number in range(4):
                Image.new("RGB", (16, 16), (number, 0, 0)).save(tmp_path / "images" / part / kind / f"{number}.png")
    settings = Settings.of(recipe="plain", data=f"folder:{tmp_path / 'images'}", width=2, epochs=1, validation=0.5)
    with pytest.raises(OptionError, match="validation has no effect: the data has validation images; leave it out"):
        train(settings, tmp_path / "run")


def test_fewer_test_images_than_were_asked_for_are_noted(tmp_path):
    notes = []
    train(small(epochs=1, test_images=10**4), tmp_path / "run", noted(notes))
    assert "test_images=10000 is more than there are of 0: 44" in notes


def test_a_recipe_with_a_time_of_its_own(tmp_path, monkeypatch, capsys):
    """The number of epochs is the recipe's, which the user did not give."""
    monkeypatch.chdir(tmp_path)
    assert main(["train", "--recipe", "fast", "--minutes", "5", "--data", "folder:nowhere"]) == 2
    assert capsys.readouterr().err == f"orthoframe: {tmp_path / 'nowhere'}: no such folder\n"
