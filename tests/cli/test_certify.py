"""The command as a user runs it: files in, a verdict, a status, files out whole or not at all."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from orthoframe import certify
from orthoframe.cli import main

COMMAND = Path(sys.executable).parent / "orthoframe"
NAMES = ["cat"] * 6 + ["dog"] * 4 + ["emu"] * 2
GOOD = [list(range(12))]
BAD = [[0, 6, 10], [1, 7, 11], [2, 3, 8], [4, 5, 9]]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("labels.txt").write_text("\n".join(NAMES) + "\n")
    Path("labels.csv").write_text("id,class\n" + "".join(f"{i},{name}\n" for i, name in enumerate(NAMES)))
    np.save("labels.npy", np.array([{"cat": 0, "dog": 1, "emu": 2}[name] for name in NAMES]))
    np.save("names.npy", np.array(NAMES))
    write("good.jsonl", GOOD)
    write("bad.jsonl", BAD)
    return tmp_path


def write(path, batches):
    Path(path).write_text("".join(json.dumps(batch) + "\n" for batch in batches))


def read(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


@pytest.mark.parametrize(
    "labels", [["labels.txt"], ["labels.npy"], ["names.npy"], ["labels.csv", "--column", "class"]], ids=str
)
def test_verdicts_and_status(here, labels, capsys):
    assert main(["certify", labels[0], "good.jsonl", *labels[1:]]) == 0
    assert "Certified: with non-negative features of at least 3 dimensions" in capsys.readouterr().out
    assert main(["certify", labels[0], "bad.jsonl", *labels[1:]]) == 1
    out = capsys.readouterr().out
    assert out.startswith("Not certified:")
    assert "4 batches (0 of a single class), 12 rows" in out


def test_the_denominator_decides_what_a_batch_of_one_class_does(here, capsys):
    Path("few.txt").write_text("0\n0\n0\n1\n1\n")
    write("few.jsonl", [[0, 1, 3, 4], [0, 1, 2], [2, 3, 4]])
    assert main(["certify", "few.txt", "few.jsonl"]) == 0
    assert main(["certify", "few.txt", "few.jsonl", "--denominator", "sincere"]) == 1
    capsys.readouterr()
    assert main(["certify", "few.txt", "few.jsonl", "--denominator", "negatives", "--repair", "out.jsonl"]) == 2
    assert "--repair guarantees nothing with --denominator negatives" in capsys.readouterr().err


def test_a_frame_term_needs_every_sample_in_a_batch(here, capsys):
    Path("few.txt").write_text("0\n0\n1\n")
    write("few.jsonl", [[0], [1], [2]])
    assert main(["certify", "few.txt", "few.jsonl"]) == 1
    capsys.readouterr()
    assert main(["certify", "few.txt", "few.jsonl", "--frame"]) == 0
    assert "the frame term has a unique optimum for every sample" in capsys.readouterr().out


def test_as_a_program(here):
    done = subprocess.run([COMMAND, "certify", "labels.txt", "bad.jsonl", "--json"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == ""
    assert json.loads(done.stdout) == json.loads(json.dumps(certify(NAMES, BAD).to_dict()))


def test_batches_that_it_makes(here, capsys):
    assert main(["certify", "labels.txt", "--batch-size", "4", "--binding", "fixed", "--scheme", "partition"]) == 0
    assert main(["certify", "labels.txt", "--batch-size", "2", "--scheme", "partition"]) == 1
    assert main(["certify", "labels.txt", "--scheme", "full"]) == 0
    capsys.readouterr()
    assert main(["certify", "labels.txt", "--batch-size", "6", "--epochs", "40", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["num_batches"] == 80


def test_views(here):
    write("pairs.jsonl", [[0, 1, 2, 3, 4, 5, 6], [6, 7, 8, 9, 10], [10, 11, 0]])
    assert main(["certify", "labels.txt", "pairs.jsonl", "--views", "2"]) == 0


def test_repair_and_plot(here, capsys):
    assert main(["certify", "labels.txt", "bad.jsonl", "--repair", "mended.jsonl", "--plot", "picture.png"]) == 1
    out = capsys.readouterr().out
    mended = read("mended.jsonl")
    assert [batch[: len(old)] for batch, old in zip(mended, BAD, strict=True)] == BAD
    assert f"with {sum(map(len, mended)) - 12} additions" in out
    assert main(["certify", "labels.txt", "mended.jsonl"]) == 0
    assert Path("picture.png").read_bytes().startswith(b"\x89PNG")
    assert {path.name for path in here.iterdir()} >= {"mended.jsonl", "picture.png"}
    assert not [path for path in here.iterdir() if path.name.startswith(".")]


def test_unknown_options_are_status_2(here):
    made = ["certify", "labels.txt", "--batch-size", "4"]
    for arguments in (
        ["certify", "labels.txt", "--colour", "red"],
        ["certify"],
        [*made, "--scheme", "magic"],
        [*made, "--binding", "glue"],
        [*made, "--denominator", "some"],
    ):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 2


def test_an_output_file_is_replaced_only_when_whole(here, monkeypatch):
    Path("mended.jsonl").write_text("what was there before\n")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    assert main(["certify", "labels.txt", "bad.jsonl", "--repair", "mended.jsonl"]) == 2
    assert Path("mended.jsonl").read_text() == "what was there before\n"
    assert not [path for path in here.iterdir() if path.name.startswith(".")]


def test_a_file_with_thousands_of_lines_and_windows_ends(here):
    Path("long.jsonl").write_bytes(b"[0, 1, 2]\r\n" * 5000 + json.dumps(GOOD[0]).encode())
    assert main(["certify", "labels.txt", "long.jsonl"]) == 0
    Path("labels.txt").write_bytes("\r\n".join(NAMES).encode())
    assert main(["certify", "labels.txt", "good.jsonl"]) == 0


def test_a_byte_order_mark_is_no_part_of_a_label(here):
    Path("labels.txt").write_text("\n".join(NAMES), encoding="utf-8-sig")
    Path("labels.csv").write_text("class\n" + "\n".join(NAMES), encoding="utf-8-sig")
    assert main(["certify", "labels.txt", "good.jsonl"]) == 0
    assert main(["certify", "labels.csv", "good.jsonl", "--column", "class"]) == 0


def test_numbers_with_leading_zeros_are_names(here, capsys):
    Path("codes.txt").write_text("01\n1\n01\n1\n")
    write("four.jsonl", [[0, 1, 2, 3]])
    assert main(["certify", "codes.txt", "four.jsonl", "--json"]) == 0
    assert [entry["name"] for entry in json.loads(capsys.readouterr().out)["classes"]] == ["01", "1"]


def test_a_reader_that_goes_away(here):
    done = subprocess.run(f"{COMMAND} certify labels.txt bad.jsonl | true", shell=True, capture_output=True, text=True)
    assert "Traceback" not in done.stderr
