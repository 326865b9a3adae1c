"""Run folders are read whole, and what is wrong in them is said by file and place."""

import json
import re

import numpy as np
import pytest

from orthoframe.reporting import InputError, read_run
from run_folders import BAD, CONFIG, write_run


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("runs") / "small", counts=(8, 4, 2), dim=6, epochs=4, every=2)


@pytest.fixture
def folder(written, tmp_path):
    for file in written.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def test_it_reads_what_was_written(written):
    run = read_run(str(written))
    assert run.name == "small"
    assert run.config == {**CONFIG, "epochs": 4}
    assert run.epochs == (1, 2, 3, 4)
    assert run.metrics["delta_of"][2] is None
    assert [entry.epoch for entry in run.measured] == [1, 2, 4]
    line = json.loads((written / "geometry.jsonl").read_text().splitlines()[-1])
    end = run.measured[-1]
    assert np.array_equal(end.cosines, line["train"]["cosines"])
    assert (end.names, end.counts) == ((0, 1, 2), (8, 4, 2))
    assert end.delta_of == line["train"]["delta_of"] == run.last("delta_of")
    assert list(end.test.by_class) == line["test"]["by_class"]
    assert run.certificate["epochs"] == 3
    assert run.verdict.reached


def test_cross_entropy_has_neither_floor_nor_certificate(tmp_path):
    run = read_run(write_run(tmp_path / "ce", counts=(8, 4), dim=4, epochs=2, loss="cross-entropy", verdict=BAD))
    assert run.certificate is None
    assert run.last("gap") is None
    assert run.verdict.causes == tuple(BAD["causes"])


def test_numbers_that_json_does_not_know(folder):
    text = (folder / "geometry.jsonl").read_text()
    (folder / "geometry.jsonl").write_text(re.sub(r'"delta_of": [0-9.e-]+', '"delta_of": NaN', text))
    (folder / "metrics.csv").write_text((folder / "metrics.csv").read_text().replace(",0.31,", ",nan,"))
    run = read_run(folder)
    assert run.measured[0].delta_of is None
    assert run.last("seconds") is None


def test_no_measured_epoch_is_no_error(folder):
    (folder / "geometry.jsonl").write_text("")
    assert read_run(folder).measured == ()


def test_there_must_be_a_folder(tmp_path):
    with pytest.raises(InputError, match=r"nowhere: there is no such folder; a run folder has config\.json"):
        read_run(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["config.json", "metrics.csv", "geometry.jsonl"])
def test_files_that_must_be_there(folder, name):
    (folder / name).unlink()
    with pytest.raises(InputError, match=f"{name}: No such file; a run folder has"):
        read_run(folder)
    (folder / name).mkdir()
    with pytest.raises(InputError, match=f"{name}: Is a directory"):
        read_run(folder)


ALL = ["config.json", "metrics.csv", "geometry.jsonl", "verdict.json", "certificate.json"]


@pytest.mark.parametrize("name", ALL)
def test_files_that_are_torn(folder, name):
    content = (folder / name).read_bytes()
    for end in range(1, len(content) - 2, max(1, len(content) // 25)):
        # A whole number of lines, or a shorter number at the end of one, is a file that can be read.
        torn = content[:end] if name.endswith(".json") else content[: content.rindex(b"\n", 0, -1) + 2]
        (folder / name).write_bytes(torn)
        with pytest.raises(InputError, match=name):
            read_run(folder)


@pytest.mark.parametrize("name", ALL)
def test_files_that_are_no_text(folder, name):
    (folder / name).write_bytes(b"\xff\xfe{}")
    with pytest.raises(InputError, match=f"{name}: not a text in UTF-8"):
        read_run(folder)


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("config.json", "{", "[", "config.json: not JSON"),
        ("config.json", "*", "[1, 2]", r"config.json: must be an object, not \[1, 2\]"),
        ("config.json", "*", "[" * 100_000, "config.json: not JSON"),
        ("verdict.json", '"reached": true', '"reached": 1', "verdict.json: reached: must be true or false, not 1"),
        ("verdict.json", '"reached"', '"x"', "verdict.json: 'reached' is missing"),
        ("verdict.json", '"causes": []', '"causes": "none"', 'causes: must be a list, not "none"'),
        ("verdict.json", '"causes": []', '"causes": [3]', r"causes\[0\]: must be a text, not 3"),
        ("certificate.json", '"holds": true', '"holds": null', "certificate.json: holds: must be true or false"),
        (
            "certificate.json",
            '"samples": 8',
            '"samples": -8',
            r"classes\[0\].samples: must be a whole number, 0 or more",
        ),
        ("certificate.json", '"epochs"', '"x"', "certificate.json: 'epochs' is missing"),
        ("certificate.json", '"missing_pairs": []', '"missing_pairs": [[1]]', r"missing_pairs\[0\]: has 1 entries"),
        ("certificate.json", '"name": 0', '"name": 0.5', r"classes\[0\].name: the name of a class must be"),
        (
            "metrics.csv",
            "delta_etf",
            "delta",
            "metrics.csv: its first line must name the columns, and has no delta_etf",
        ),
        ("metrics.csv", "0.31", "fast", "metrics.csv, line 2: seconds is 'fast', which is no number"),
        ("metrics.csv", "0.31", "0.31,5", "metrics.csv, line 2: 18 fields, and the header has 17"),
        ("metrics.csv", "0.31", '"0.31', "metrics.csv, line 5: not a .csv file"),
        ("metrics.csv", "\n2,", "\n1,", "epochs must be whole numbers that grow, and 1 is followed by 1"),
        ("metrics.csv", "\n1,", "\n1.5,", "epochs must be whole numbers from 0 on, and the first is 1.5"),
        ("metrics.csv", "\n1,", "\n,", "epochs must be whole numbers from 0 on, and the first is None"),
        ("geometry.jsonl", '{"epoch": 2', '{"epoch": 1', "line 2: epochs must grow, and 1 is followed by 1"),
        ("geometry.jsonl", '{"epoch": 2', '{"epoch": "2"', "line 2: epoch: must be a whole number, 0 or more"),
        ("geometry.jsonl", '"train": {', '"train": 3, "x": {', "line 1: train: must be an object, not 3"),
        ("geometry.jsonl", '"rows": 8', '"rows": 9', "line 2: its classes are not those of epoch 1"),
        ("geometry.jsonl", '"name": 1', '"name": 0', "line 1: train.classes: there must be classes, and each must"),
        (
            "geometry.jsonl",
            '"cosines": [[',
            '"cosines": [[0.5, ',
            r"line 1: train.cosines\[0\]: has 4 entries, and there",
        ),
        ("geometry.jsonl", '"cosines": [[', '"cosines": [["x", ', "line 1: train.cosines"),
        ("geometry.jsonl", '"owners": [0', '"owners": [3', "train.ownership.owners: class number 3, and there are 3"),
        (
            "geometry.jsonl",
            '"purity": [',
            '"purity": [1, ',
            "train.ownership.purity: has 7 entries, and there must be 6",
        ),
        ("geometry.jsonl", '"delta_of"', '"delta"', "line 1: train: 'delta_of' is missing"),
        ("geometry.jsonl", '"beta_nc": ', '"beta_nc": true, "x": ', "beta_nc: must be a number or null, not true"),
        ("geometry.jsonl", '"by_class": [', '"by_class": [1, ', "by_class: has 4 entries, and there must be 3"),
    ],
)
def test_what_is_wrong_is_said(folder, name, old, new, message):
    text = (folder / name).read_text()
    assert old == "*" or old in text
    (folder / name).write_text(new if old == "*" else text.replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        read_run(folder)


def test_without_a_verdict_it_is_not_finished(folder):
    (folder / "verdict.json").unlink()
    found = read_run(folder).verdict
    assert (found.reached, found.signature) == (False, "not finished, stopped after epoch 4 of 4")
    assert found.words == "Not finished: after epoch 4 of 4 the run was interrupted, or it goes on."
    (folder / "nan-batch.json").write_text("{}")
    assert read_run(folder).verdict.causes == ("the loss is no number",)
    (folder / "verdict.json").mkdir()
    with pytest.raises(InputError, match=r"verdict\.json: Is a directory"):
        read_run(folder)


def test_a_table_without_epochs(folder):
    (folder / "metrics.csv").write_text((folder / "metrics.csv").read_text().splitlines()[0] + "\n")
    with pytest.raises(InputError, match=r"metrics.csv: there is no epoch"):
        read_run(folder)
