"""`orthoframe measure` as a user runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.numpy import save_file

from orthoframe import measure
from orthoframe.cli import main

NAMES = np.array(["cat"] * 40 + ["dog"] * 20 + ["emu"] * 5)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    classes = np.unique(NAMES, return_inverse=True)[1]
    features = (np.eye(3, 8)[classes] + 0.1 * np.abs(random.normal(size=(65, 8)))).astype(np.float32)
    np.save("features.npy", features)
    np.savez("features.npz", features=features, other=np.zeros(3))
    np.savez_compressed("small.npz", features)
    save_file({"features": features, "labels": classes.astype(np.int64)}, "features.safetensors")
    np.savetxt("features.csv", features, delimiter=",", fmt="%.9g")
    np.savetxt("headed.csv", features, delimiter=",", fmt="%.9g", header=",".join("abcdefgh"), comments="")
    Path("labels.txt").write_text("\n".join(NAMES))
    Path("labels.csv").write_text("id,class\n" + "".join(f"{i},{name}\n" for i, name in enumerate(NAMES)))
    np.save("labels.npy", classes)
    np.savez("labels.npz", labels=classes)
    return features


@pytest.mark.parametrize(
    "file", ["features.npy", "features.npz", "small.npz", "features.safetensors", "features.csv", "headed.csv"]
)
def test_every_kind_of_features(here, file, capsys):
    assert main(["measure", file, "labels.txt", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    expected = json.loads(json.dumps(measure(here, NAMES).to_dict()))
    # A csv file is read in float64, so that its rows are normalised without the rounding of float32 (6e-8).
    assert output["delta_of"] == pytest.approx(expected["delta_of"], rel=1e-6)
    assert output["beta_nc"] == pytest.approx(expected["beta_nc"], rel=1e-5)
    for name in ("margin", "minority_margin"):
        assert output["accuracy"].pop(name) == pytest.approx(expected["accuracy"].pop(name), rel=1e-6)
    assert output["accuracy"] == expected["accuracy"]
    assert [entry["name"] for entry in output["classes"]] == ["cat", "dog", "emu"]


@pytest.mark.parametrize(
    "labels", [["labels.npy"], ["labels.npz"], ["features.safetensors"], ["labels.csv", "--column", "class"]]
)
def test_every_kind_of_labels(here, labels, capsys):
    assert main(["measure", "features.npy", *labels]) == 0
    out = capsys.readouterr().out
    assert "distance to orthogonal frame" in out
    assert "nearest centre, overall and balanced  1.0000, 1.0000" in out


def test_raw_and_key(here, capsys):
    assert main(["measure", "features.npz", "labels.txt", "--raw", "--key", "features", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["delta_of"] == pytest.approx(
        measure(here, NAMES, normalize=False).delta_of, rel=1e-9
    )


def test_distance_to_the_optimum_without_relu(here, capsys):
    """At the predicted arrangement it is 0, and from a frame it is that of the frame to an ETF."""
    np.save("frame.npy", np.eye(4).repeat(6, 0))
    np.save("etf.npy", (np.eye(4) - 0.25).repeat(6, 0))
    Path("four.txt").write_text("".join(f"{c}\n" * 6 for c in range(4)))
    assert main(["measure", "etf.npy", "four.txt", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)["predicted"]
    assert output["temperature"] == 0.1
    assert output["distance"] < 1e-9
    assert main(["measure", "frame.npy", "four.txt", "--temperature", "1"]) == 0
    assert "distance to no-ReLU optimum           0.5176 (tau 1)\n" in capsys.readouterr().out  # sqrt(2 - sqrt(3))
    assert main(["measure", "frame.npy", "four.txt", "--temperature", "0.00123"]) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    assert {line[36:38] for line in lines} == {"  "}  # values are in one column


def test_plot(here):
    assert main(["measure", "features.npy", "labels.txt", "--plot", "geometry.png"]) == 0
    assert Path("geometry.png").read_bytes().startswith(b"\x89PNG")


WATCHED = """
import re, sys, threading, time
import numpy as np
from orthoframe.cli import main
def anonymous():
    return int(re.search(r"RssAnon:\\s+(\\d+) kB", open("/proc/self/status").read()).group(1)) / 1024
main(["measure", "small.npy", "small_labels.npy"])
before, largest, done = anonymous(), [0.0], []
def watch():
    while not done:
        largest[0] = max(largest[0], anonymous())
        time.sleep(0.005)
thread = threading.Thread(target=watch)
thread.start()
status = main(["measure", "large.npy", "large_labels.npy"])
done.append(True)
thread.join()
print(status, largest[0] - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_features_are_mapped_and_not_loaded(here):
    """200 MiB of features, and no more than a part of them in memory that is not the file's."""
    rows = 200 * 2**20 // (64 * 4)
    large = np.lib.format.open_memmap("large.npy", mode="w+", dtype=np.float32, shape=(rows, 64))
    large[:] = np.random.default_rng(0).random((1024, 64), dtype=np.float32)[np.arange(rows) % 1024]
    large.flush()
    del large
    np.save("large_labels.npy", (np.arange(rows) % 10).astype(np.int8))
    np.save("small.npy", np.eye(4, dtype=np.float32))
    np.save("small_labels.npy", np.arange(4))
    done = subprocess.run(
        [sys.executable, "-c", WATCHED], capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    status, mebibytes = done.stdout.split("\n")[-2].split()
    assert status == "0"
    assert float(mebibytes) < 125


@pytest.mark.parametrize("k", [1, 3, 50])
def test_the_picture_of_any_number_of_classes(k, tmp_path):
    from orthoframe.reporting import geometry_figure

    labels = torch.arange(4 * k) % k
    geometry = measure(torch.rand(4 * k, 60, generator=torch.Generator().manual_seed(0)), labels)
    figure = geometry_figure(geometry)
    figure.savefig(tmp_path / "picture.png")
    cosines = figure.axes[0].images[0].get_array()
    assert np.allclose(cosines, geometry.cosines, equal_nan=True)
    owners = figure.axes[1].images[0].get_array()
    assert owners.shape[1] == 60


def test_names_that_look_like_mathematics_or_are_long(here):
    Path("odd.txt").write_text("\n".join(["$\\frac$"] * 40 + ["x" * 120] * 25))
    assert main(["measure", "features.npy", "odd.txt", "--plot", "odd.png"]) == 0
    Path("all.jsonl").write_text(json.dumps(list(range(65))))
    assert main(["certify", "odd.txt", "all.jsonl", "--plot", "odd2.png"]) == 0
    for name in ("odd.png", "odd2.png"):
        with Image.open(name) as image:  # a name as long as that would make it wider
            assert max(image.size) < 4000, image.size


def test_quoted_numbers(here, capsys):
    lines = Path("headed.csv").read_text().splitlines()
    quoted = [",".join(f'"{field}"' for field in line.split(",")) for line in lines]
    Path("quoted.csv").write_text("\n\n".join(quoted))
    for file in ("headed.csv", "quoted.csv"):
        assert main(["measure", file, "labels.txt", "--json"]) == 0
    output = capsys.readouterr().out
    assert output[: len(output) // 2] == output[len(output) // 2 :]


def test_a_byte_order_mark_is_no_header(here):
    text = Path("features.csv").read_text()
    Path("marked.csv").write_text(text, encoding="utf-8-sig")
    assert main(["measure", "marked.csv", "labels.txt"]) == 0


def test_the_table_of_ownership(here, capsys):
    assert main(["measure", "features.npy", "labels.txt", "--ownership"]) == 0
    table = measure(here, NAMES).ownership.table(("cat", "dog", "emu"))
    assert capsys.readouterr().out.endswith(f"\n\n{table}\n")
    assert main(["measure", "features.npy", "labels.txt", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)["classes"]
    assert sum(entry["dimensions"] for entry in output) == 8
    assert all(0 < entry["inside"] <= 1 for entry in output)


@pytest.mark.parametrize("kind", ["npz", "safetensors"])
def test_a_classifier_for_nc3_and_nc4(here, kind, capsys):
    random = np.random.default_rng(1)
    layer = {"weight": random.normal(size=(3, 8)), "bias": random.normal(size=3).astype(np.float32)}
    np.savez_compressed("layer.npz", **layer)
    save_file(layer, "layer.safetensors")
    assert main(["measure", "features.npy", "labels.txt", "--classifier", f"layer.{kind}", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    expected = measure(here, NAMES, classifier=layer["weight"], bias=layer["bias"])
    assert output["nc3"] == pytest.approx(expected.nc3, rel=1e-12)
    assert (output["nc4"], output["cdnv"]) == (expected.nc4, pytest.approx(expected.cdnv, rel=1e-9))
    assert main(["measure", "features.npy", "labels.txt", "--classifier", f"layer.{kind}"]) == 0
    assert f"{expected.nc3:.4g}, {expected.nc4:.4g}" in capsys.readouterr().out
