"""Files that lie: one documented error each, in one sentence, in little time and little memory."""

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from orthoframe._arrays import ArrayArchive, stored_array
from orthoframe._files import parsed, read_up_to
from orthoframe.errors import brief

PROGRAM = Path(__file__).parent / "hostile_files.py"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """What came of each file, in a process that may take 512 MiB."""
    if not Path("/proc/self/status").exists():
        pytest.skip("memory is read from /proc")
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path_factory.mktemp("hostile"))], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_each_has_the_documented_error(outcomes):
    wrong = [case for case in outcomes if case["kind"] != case["expected"]]
    assert len(outcomes) > 400
    assert wrong == []


def test_each_is_one_sentence_with_advice_that_exists(outcomes):
    texts = [case["text"] for case in outcomes]
    assert [text for text in texts if len(text) > 300 or "\n" in text] == []
    # Nothing fails because the memory ends: it is not asked for.
    assert [
        text for text in texts if any(word in text.lower() for word in ("allow_pickle", "max_header", "memory"))
    ] == []


def test_none_takes_memory_or_time(outcomes):
    assert max(case["peak"] for case in outcomes) < 512 * 2**20
    assert [case for case in outcomes if case["seconds"] > 5] == []


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
    found = stored.read()
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(found, array)
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
    with pytest.raises(ValueError, match=r"CRC|header|invalid"):
        ArrayArchive(tmp_path / "a.npz")["one"].read()


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
