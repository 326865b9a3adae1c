"""`orthoframe embed` as a user runs it."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.small_models import save_model

from orthoframe.cli import main
from orthoframe.embedding import read_embedding
from orthoframe.runs import load_encoder

NETWORK = """
from torch import nn

class Network(nn.Module):
    image_size = 8

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(192, 4)

    def forward(self, images):
        return self.linear(images.flatten(1))
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with images of two classes, a table of them, and a network."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    lines = ["path,label,split"]
    for name in ("cat", "dog"):
        Path("photos", name).mkdir(parents=True)
        for place in range(6):
            path = Path("photos", name, f"{place}.png")
            Image.fromarray(rng.integers(0, 255, (9, 9, 3), dtype=np.uint8)).save(path)
            lines.append(f"{path},{name},{'test' if place == 5 else 'train'}")
    Path("table.csv").write_text("\n".join(lines) + "\n")
    module = f"network_{abs(hash(tmp_path))}"
    Path(f"{module}.py").write_text(NETWORK)
    return f"{module}:Network"


def run(*words):
    return main(["embed", *map(str, words)])


def test_a_folder(here, capsys):
    assert run("folder:photos", "--backbone", here, "--out", "new/features") == 0
    said = capsys.readouterr()
    assert said.out == "1 of 1 shards written now\nnew/features: 12 of 12 images, 4 features each\n"
    assert said.err == ""
    assert read_embedding(Path("new/features")).classes == ("cat", "dog")
    assert main(["measure", *["new/features/features-00000.npz"] * 2]) == 0


def test_a_table_with_splits(here):
    assert run("csv:table.csv", "--backbone", here, "--out", "out", "--split-column", "split") == 0
    assert read_embedding(Path("out")).splits.tolist() == (["train"] * 5 + ["test"]) * 2


def test_a_model_of_transformers(here):
    pytest.importorskip("transformers")
    save_model("convnext", "model")
    assert run("photos/cat", "--backbone", "hf:model", "--out", "out", "--fit", "stretch", "--device", "cpu") == 0
    embedding = read_embedding(Path("out"))
    assert embedding.features.shape == (6, 12)
    assert embedding.paths.tolist() == [f"{place}.png" for place in range(6)]


def test_bad_images_are_named_at_the_end(here, capsys):
    Path("photos/cat/2.png").write_bytes(b"")
    assert run("folder:photos", "--backbone", here, "--out", "out") == 1
    said = capsys.readouterr()
    assert said.out.endswith("out: 11 of 12 images, 4 features each\n")
    assert said.err.startswith("orthoframe: left out: photos/cat/2.png: ")
    assert said.err.count("\n") == 1


def test_features_that_are_not_finite(here, capsys):
    """They are left out as images that cannot be read; if all are, nothing is kept."""
    bad = "class Infinite(Network):\n    def forward(self, images):\n        return 1 / (super().forward(images) * 0)\n"
    module = here.partition(":")[0]
    with Path(f"{module}.py").open("a") as file:
        file.write(bad)
    assert run("folder:photos", "--backbone", f"{module}:Infinite", "--out", "out") == 2
    said = "orthoframe: cat/0.png: its features are not finite; the same holds for all 12 images\n"
    assert capsys.readouterr().err == said
    assert not Path("out").exists()


def test_a_part_for_each_process_of_slurm(here, capsys, monkeypatch):
    monkeypatch.setenv("SLURM_NTASKS", "2")
    for place, words in (("0", "2 shards are missing"), ("1", "12 of 12 images")):
        monkeypatch.setenv("SLURM_PROCID", place)
        assert run("folder:photos", "--backbone", here, "--out", "out", "--shard-size", 3) == 0
        assert words in capsys.readouterr().out


def test_an_encoder_that_was_trained_here(here, capsys):
    words = ["--width", "2", "--epochs", "1", "--size", "16", "--out", "trained"]
    assert main(["train", "--data", "folder:photos", *words]) == 0
    assert run("folder:photos", "--backbone", "run:trained", "--out", "out") == 0
    trained, embedding = load_encoder(Path("trained")), read_embedding(Path("out"))
    pixels = torch.stack([trained.preparation(Path("photos", name)) for name in ("cat/0.png", "dog/5.png")])
    assert torch.allclose(trained.features(pixels), torch.from_numpy(embedding.features[[0, 11]]), atol=1e-6)
    assert embedding.features.shape[1] == trained.encoder.backbone.out_features  # where its classifier reads them
    assert run("folder:photos", "--backbone", "run:nothing", "--out", "other") == 2


def test_an_interactive_shell_of_slurm_is_one_process(here, capsys, monkeypatch):
    """It has the variables of the first of four tasks, and the others do nothing."""
    for name, value in (("NTASKS", "4"), ("PROCID", "0"), ("LOCALID", "0"), ("JOB_NAME", "bash")):
        monkeypatch.setenv(f"SLURM_{name}", value)
    assert run("folder:photos", "--backbone", here, "--out", "out", "--shard-size", 3) == 0
    assert capsys.readouterr().out.endswith("out: 12 of 12 images, 4 features each\n")
    assert len(read_embedding(Path("out")).features) == 12


def test_what_is_left_out_is_printed_without_control_characters(here, capsys):
    Path("photos/cat/\x1b[31m.png").write_bytes(b"no image")
    assert run("folder:photos", "--backbone", here, "--out", "out") == 1
    said = capsys.readouterr().err
    assert said.startswith("orthoframe: left out: photos/cat/?[31m.png: the image is broken")
