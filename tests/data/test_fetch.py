"""Downloads from a server on this machine: resumed, checked, whole or not at all."""

import hashlib
import random
import socket

import pytest

from orthoframe.data._sources import download
from orthoframe.errors import DataError

CONTENT = random.Random(0).randbytes(300_000)
HASH = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def target(tmp_path):
    return tmp_path / "file.gz"


@pytest.fixture
def part(tmp_path):
    return tmp_path / "file.gz.part"


@pytest.fixture
def url(server):
    server.files["/file.gz"] = CONTENT
    return f"{server.url}file.gz"


def names(target):
    return sorted(path.name for path in target.parent.iterdir())


def test_a_download_reports_its_progress(url, target):
    seen = []
    download(url, HASH, target, lambda *report: seen.append(report))
    assert target.read_bytes() == CONTENT
    assert names(target) == ["file.gz"]
    assert [done for _, done, _ in seen] == sorted({done for _, done, _ in seen})
    assert seen[-1] == ("file.gz", len(CONTENT), len(CONTENT))


def test_an_interrupted_download_is_resumed_by_the_next(server, url, target, part):
    def interrupt(name, done, total):
        if done > 100_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download(url, HASH, target, interrupt)
    assert names(target) == ["file.gz.part"]
    kept = part.stat().st_size
    assert CONTENT.startswith(part.read_bytes())
    assert 100_000 < kept < len(CONTENT)
    seen = []
    download(url, HASH, target, lambda *report: seen.append(report))
    assert target.read_bytes() == CONTENT
    assert names(target) == ["file.gz"]
    assert server.asked == [("/file.gz", None), ("/file.gz", f"bytes={kept}-")]
    assert kept < seen[0][1] <= seen[-1][1] == seen[0][2] == len(CONTENT)


def test_a_broken_connection_is_tried_again_from_where_it_broke(server, url, target):
    server.breaks = [50_000, 100_000]
    download(url, HASH, target)
    assert target.read_bytes() == CONTENT
    assert [section for _, section in server.asked] == [None, "bytes=50000-", "bytes=150000-"]


def test_a_server_that_sends_no_more_is_given_up_and_what_came_is_kept(server, url, target, part):
    server.breaks = [50_000, 0]
    with pytest.raises(ConnectionError, match=r"127.* broke; the first 50000 bytes of http.* are kept"):
        download(url, HASH, target)
    assert part.read_bytes() == CONTENT[:50_000]
    download(url, HASH, target)
    assert target.read_bytes() == CONTENT


def test_a_server_that_ignores_the_range_starts_over(server, url, target, part):
    part.write_bytes(CONTENT[:70_000])
    server.ranges = False
    download(url, HASH, target)
    assert target.read_bytes() == CONTENT
    assert server.asked == [("/file.gz", "bytes=70000-")]


def test_a_server_that_ignores_the_range_and_always_breaks_is_given_up(server, url, target):
    server.ranges = False
    server.breaks = [80_000, 80_000, 80_000]
    with pytest.raises(ConnectionError, match="broke; the first 80000 bytes"):
        download(url, HASH, target)
    assert len(server.asked) == 2


def test_a_wrong_beginning_is_noticed_and_downloaded_afresh(server, url, target, part):
    part.write_bytes(b"another version" * 100)
    download(url, HASH, target)
    assert target.read_bytes() == CONTENT
    assert [section for _, section in server.asked] == ["bytes=1500-", None]


def test_too_long_a_beginning_is_dropped(server, url, target, part):
    part.write_bytes(CONTENT + b"more")
    download(url, HASH, target)
    assert target.read_bytes() == CONTENT
    assert len(server.asked) == 2


def test_a_whole_part_needs_no_server(server, url, target, part):
    part.write_bytes(CONTENT)
    download(url, HASH, target)
    assert target.read_bytes() == CONTENT
    assert server.asked == []


def test_a_wrong_hash_leaves_nothing(server, url, target):
    with pytest.raises(DataError, match=f"file.gz has the SHA-256 {HASH}, and 00 was expected; nothing was kept"):
        download(url, "00", target)
    assert names(target) == []
    assert len(server.asked) == 1


def test_a_cut_that_the_server_does_not_tell_is_noticed_by_the_hash(server, url, target):
    server.sized = False
    server.breaks = [1000]
    seen = []
    with pytest.raises(DataError, match="nothing was kept"):
        download(url, HASH, target, lambda *report: seen.append(report))
    assert names(target) == []
    assert seen[-1] == ("file.gz", 1000, None)


def test_what_a_server_says_is_passed_on(server, target):
    with pytest.raises(ConnectionError, match=r"127\.0\.0\.1:\d+ answered 404 Not Found for http"):
        download(f"{server.url}other.gz", HASH, target)
    assert names(target) == []


def test_no_server(target, part, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.socket() as taken:  # bound and not listening: nobody else can answer there
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(ConnectionError, match=f"there is no connection to 127.0.0.1:{port}"):
            download(f"http://127.0.0.1:{port}/file.gz", HASH, target)
        assert names(target) == []
        part.write_bytes(CONTENT[:10])
        with pytest.raises(ConnectionError, match=f"no connection to 127.0.0.1:{port}; the first 10 bytes of"):
            download(f"http://127.0.0.1:{port}/file.gz", HASH, target)
    assert part.read_bytes() == CONTENT[:10]
