"""The end of a long feed is read from its end; nothing of it is missed."""

from __future__ import annotations

import pytest

from lastout.jobs import feed
from lastout.jobs.job import Job
from lastout.mcp import newest as module
from lastout.mcp.newest import commands_that_failed, last_number, newest

FAILED = feed.CommandRan(item="1", command="make", status="failed", exit_code=2, turn=1)


def written(tmp_path, events, rest=b""):
    job = Job(str(tmp_path), "20261130T101500-abcdef")
    (tmp_path / "jobs" / job.id).mkdir(parents=True)
    path = tmp_path / "jobs" / job.id / "feed.jsonl"
    path.write_bytes(b"".join(map(feed.encode, events)) + rest)
    return job


@pytest.mark.parametrize("chunk", [16, 61, 62, 63, 64, 1 << 16])
@pytest.mark.parametrize("rest", [b"", b'{"event":"prog', b"torn\n", b"torn\n\n"])
def test_the_same_as_reading_all_of_it(tmp_path, monkeypatch, chunk, rest):
    monkeypatch.setattr(module, "_CHUNK", chunk)
    events = [feed.Progress(seq=n, text="x" * n) for n in range(1, 12)]
    job = written(tmp_path, events, rest)
    assert job.feed() == events
    for limit in (0, 1, 5, 11, 50):
        assert newest(job, 0, limit) == events[max(0, 11 - limit) :]
    assert newest(job, 9, 50) == events[9:]
    assert (newest(job, 11, 50), last_number(job)) == ([], 11)


def test_a_failure_is_found_before_a_hundred_thousand_lines(tmp_path):
    import msgspec

    first = [
        msgspec.structs.replace(FAILED, seq=1),
        msgspec.structs.replace(FAILED, seq=2, exit_code=0, status="completed"),
    ]
    rest = [feed.Progress(seq=n, turn=1, text='{"event":"command"}') for n in range(3, 100_001)]
    job = written(tmp_path, first + rest)
    assert commands_that_failed(job) == first[:1]
    assert commands_that_failed(job, turn=2) == commands_that_failed(job, after=1) == []
    assert [event.seq for event in newest(job, 0, 3)] == [99_998, 99_999, 100_000]


def test_no_feed_yet(tmp_path):
    job = Job(str(tmp_path), "20261130T101500-abcdef")
    assert (newest(job, 0, 9), last_number(job), commands_that_failed(job)) == ([], 0, [])
