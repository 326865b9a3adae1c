"""`orthoframe export` as a user runs it."""

import csv
import importlib.util
import io
import json

import onnxruntime
from PIL import Image

from orthoframe.cli import main
from orthoframe.data import load_data


def test_the_classes_that_predict_says(finished_run, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert main(["export", str(finished_run), "--onnx", "out.onnx"]) == 0
    said = capfd.readouterr()
    assert said.out.startswith("out.onnx: compared with torch on 32 random images: the same classes")
    assert said.err == ""
    pixels = load_data("digits").test.pixels[:30]
    names = [f"{number}.png" for number in range(30)]
    for name, image in zip(names, pixels, strict=True):
        Image.fromarray(image[0].numpy()).save(name)
    session = onnxruntime.InferenceSession("out.onnx", providers=["CPUExecutionProvider"])
    classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
    (winners,) = session.run(["class"], {"images": pixels.numpy()})
    assert main(["predict", str(finished_run), *names]) == 0
    rows = list(csv.reader(io.StringIO(capfd.readouterr().out)))[1:]
    assert [classes[number] for number in winners] == [row[1] for row in rows]


def test_without_the_extra(finished_run, tmp_path, monkeypatch, capsys):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnx" else find_spec(name))
    assert main(["export", str(finished_run), "--onnx", str(tmp_path / "out.onnx")]) == 2
    assert "install them with pip install 'orthoframe[onnx]'" in capsys.readouterr().err
