"""Batches as JSON lines, and how often classes meet."""

import io
import json

import numpy as np
import pytest
import torch

from orthoframe.batches import meeting_counts, read_batches, write_batches
from orthoframe.errors import InputError


def test_what_is_written_can_be_read(tmp_path):
    path, batches = tmp_path / "batches.jsonl", [[0, 5, 2], np.array([1], dtype=np.uint8), [], torch.tensor([3, 4])]
    with path.open("wb") as file:
        write_batches(file, batches)
    assert [json.loads(line) for line in path.read_text().splitlines()] == [[0, 5, 2], [1], [], [3, 4]]
    assert [batch.tolist() for batch in read_batches(path, 6)] == [[0, 5, 2], [1], [], [3, 4]]


def test_every_byte_is_reported_and_empty_lines_are_skipped(tmp_path):
    path, sizes = tmp_path / "batches.jsonl", []
    path.write_bytes(b"\xef\xbb\xbf[0, 1]\r\n\r\n[12]")
    assert [batch.tolist() for batch in read_batches(str(path), on_bytes=sizes.append)] == [[0, 1], [12]]
    assert sum(sizes) == path.stat().st_size


@pytest.mark.parametrize(
    ("line", "num_samples", "message"),
    [
        ("[0, 1", None, "not JSON"),
        ("[" * 100000, None, "a list of whole numbers"),
        ("[" + "9" * 4000 + "]", None, "index 9999"),
        ('["cat"]', None, "a list of whole numbers"),
        ("[1.0]", None, "a list of whole numbers"),
        ("[true]", None, "a list of whole numbers"),
        ("5", None, "a list of whole numbers"),
        ("[-1]", None, "index -1"),
        (f"[{2**63}]", None, f"index {2**63}"),
        ("[1, 2]", 2, "index 2; there are 2 labels"),
    ],
    ids=lambda value: str(value)[:12],
)
def test_a_bad_line_is_named(tmp_path, line, num_samples, message):
    path = tmp_path / "batches.jsonl"
    path.write_text(f"[0]\n\n{line}\n")
    with pytest.raises(InputError) as caught:
        list(read_batches(path, num_samples))
    assert str(caught.value).startswith(f"{path}, line 3: ")
    assert message in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.jsonl: No such file"):
        list(read_batches(tmp_path / "nowhere.jsonl"))


def test_what_is_not_a_batch_is_not_written():
    with pytest.raises(TypeError, match="batch 1 must hold integers"):
        write_batches(io.BytesIO(), [[0], [0.5]])


def test_meetings_agree_with_a_count_by_hand():
    random = np.random.default_rng(0)
    labels = random.integers(5, size=40)
    batches = [random.integers(40, size=6) for _ in range(30)]
    held = [set(labels[batch].tolist()) for batch in batches]
    expected = [[sum(a in names and b in names for names in held) for b in range(5)] for a in range(5)]
    assert meeting_counts(labels, batches).tolist() == expected


@pytest.mark.parametrize("count", [10, 400_000, 900_000])
def test_a_long_line_is_read_in_pieces(count, tmp_path):
    batch = np.random.default_rng(0).integers(0, 10**6, count)
    (tmp_path / "long.jsonl").write_text(f"{json.dumps(batch.tolist())}\n[1, 2]\n")
    batches = list(read_batches(tmp_path / "long.jsonl"))
    assert np.array_equal(batches[0], batch)
    assert batches[1].tolist() == [1, 2]


@pytest.mark.parametrize(
    "broken",
    [
        lambda text: text[:-1],
        lambda text: text[1:],
        lambda text: text[:-1] + ",]",
        lambda text: text.replace(", ", ",,", 1),
        lambda text: text[:2000000] + " x" + text[2000000:],
        lambda text: text[:-1] + ", -5]",
    ],
)
def test_a_long_line_that_is_no_list(broken, tmp_path):
    (tmp_path / "long.jsonl").write_text(broken(json.dumps([123456] * 400_000)) + "\n")
    with pytest.raises(InputError, match="line 1"):
        list(read_batches(tmp_path / "long.jsonl"))
