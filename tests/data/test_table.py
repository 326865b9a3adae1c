"""Images that a CSV file lists."""

import csv

import numpy as np
import pytest
from PIL import Image

from orthoframe.data import Columns, load_data
from orthoframe.errors import DataError, OptionError

RANDOM = np.random.default_rng(0)


def table(folder, rows, names=("path", "label")):
    for row in rows:
        path = folder / row[0]
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(RANDOM.integers(0, 256, (9, 9), dtype=np.uint8)).save(path)
    with (folder / "images.csv").open("w", newline="") as file:
        csv.writer(file).writerows([names, *rows])
    return f"csv:{folder / 'images.csv'}"


def test_labels_are_text_and_paths_are_relative_to_the_table(tmp_path):
    rows = [(f"sub/{i}.png", str(8 + i % 4)) for i in range(40)]
    data = load_data(table(tmp_path, rows), validation=0.125)
    assert data.train.classes == ("8", "9", "10", "11")
    assert [part.class_counts for part in (data.train, data.validation, data.test)] == [[7] * 4, [1] * 4, [2] * 4]


def test_splits_and_other_names(tmp_path):
    rows = [(f"{i}.png", "ab"[i % 2], ("train", "Train", "val", "test")[i // 2 % 4]) for i in range(16)]
    name = table(tmp_path, rows, ("file", "kind", "part"))
    data = load_data(name, columns=Columns("file", "kind", "part"), validation=0.5)
    assert (len(data.train), len(data.validation), len(data.test)) == (8, 4, 4)
    with pytest.raises(DataError, match="there is no column 'path', but file, kind, part; name it with path_column"):
        load_data(name)


def test_frames_of_one_video_stay_together(tmp_path):
    rows = [(f"{i}.png", "ab"[i // 5 % 2], f"video {i // 5}") for i in range(200)]
    name = table(tmp_path, rows, ("path", "label", "video"))
    data = load_data(name, columns=Columns(group="video"), validation=0.2)
    parts = [{rows[i][2] for i in part.origins(range(len(part)))} for part in (data.train, data.validation, data.test)]
    assert sum(map(len, parts)) == len(parts[0] | parts[1] | parts[2]) == 40
    assert data.test.class_counts == [20, 20]
    assert data.validation.class_counts == [15, 15]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty; its first line must name the columns"),
        (b"path;label\na.png;x\n", "columns must be separated by commas, not as in 'path;label'"),
        (b"path,label,label\na.png,x,y\n", "there are 2 columns 'label'; rename all but one"),
        (
            b"path,label\na.png,x\nb.png,x\n./a.png,y\n",
            r"line 4 names the image of line 2 again \(.*a\.png\); keep one",
        ),
        (
            b"path,label\n" + b"a.png,x\n" * 4,
            "line 3 names the image of line 2 again .*; 2 more lines repeat an image too",
        ),
        (b"path,label\n", "there is no row in it"),
        (b"path,label\na.png,\n", "line 2 has no entry in the column 'label'"),
        (b"path,label\na.png\n", "line 2 has no entry in the column 'label'"),
        (b"path,label,split\na.png,x,dev-null\n", "line 2: a split is train, validation or test, not 'dev-null'"),
        (b"path,label,split\na.png,x,test\n", "class 'x' has no training image"),
        (b"path,label\n\xff,x\n", "not UTF-8 text"),
        (b'path,label\n"a.png,x\n', "not a table in CSV"),
        (b"path,label\nnone.png,x\n", "none.png: No such file or directory"),
    ],
)
def test_tables_that_are_refused(tmp_path, content, said):
    (tmp_path / "images.csv").write_bytes(content)
    columns = Columns(split="split") if b"split" in content else Columns()
    with pytest.raises(DataError, match=said):
        load_data(f"csv:{tmp_path / 'images.csv'}", columns=columns)
    with pytest.raises(DataError, match=r"none\.csv: No such file"):
        load_data(f"csv:{tmp_path / 'none.csv'}")


def test_few_groups(tmp_path):
    """One of them is held out for each part, or the table is refused before anything is trained."""
    rows = [(f"{i}.png", "ab"[i % 2], f"day {i // 10}") for i in range(40)]
    name = table(tmp_path, rows, ("path", "label", "day"))
    data = load_data(name, columns=Columns(group="day"), validation=0.1)
    assert [len(part) for part in (data.train, data.validation, data.test)] == [20, 10, 10]
    few = table(tmp_path, rows[:10], ("path", "label", "day"))
    with pytest.raises(DataError, match="too few groups to hold test images out; use smaller groups, folders"):
        load_data(few, columns=Columns(group="day"))


def test_a_group_on_both_sides_is_refused(tmp_path):
    rows = [(f"{i}.png", "ab"[i % 2], "x", "train" if i < 4 else "test") for i in range(8)]
    name = table(tmp_path, rows, ("path", "label", "day", "split"))
    with pytest.raises(DataError, match="group 'x' is in train and in test; a group must be on one side"):
        load_data(name, columns=Columns(split="split", group="day"))


def test_groups_by_a_pattern_and_by_a_column(tmp_path):
    rows = [(f"{i // 10:02}-{i}.png", "ab"[i % 2], f"day {i // 10}") for i in range(100)]
    name = table(tmp_path, rows, ("path", "label", "day"))
    by_column, by_pattern = (load_data(name, **way) for way in ({"columns": Columns(group="day")}, {"group_by": "^.."}))
    assert by_column.test.origins(range(len(by_column.test))) == by_pattern.test.origins(range(len(by_pattern.test)))
    with pytest.raises(OptionError, match=r"group_by=.* and group_column both name the groups; leave one of them out"):
        load_data(name, columns=Columns(group="day"), group_by="..")


def test_a_label_with_control_characters(tmp_path):
    name = table(tmp_path, [(f"{i}.png", ("a", "\x1b[31mb")[i % 2]) for i in range(20)])
    with pytest.raises(DataError, match=r"class '\\x1b\[31mb': its name is not UTF-8"):
        load_data(name)
