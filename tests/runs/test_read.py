"""Run folders are read whole, and what is wrong in them is said by file and place."""

import json
import re
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from orthoframe.errors import InputError
from orthoframe.geometry import Confusion, accuracy_of
from orthoframe.runs import Cause, Ending, TestRecord, read_run
from run_folders import BAD, CONFIG, GOOD, write_run


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
    assert [record.epoch for record in run.epochs] == [1, 2, 3, 4]
    assert run.epochs[2].delta_of is None
    assert [entry.epoch for entry in run.measurements] == [1, 2, 4]
    line = json.loads((written / "geometry.jsonl").read_text().splitlines()[-1])
    end = run.measurements[-1]
    assert np.array_equal(end.train.cosines, line["train"]["cosines"])
    assert [(entry.name, entry.rows) for entry in end.train.classes] == [(0, 8), (1, 4), (2, 2)]
    assert end.train.delta_of == line["train"]["delta_of"] == run.last("delta_of")
    assert list(end.test.by_class) == line["test"]["by_class"]
    assert run.certificate.epochs == 3
    assert run.verdict == GOOD


def test_cross_entropy_has_neither_floor_nor_certificate(tmp_path):
    run = read_run(write_run(tmp_path / "ce", counts=(8, 4), dim=4, epochs=2, loss="cross-entropy", verdict=BAD))
    assert run.certificate is None
    assert run.last("gap") is None
    assert run.verdict == BAD


def test_numbers_that_are_not_finite(folder):
    text = (folder / "geometry.jsonl").read_text()
    (folder / "geometry.jsonl").write_text(re.sub(r'"delta_of": [0-9.e-]+', '"delta_of": null', text))
    (folder / "metrics.csv").write_text((folder / "metrics.csv").read_text().replace(",0.31,", ",nan,"))
    run = read_run(folder)
    assert run.measurements[0].train.delta_of is None
    assert run.last("seconds") is None


def test_half_a_line_of_a_run_that_was_killed(folder):
    """It is written again when the run is resumed; a run that has ended has whole lines."""
    text = (folder / "geometry.jsonl").read_text()
    (folder / "geometry.jsonl").write_text(text[:-20])
    with pytest.raises(InputError, match=r"geometry\.jsonl, line 3: "):
        read_run(folder)
    (folder / "verdict.json").unlink()
    assert [entry.epoch for entry in read_run(folder).measurements] == [1, 2]


def test_no_measured_epoch_is_no_error(folder):
    (folder / "geometry.jsonl").write_text("")
    assert read_run(folder).measurements == ()


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
    with pytest.raises(InputError, match=name):
        read_run(folder)


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("config.json", "}", "", "config.json: Input data was truncated"),
        ("config.json", "*", "[1, 2]", "config.json: Expected `object`, got `array`"),
        ("config.json", "*", "[" * 100_000, "config.json: "),
        ("verdict.json", '"reached":true', '"reached":1', "verdict.json: Expected `bool`.*reached"),
        ("verdict.json", '"reached"', '"x"', "verdict.json: .*missing required field `reached`"),
        ("verdict.json", '"causes":[]', '"causes":"none"', r"verdict.json: Expected `array`.*causes"),
        ("verdict.json", '"causes":[]', '"causes":[3]', r"verdict.json: Expected `object`.*causes\[0\]"),
        ("verdict.json", '"frame-reached"', '"bored"', "verdict.json: Invalid enum value 'bored'.*signature"),
        ("certificate.json", '"holds": true', '"holds": null', "certificate.json: Expected `bool`.*holds"),
        ("certificate.json", '"samples": 8', '"samples": "8"', "certificate.json: Expected `int`.*samples"),
        ("certificate.json", '"epochs"', '"x"', "certificate.json: .*missing required field `epochs`"),
        ("certificate.json", '"missing_pairs": []', '"missing_pairs": [[1]]', "array` of length 2.*missing_pairs"),
        ("certificate.json", '"name": 0', '"name": 0.5', r"Expected `int \| str`.*name"),
        ("metrics.csv", "loss,", "losses,", "metrics.csv, line 2: .*missing required field `loss`"),
        ("metrics.csv", "0.31", "fast", "metrics.csv, line 2: Expected `float`.*seconds"),
        (
            "metrics.csv",
            "0.31",
            "0.31,5",
            "metrics.csv, line 2: the header has 20 fields, and this line another number",
        ),
        ("metrics.csv", "0.31", '"0.31', r"metrics.csv: not what a run writes \(line 5: "),
        ("metrics.csv", "\n2,", "\n1,", "metrics.csv, line 3: epochs must be 0 or more and increase, and 1"),
        ("metrics.csv", "\n1,", "\n1.5,", "metrics.csv, line 2: Expected `int`.*epoch"),
        ("metrics.csv", "\n1,", "\n-1,", "metrics.csv, line 2: epochs must be 0 or more"),
        ("metrics.csv", "\n1,", "\n,", "metrics.csv, line 2: .*missing required field `epoch`"),
        ("geometry.jsonl", '{"epoch": 2', '{"epoch": 1', "line 2: epochs must be 0 or more and increase, and 1"),
        ("geometry.jsonl", '{"epoch": 2', '{"epoch": "2"', "line 2: Expected `int`.*epoch"),
        ("geometry.jsonl", '"train": {', '"train": 3, "x": {', "line 1: Expected `object`.*train"),
        ("geometry.jsonl", '"rows": 8', '"rows": 9', "line 2: its classes are not those of epoch 1"),
        ("geometry.jsonl", '"name": 1', '"name": 0', "line 1: train.classes must be classes, each with its own name"),
        ("geometry.jsonl", '"cosines": [[', '"cosines": [[0.5, ', r"line 1: train.cosines\[0\] has 4 entries, not 3"),
        ("geometry.jsonl", '"cosines": [[', '"cosines": [["x", ', r"line 1: Expected `float \| null`.*cosines"),
        ("geometry.jsonl", '"owners": [0', '"owners": [3', "train.ownership.owners must be -1 or the position"),
        ("geometry.jsonl", '"purity": [', '"purity": [1, ', "train.ownership.purity has 7 entries, not 6"),
        ("geometry.jsonl", '"delta_of"', '"delta"', "line 1: .*missing required field `delta_of`"),
        ("geometry.jsonl", '"beta_nc": ', '"beta_nc": true, "x": ', r"Expected `float \| null`.*beta_nc"),
        ("geometry.jsonl", '"by_class": [', '"by_class": [1, ', "by_class has 4 entries, not 3"),
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
    verdict = read_run(folder).verdict
    assert (verdict.reached, verdict.signature, verdict.ending) == (False, None, Ending.NOT_FINISHED)
    assert "epoch 4 of 4" in verdict.sentence
    assert "resume" in verdict.causes[0].advice
    assert str(folder) in verdict.causes[0].advice
    (folder / "nan-batch.json").write_text("{}")
    verdict = read_run(folder).verdict
    assert (verdict.ending, verdict.causes[0].cause) == (Ending.NON_FINITE, Cause.NON_FINITE)
    (folder / "verdict.json").mkdir()
    with pytest.raises(InputError, match=r"verdict\.json: Is a directory"):
        read_run(folder)


def test_a_table_without_epochs(folder):
    (folder / "metrics.csv").write_text((folder / "metrics.csv").read_text().splitlines()[0] + "\n")
    with pytest.raises(InputError, match=r"metrics.csv: there is no epoch"):
        read_run(folder)


def with_test(folder, **changes):
    """The run with results of test images in its verdict."""
    labels = np.array([0, 0, 0, 1, 1, 2])
    predicted = np.array([0, 1, 1, 1, 0, 2])
    confusion = Confusion.of(predicted, labels, [0, 1, 2])
    accuracy = accuracy_of(predicted, labels, [0, 1, 2])
    verdict = replace(
        GOOD, test=TestRecord(replace(accuracy, **changes.pop("accuracy", {})), replace(confusion, **changes))
    )
    (folder / "verdict.json").write_bytes(msgspec.json.encode(verdict))
    return folder


def test_test_images_of_the_verdict(folder):
    read = read_run(with_test(folder))
    assert read.verdict.test.confusion.sentences() == ["0 as 1: 2 of 3", "1 as 0: 1 of 2"]
    assert read.accuracy == ("test", read.verdict.test.accuracy)
    (folder / "verdict.json").write_bytes(msgspec.json.encode(GOOD))  # as earlier versions wrote it
    assert read_run(folder).accuracy == ("test", read.measurements[-1].test)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": (3, 2)}, "verdict.json: test has 3 classes, rows of 2"),
        ({"accuracy": {"by_class": (1.0,)}}, "verdict.json: test has 3 classes"),
        ({"names": (0, 1, 5)}, "the classes of test are not those of geometry.jsonl"),
        ({"cells": ((0, 3, 1),)}, "cells must be two of 3 classes"),
        ({"cells": ((-1, 1, 1),)}, "cells must be two of 3 classes"),
        ({"cells": ((0, 1, 4),)}, "and no more rows than there are"),
    ],
)
def test_test_images_that_cannot_be(folder, changes, message):
    with pytest.raises(InputError, match=re.escape(message)):
        read_run(with_test(folder, **changes))
