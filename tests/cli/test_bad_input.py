"""Files and options that cannot be: one sentence on standard error, status 2, and nothing is written.

Each kind of file is broken once, with one of the verbs that read it.
"""

import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import save_file

from orthoframe.cli import main
from orthoframe.training import Settings

NAMES = ["cat"] * 6 + ["dog"] * 4 + ["emu"] * 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Good files, and broken ones, in a folder."""
    folder = tmp_path_factory.mktemp("files")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_features()
        write_labels()
        write_batches()
        write_classifiers()
        write_encoders()
        write_backbones()
        write_pipes()
    return folder


def write_features():
    features = np.eye(3, 8, dtype=np.float32).repeat([6, 4, 2], 0)
    np.save("features.npy", features)
    np.savez("features.npz", features=features, other=np.zeros(3))
    save_file({"features": features}, "features.safetensors")
    Path("features.txt").write_text("")
    not_finite = features.copy()
    not_finite[7, 3] = np.nan
    np.save("nan.npy", not_finite)
    np.save("ints.npy", np.zeros((12, 3), dtype=int))
    np.save("flat.npy", np.zeros(12))
    np.save("wide.npy", features.astype(np.longdouble))
    np.savez("columns.npz", features=np.asfortranarray(features))
    for kind in ("npy", "npz", "safetensors"):
        Path(f"torn.{kind}").write_bytes(Path(f"features.{kind}").read_bytes()[:100])
    Path("archive.npy").write_bytes(Path("features.npz").read_bytes())
    Path("short.csv").write_text("1,2\n" + "1\n" * 11)
    Path("words.csv").write_text("1,2\n3,4\n5,two\n" + "1,2\n" * 9)
    Path("nothing.csv").write_text("")
    Path("folder.safetensors").mkdir()
    with zipfile.ZipFile("odd.npz", "w") as archive:
        archive.write("words.csv")
    np.savez("a.npz", a=np.zeros(3))
    np.savez("nan.npz", x=[[1.0], [np.nan]], y=[0, 1])
    np.savez("unequal.npz", x=np.ones((3, 2)), y=[0, 1])
    np.savez("one_class.npz", x=np.ones((3, 2)), y=[0, 0, 0])
    np.savez("outside.npz", x=np.ones((3, 2)), y=[0, 1, 2], classes=["a", "b"])
    np.savez("no_test_labels.npz", x_train=np.ones((3, 2)), y_train=[0, 1, 1], x_test=np.ones((3, 2)))
    np.savez("objects.npz", x=np.array([None, 1], dtype=object), y=[0, 1])


def write_labels():
    Path("labels.txt").write_text("\n".join(NAMES) + "\n")
    Path("labels.csv").write_text("id,class\n" + "".join(f"{place},{name}\n" for place, name in enumerate(NAMES)))
    np.save("labels.npy", np.repeat([0, 1, 2], [6, 4, 2]))
    Path("two.txt").write_text("cat\ndog")
    Path("torn.csv").write_text("id,class\n0,cat\n1\n")
    Path("hole.txt").write_text("cat\n\ndog\n")
    Path("hole.csv").write_text("id,class\n0,cat\n1,\n")
    Path("blank.csv").write_text("\nclass\n")
    Path("empty.txt").write_text("")
    Path("many.txt").write_text("\n".join(map(str, range(2**20 + 1))))
    Path("labels.json").write_text("[]")
    Path("half.npy").write_bytes(Path("labels.npy").read_bytes()[:90])
    np.save("floats.npy", np.zeros(12))
    np.save("objects.npy", np.array([{}] * 12), allow_pickle=True)
    Path("zip.npy").write_bytes(b"PK\x03\x04 and nothing else")
    Path("wide.csv").write_text("class\n" + "x" * 200000)


def write_batches():
    lines = {
        "good": "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]\n",
        "range": "[0, 1]\n[3, 12]\n",
        "negative": "[-1]\n",
        "broken": "[0, 1]\n\n[2,\n",
        "words": '["cat"]\n',
        "floats": "[0.0]\n",
        "empty": "",
        "hollow": "[]\n",
        "deep": "[" * 100000,
    }
    for name, text in lines.items():
        Path(f"{name}.jsonl").write_text(text)
    Path("binary.jsonl").write_bytes(b"\xff\xfe\x00")


def write_classifiers():
    layers = {
        "tall": {"weight": np.ones((4, 8))},
        "square": {"weight": np.ones((3, 8)), "bias": np.ones((3, 1))},
        "whole": {"weight": np.ones((3, 8), int)},
        "unnamed": {"other": np.ones((3, 8))},
        "infinite": {"weight": np.full((3, 8), np.inf)},
    }
    for name, layer in layers.items():
        np.savez(f"{name}.npz", **layer)
        save_file(layer, f"{name}.safetensors")


def write_encoders():
    Path("text.safetensors").write_text("no encoder")
    for name, about in (("unlabelled", None), ("encoder", '{"model": "mlp"}'), ("list", "[1]")):
        save_file({"a": np.zeros(1)}, f"{name}.safetensors", metadata=about and {"orthoframe": about})
    Path("no_run").mkdir()


def write_backbones():
    Path("images").mkdir()
    for path in ("image.png", "images/image.png"):
        Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(path)
    Path("images.csv").write_text("path,label\nimage.png,cat\n")


def write_pipes():
    """Nobody writes to them, so that opening one would wait for ever."""
    for name in ("pipe.npy", "pipe.npz", "pipe.safetensors", "pipe.csv", "pipe.txt", "pipe.jsonl"):
        os.mkfifo(name)
    for run in ("piped", "sorcerer"):
        Path(run).mkdir()
    os.mkfifo("piped/config.json")
    Path("sorcerer/config.json").write_text(json.dumps(Settings.of(data="csv:/dev/zero").to_dict()))


CASES = [
    # Features.
    ("measure missing.npy labels.txt", "missing.npy: No such file"),
    ("measure features.txt labels.txt", "features.txt: features must be a file .npy, .npz, .safetensors, .csv"),
    ("measure features.npy two.txt", "features.npy has 12 rows and two.txt 2 labels; they must agree"),
    ("measure nan.npy labels.txt", "nan.npy: features[7, 3] is nan; every feature must be finite"),
    ("measure ints.npy labels.txt", "ints.npy: features must be floating point of shape [rows, dim], not int64"),
    ("measure flat.npy labels.txt", "features must be floating point of shape [rows, dim], not float64 of [12]"),
    ("measure wide.npy labels.txt", "features must be floating point of shape [rows, dim], not float128"),
    ("measure torn.npy labels.txt", "torn.npy: not a .npy file"),
    ("measure torn.npz labels.txt", "torn.npz: not a .npz file"),
    ("measure torn.safetensors labels.txt", "torn.safetensors: not a .safetensors file"),
    ("measure archive.npy labels.txt", "archive.npy: not a .npy file"),
    ("measure odd.npz labels.txt", "odd.npz: there is no array 'features'; it has words.csv"),
    ("measure columns.npz labels.txt", "columns.npz: features are stored by columns"),
    ("measure folder.safetensors labels.txt", "folder.safetensors: Is a directory"),
    ("measure short.csv labels.txt", "short.csv, line 2: 1 fields, and the first line has 2"),
    ("measure words.csv labels.txt", "words.csv, line 3: 'two' is not a number"),
    ("measure nothing.csv labels.txt", "nothing.csv: the file is empty"),
    ("measure features.npz labels.txt --key x", "features.npz: there is no array 'x'; it has features, other"),
    ("measure features.npy labels.txt --key x", "--key is for .npz and .safetensors files"),
    # Features with labels, in an archive.
    ("fit missing.npz --out out", "missing.npz: No such file"),
    ("fit a.npz --out out", "a.npz: it needs the arrays x and y, or x_train"),
    ("fit nan.npz --out out", "nan.npz: row 1 has a value that is not finite"),
    ("fit unequal.npz --out out", "unequal.npz: there are 3 rows and labels of shape [2]"),
    ("fit one_class.npz --out out", "one_class.npz: y has 1 class"),
    ("fit outside.npz --out out", "outside.npz: y must be from 0 to 1, because there are 2 classes"),
    ("fit no_test_labels.npz --out out", "no_test_labels.npz: x_train, x_test and so on need equally many columns"),
    ("fit objects.npz --out out", "objects.npz: not a .npz file"),
    # Labels.
    ("measure features.npy missing.txt", "missing.txt: No such file"),
    ("certify missing.txt good.jsonl", "missing.txt: No such file"),
    ("measure features.npy labels.csv", "which column has the labels? Use --column with one of id, class"),
    ("measure features.npy labels.csv --column kind", "there is no column 'kind'; columns are id, class"),
    ("measure features.npy labels.txt --column kind", "--column is for .csv files"),
    ("measure features.npy torn.csv --column class", "torn.csv, line 3: 1 fields, and the header has 2"),
    ("measure features.npy hole.txt", "hole.txt, line 2: the label is missing"),
    ("measure features.npy hole.csv --column class", "hole.csv, line 3: the label is missing"),
    ("measure features.npy blank.csv", "blank.csv: there is no header"),
    ("measure features.npy empty.txt", "empty.txt: there are no labels"),
    ("measure features.npy many.txt", "many.txt: more than 1048576 different labels"),
    ("measure features.npy labels.json", "labels must be a file .npy, .npz, .safetensors, .txt, .csv"),
    ("measure features.npy half.npy", "half.npy: not a .npy file"),
    ("measure features.npy floats.npy", "floats.npy: labels must be integers or strings, not float64"),
    ("measure features.npy objects.npy", "objects.npy: not a .npy file"),
    ("measure features.npy archive.npy", "archive.npy: not a .npy file; rename it to archive.npz"),
    ("measure features.npy zip.npy", "zip.npy: not a .npy file"),
    ("measure features.npy wide.csv", "wide.csv: not a .csv file"),
    # Batches.
    ("certify labels.txt missing.jsonl", "missing.jsonl: No such file"),
    ("certify labels.txt range.jsonl", "range.jsonl, line 2: index 12"),
    ("certify labels.txt negative.jsonl", "negative.jsonl, line 1: index -1"),
    ("certify labels.txt broken.jsonl", "broken.jsonl, line 3: not JSON"),
    ("certify labels.txt words.jsonl", "words.jsonl, line 1: a batch must be a list of whole numbers"),
    ("certify labels.txt floats.jsonl", "floats.jsonl, line 1: a batch must be a list of whole numbers"),
    ("certify labels.txt deep.jsonl", "deep.jsonl, line 1: a batch must be a list of whole numbers"),
    ("certify labels.txt binary.jsonl", "binary.jsonl, line 1: not JSON"),
    ("certify labels.txt empty.jsonl", "empty.jsonl: there is no batch in it"),
    ("certify labels.txt hollow.jsonl --repair out.jsonl", "no batch to add samples to"),
    # Linear classifiers.
    ("measure features.npy labels.txt --classifier labels.txt", "labels.txt: a classifier must be a file"),
    ("measure features.npy labels.txt --classifier missing.npz", "missing.npz: No such file"),
    *(
        (f"measure features.npy labels.txt --classifier {name}.{kind}", f"{name}.{kind}: {complaint}")
        for kind in ("npz", "safetensors")
        for name, complaint in (
            ("tall", "classifier must have shape [3, 8], one row per class"),
            ("square", "bias must have shape [3]"),
            ("whole", "weight and bias must be floating point"),
            ("unnamed", "there is no array 'weight'"),
            ("infinite", "every weight and bias of the classifier must be finite"),
        )
    ),
    # Classifiers of `fit`.
    ("fit features.npy --apply missing", "missing: No such file"),
    ("fit features.npy --apply text.safetensors", "is not a classifier that FrameClassifier.save wrote"),
    # Encoders.
    ("predict missing image.png", "missing: there is no trained encoder in it"),
    ("predict no_run image.png", "no_run: there is no trained encoder in it"),
    ("predict torn.safetensors image.png", "torn.safetensors: not an encoder that "),
    ("predict text.safetensors image.png", "text.safetensors: not an encoder that "),
    ("predict unlabelled.safetensors image.png", "unlabelled.safetensors: not an encoder that "),
    ("predict encoder.safetensors image.png", "encoder.safetensors: not an encoder that "),
    ("predict list.safetensors image.png", "list.safetensors: not an encoder that "),
    # Backbones, and what they embed.
    (
        "embed images --out out --backbone resnet50",
        "--backbone must be efficientnet-lite0, efficientnet-lite0-224, hf:NAME",
    ),
    ("embed images --out out --backbone hf:./nowhere", "hf:./nowhere: no such folder"),
    ("embed nothing --out out --backbone torch.nn:Flatten", "nothing: no such file or folder"),
    (
        "embed csv:images.csv --out out --backbone torch.nn:Flatten --label-column kind",
        "there is no column 'kind'",
    ),
    ("embed labels.txt --out out --backbone torch.nn:Flatten", "labels.txt: the image is broken"),
    ("embed images --out labels.txt --backbone torch.nn:Flatten", "labels.txt: File exists; choose another --out"),
    ("embed images --out out --backbone torch.nn:Flatten --device abacus", "--device 'abacus' is not available"),
    ("embed images --out out --backbone torch.nn:Flatten --batch-size 0", "--batch-size must be at least 1, not 0"),
    # Pipes and devices.
    *(
        (words, "it is a pipe or a device)")
        for words in (
            *(f"measure pipe.{kind} labels.txt" for kind in ("npy", "npz", "safetensors", "csv")),
            *(f"measure features.npy pipe.{kind}" for kind in ("npy", "npz", "safetensors", "csv", "txt")),
            *(f"measure features.npy labels.txt --classifier pipe.{kind}" for kind in ("npz", "safetensors")),
            "certify pipe.txt good.jsonl",
            "certify labels.txt pipe.jsonl",
            "fit pipe.npz --out out",
            "fit features.npy --apply pipe.safetensors",
            "predict pipe.safetensors image.png",
            "report piped",
            "train --resume piped",
            "train --resume sorcerer",
            "train --data csv:/dev/zero --epochs 1 --out out",
            "train --data npz:pipe.npz --epochs 1 --out out",
            "embed csv:pipe.csv --out out --backbone torch.nn:Flatten",
        )
    ),
    # Options.
    ("measure features.npy labels.txt --plot out.bmp", "--plot must end in .png"),
    ("measure features.npy labels.txt --temperature 0", "--temperature must be from 0.001"),
    ("fit features.npz", "give --out FOLDER to fit a classifier, or --apply FOLDER to use one"),
    ("fit features.npz --out out --apply out", "give --out FOLDER to fit a classifier, or --apply FOLDER to use one"),
    ("fit features.npy labels.txt --out out --temperature 0", "--temperature must be from 0.001"),
    ("fit features.npy labels.txt --out out --seed -1", "--seed must be at least 0"),
    ("fit features.npy labels.txt --out out --device abacus", "--device 'abacus' is not available"),
    ("certify labels.txt", "where are the batches?"),
    ("certify labels.txt --scheme partition", "where are the batches?"),
    ("certify labels.txt good.jsonl --seed 3", "--seed makes batches"),
    ("certify labels.txt good.jsonl --batch-size 4", "--batch-size makes batches, and good.jsonl gives them"),
    ("certify labels.txt good.jsonl --views 0", "--views must be at least 1"),
    ("certify labels.txt good.jsonl --repair no/where.jsonl", "cannot be written"),
    (f"certify labels.txt good.jsonl --repair {'x' * 300}", "cannot be written"),
    ("certify labels.txt good.jsonl --plot out.bmp", "--plot must end in .png, .pdf or .svg"),
    ("certify labels.txt --batch-size 0", "--batch-size must be at least 1, not 0"),
    ("certify labels.txt --batch-size 4 --epochs 0", "--epochs must be at least 1"),
    ("certify labels.txt --scheme full --batch-size 2", "leave out --batch-size"),
    ("certify labels.txt --batch-size 2 --power 0.5", "--power is for --scheme weighted only"),
    ("certify labels.txt --batch-size 2 --scheme weighted --power 2", "--power must be from 0 to 1"),
    ("predict missing image.png --top 0", "--top must be at least 1"),
    ("predict missing image.png --workers -1", "--workers must be at least 0"),
    ("report", "which runs? Name at least one folder"),
    ("train --epochs 0", "--epochs must be at least 1, not 0"),
    ("train --temperature 0", "--temperature must be from 0.001"),
    ("train --temperature 0.1:inf", "--temperature must be from 0.001"),
    ("train --seed 11111111111111111111111", "--seed must be below 2^63"),
    ("train --ratio inf", "--ratio must be at least 1 and finite, not inf"),
    ("train --clean-fraction 1", "--clean-fraction must be at least 0 and below 1"),
    ("train --data letters", "there is no data 'letters'; choose one of digits"),
    ("train --majority 1000", "--majority 1000 asks for 1000 images of class 0, which has 134"),
    ("train --features 5", "use --features 10 or more"),
    ("train --head none --features 64", "--features needs --head linear"),
    ("train --resume run --out other", "--resume names the folder already; leave --out out"),
    ("train --resume run --lr 0.2", "--resume takes the settings from its folder; leave the others out"),
    ("train --resume run --recipe paper", "--resume takes the settings from its folder"),
    ("train --resume run --epochs 60", "start a new run with --epochs 60 --out FOLDER"),
    ("train --resume nowhere", "nowhere/config.json: there is no run to resume"),
    ("train --data mnist --data-dir empty", "mnist is not complete under "),
    ("export missing --onnx out.onnx", "missing: there is no trained encoder in it"),
    ("export missing --onnx out.pb", "--onnx must end in .onnx, not out.pb"),
    ("export missing --onnx no/out.onnx", "no/out.onnx: cannot be written; its folder must exist"),
]


@pytest.mark.parametrize(("words", "sentence"), CASES, ids=[words[:80] for words, _ in CASES])
def test_bad_input_is_a_sentence_and_status_2(folder, words, sentence, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    for name in ("http_proxy", "https_proxy"):  # no network, whatever the machine has
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    before = sorted(folder.iterdir())
    assert main(words.split()) == 2
    caught = capsys.readouterr()
    assert caught.out == ""
    assert caught.err.startswith("orthoframe: ")
    assert sentence in caught.err
    assert "unexpected" not in caught.err
    assert caught.err.count("\n") == 1
    assert sorted(folder.iterdir()) == before


def test_nothing_is_written_for_bad_input(folder, capsys, monkeypatch):
    """Not even where an output was asked for, and not half of it."""
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    for words in (
        "measure nan.npy labels.txt --plot out.png",
        "certify labels.txt broken.jsonl --repair out.jsonl --plot out.png",
        "fit one_class.npz --out out",
    ):
        assert main(words.split()) == 2
    assert sorted(folder.iterdir()) == before
