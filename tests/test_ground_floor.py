"""What every room stands on: options and errors, rows and labels, files that are whole or not there."""

import errno
import fcntl
import io
import json
import math
import multiprocessing
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from orthoframe._arrays import ArrayArchive, named_arrays, stored_array
from orthoframe._processes import LaunchedProcess
from orthoframe._rows import SMALLEST_NORM, Labels, class_members, label_array, unit_rows
from orthoframe.errors import InputError, Option, OptionError, OrthoframeError, brief, spelled
from orthoframe.files import (
    LARGEST_FILE,
    LARGEST_JSON,
    LARGEST_TEXT,
    LONGEST_LINE,
    csv_rows,
    json_ready,
    lines_of,
    locked,
    open_file,
    open_tensors,
    open_text,
    parsed,
    read_small,
    read_up_to,
    reading,
    write_atomic,
    write_json,
)
from orthoframe.options import TableLoss, check_choice, check_count, check_number


def flag(option):
    return f"--{option.name}" if option.value is None else f"--{option.name} {option.value}"


def test_a_sentence_names_options_in_the_words_of_its_reader():
    error = OptionError(Option("features"), " needs ", Option("head", "linear"), "; braces {} and % are text")
    assert str(error) == "features needs head='linear'; braces {} and % are text"
    assert error.spelled(flag) == "--features needs --head linear; braces {} and % are text"
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.spelled(flag)) == (str(error), error.spelled(flag))
    assert isinstance(error, ValueError)
    assert isinstance(error, OrthoframeError)
    assert str(InputError("a.txt: No such file")) == spelled(["a.txt: No such file"])


@pytest.mark.parametrize("value", [True, 2.0, "3", None])
def test_counts_are_whole_numbers(value):
    with pytest.raises(OptionError, match="batch_size must be a whole number"):
        check_count("batch_size", value)


def test_counts_of_any_integer_type():
    count = check_count("batch_size", np.int16(3))
    assert (count, type(count)) == (3, int)
    assert check_count("seed", 0, 0) == 0


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_numbers_out_of_range(value):
    with pytest.raises(OptionError, match="lr must be positive"):
        check_number("lr", value, above=0)
    with pytest.raises(TypeError, match="lr must be a number"):
        check_number("lr", "0.1", above=0)


def test_ranges_have_ends():
    assert check_number("dropout", 0, least=0, below=1) == 0.0
    with pytest.raises(OptionError, match="at least 0 and below 1, not 1"):
        check_number("dropout", 1.0, least=0, below=1)
    with pytest.raises(OptionError, match="'frame', 'supcon', not 'mse'"):
        check_choice("loss", "mse", TableLoss)


@given(st.lists(st.sampled_from([-3, 0, 1, 7, 5000]), min_size=1, max_size=12))
def test_numbering_labels_is_undone_by_their_names(labels):
    numbered = Labels.of(labels)
    assert [numbered.names[c] for c in numbered.classes] == labels
    assert list(numbered.names) == sorted(set(labels))
    assert numbered.counts.tolist() == [labels.count(name) for name in numbered.names]
    assert [[labels[row] for row in rows] for rows in numbered.members()] == [
        [name] * labels.count(name) for name in numbered.names
    ]


@pytest.mark.parametrize(
    "labels",
    [["b", "a", "b"], np.array([b"b", b"a", b"b"]), np.array(["b", "a", "b"], dtype=object)],
    ids=["list", "bytes", "objects"],
)
def test_strings_in_any_form(labels):
    numbered = Labels.of(labels)
    assert (numbered.names, numbered.classes.tolist()) == (("a", "b"), [1, 0, 1])


def test_labels_that_are_refused():
    with pytest.raises(ValueError, match="one-dimensional"):
        label_array(np.zeros((2, 2), dtype=int))
    with pytest.raises(TypeError, match="integers or strings, not float64"):
        label_array([0.5])
    assert Labels.of([]).names == ()
    assert class_members(np.array([], dtype=int), 2)[1].tolist() == []


@pytest.mark.parametrize("scale", [1e-11, 1.0, 1e30, 1e200, 1e307])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_unit_rows_of_any_length(scale, dtype):
    if dtype == torch.float32 and scale > 1e30:
        pytest.skip("float32 has no such number")
    rows = torch.tensor([[3.0, -4.0], [0.0, 2.0]], dtype=dtype) * scale
    unit, inverse = unit_rows(rows)
    assert torch.allclose(unit, torch.tensor([[0.6, -0.8], [0.0, 1.0]], dtype=dtype))
    assert torch.allclose(rows * inverse, unit)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_row_that_is_too_short_is_zero_and_learns_nothing(dtype):
    rows = torch.tensor([[SMALLEST_NORM / 2, 0.0], [0.0, 0.0], [SMALLEST_NORM * 2, 0.0]], dtype=dtype)
    rows.requires_grad_()
    unit, inverse = unit_rows(rows)
    assert unit.tolist() == [[0.0, 0.0], [0.0, 0.0], [1.0, 0.0]]
    assert inverse[:2].tolist() == [[0.0], [0.0]]
    unit[:2].sum().backward()
    assert rows.grad.tolist() == [[0.0, 0.0]] * 3


def test_the_gradient_of_unit_rows():
    rows = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda tensor: unit_rows(tensor)[0], rows)


def test_a_file_is_whole_or_as_it_was(tmp_path):
    path = tmp_path / "file.txt"
    write_atomic(path, "first")

    def fail(file):
        file.write(b"half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_atomic(path, fail)
    assert path.read_text() == "first"
    assert os.listdir(tmp_path) == ["file.txt"]
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        write_atomic(tmp_path / "none" / "file.txt", b"")


def test_json_has_no_numbers_that_are_not(tmp_path):
    write_json(tmp_path / "data.json", {"a": (math.nan, 1 / 3, True), 2: None}, digits=3)
    assert json.loads((tmp_path / "data.json").read_text()) == {"a": [None, 0.333, True], "2": None}
    assert json_ready(1e-9) == 1e-9


def _hold(folder, held, done):
    with locked(folder) as ours:
        held.put(ours)
        done.wait(30)


def test_a_folder_has_one_writer(tmp_path):
    (tmp_path / ".orthoframe.left").write_text("of a process that was killed")
    context = multiprocessing.get_context("fork")
    held, done = context.Queue(), context.Event()
    process = context.Process(target=_hold, args=(tmp_path, held, done))
    process.start()
    assert held.get(timeout=30) is True
    assert not (tmp_path / ".orthoframe.left").exists()
    with locked(tmp_path) as ours:
        assert not ours
    done.set()
    process.join(30)
    with locked(tmp_path, seconds=5) as ours:
        assert ours


def test_which_process_this_is(monkeypatch):
    monkeypatch.setenv("SLURM_PROCID", "3")
    monkeypatch.setenv("SLURM_NTASKS", "4")
    monkeypatch.setenv("SLURM_LOCALID", "1")
    assert LaunchedProcess.here() == LaunchedProcess(3, 4, 1)
    for shell in ("bash", "interactive"):  # one process in which a person types; the other tasks do nothing
        monkeypatch.setenv("SLURM_JOB_NAME", shell)
        assert LaunchedProcess.here() == LaunchedProcess()
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert LaunchedProcess.here() == LaunchedProcess(1, 2, 0)
    monkeypatch.setenv("RANK", "2")
    with pytest.raises(OptionError, match="RANK must be below WORLD_SIZE, which is 2, not 2"):
        LaunchedProcess.here()
    monkeypatch.setenv("RANK", "one")
    with pytest.raises(OptionError, match="the environment variable RANK must be a whole number, not 'one'"):
        LaunchedProcess.here()


@given(
    array=arrays(
        st.sampled_from([np.uint8, np.dtype(">f4"), np.float64, np.int16, np.dtype("<U3"), np.dtype("S2"), np.bool_]),
        array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    ),
    order=st.sampled_from("CF"),
)
def test_what_numpy_saves_is_read(array, order):
    file = io.BytesIO()
    np.save(file, np.asarray(array, order=order))
    stored = stored_array(lambda: io.BytesIO(file.getvalue()), len(file.getvalue()))
    content = stored.read()
    assert (content.dtype, content.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(content, array)
    if array.ndim == 2 and not stored.by_columns and array.size:
        np.testing.assert_array_equal(np.concatenate(list(stored.rows(2))), array)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_archives_of_numpy_are_read(tmp_path, save):
    save(tmp_path / "a.npz", one=np.arange(3), two=np.eye(2))
    archive = ArrayArchive(tmp_path / "a.npz")
    assert archive.names == ["one", "two"]
    assert archive["one"].read().tolist() == [0, 1, 2]
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[content.index(b"\x93NUMPY") + 130 if save is np.savez else 60] ^= 1  # the checksum of the archive tells
    (tmp_path / "a.npz").write_bytes(content)
    path = tmp_path / "a.npz"
    with pytest.raises(InputError, match=r"CRC|header|invalid"), reading(path, "an archive"):
        ArrayArchive(path)["one"].read()


def test_no_more_is_read_than_was_asked_for():
    file = io.BytesIO(b"abcdef")
    assert read_up_to(file, 4) == b"abcd"
    assert read_up_to(file, 10**18) == b"ef"


def test_whatever_a_parser_raises_is_one_line():
    def fail(error):
        raise error

    for error in (IndexError(), MemoryError(), RecursionError("a\nb"), SystemError("x" * 1000), KeyError("name")):
        with pytest.raises(ValueError, match=r"^\S.{0,119}$"):
            parsed(fail, error)
    with pytest.raises(OSError, match="disk"):
        parsed(fail, OSError("disk"))


def test_what_is_quoted_is_short_and_printable():
    assert brief("a\x1b[31m\nb\u2028c") == "a?[31m b c"
    assert len(brief("x" * 10**6)) == 120
    assert len(brief("y " * 10**6, 50)) <= 50


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "file.json"
    with path.open("wb") as file:
        file.truncate(LARGEST_JSON)
    assert len(read_small(path)) == LARGEST_JSON
    with pytest.raises(ValueError, match="it has more than 9 bytes"):
        read_small(path, 9)
    with path.open("wb") as file:
        file.truncate(2**40)  # it takes no room on the disk
    for opened in (read_small, open_text):
        sentence = r"file\.json: not a small file \(it has more than \d+ bytes\)"
        with pytest.raises(InputError, match=sentence), reading(path, "a small file"):
            opened(path)
    path.write_bytes((LARGEST_JSON + 1).to_bytes(8, "little"))
    with pytest.raises(ValueError, match="its header has more than 4194304 bytes"):
        open_tensors(path)


def test_lines_and_rows_of_a_text(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes('\ufeffa,b\r\n"1\n2",3\n'.encode())
    with open_text(path) as file:
        assert list(csv_rows(file)) == [(1, ["a", "b"]), (3, ["1\n2", "3"])]
    path.write_text("a\n" + "b" * (LONGEST_LINE + 1))
    with open_text(path) as file, pytest.raises(ValueError, match=f"line 2 is longer than {LONGEST_LINE} characters"):
        list(lines_of(file))


def test_arrays_by_name(tmp_path):
    np.savez(tmp_path / "a.npz", one=np.arange(3), two=np.eye(2))
    assert {name: array.shape for name, array in named_arrays(tmp_path / "a.npz", ("two", "x")).items()} == {
        "two": (2, 2)
    }


def test_pipes_and_devices_are_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), Path("/dev/null")):
        for read in (open_file, open_text, open_tensors, read_small, ArrayArchive):
            with pytest.raises(ValueError, match=r"^it is a pipe or a device$"):
                read(path)
    with pytest.raises(IsADirectoryError):
        open_file(tmp_path)


def test_a_limit_for_each_kind_of_file(tmp_path):
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(LARGEST_FILE + 1)  # it takes no room
    for read, most in (
        (open_file, LARGEST_FILE),
        (open_text, LARGEST_TEXT),
        (open_tensors, LARGEST_FILE),
        (ArrayArchive, LARGEST_FILE),
        (read_small, LARGEST_JSON),
    ):
        with pytest.raises(ValueError, match=f"^it has more than {most} bytes$"):
            read(path)


@pytest.fixture(params=["ENOLCK", "ENOTSUP"])
def without_locks(request, monkeypatch):
    """A file system without locks."""

    def flock(*_):
        code = getattr(errno, request.param)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", flock)


def test_without_locks_a_file_stands_for_one(without_locks, tmp_path):
    (tmp_path / ".orthoframe.left").write_text("of a process that was killed")
    for _ in range(2):
        with locked(tmp_path) as ours:
            assert ours
            assert not (tmp_path / ".orthoframe.left").exists()
            with locked(tmp_path) as again:
                assert not again
    context = multiprocessing.get_context("fork")
    held, done = context.Queue(), context.Event()
    process = context.Process(target=_hold, args=(tmp_path, held, done))
    process.start()
    assert held.get(timeout=30) is True
    with locked(tmp_path) as ours:
        assert not ours
    process.kill()
    process.join(30)
    with locked(tmp_path, seconds=30) as ours:  # a process that dies lets go
        assert ours
