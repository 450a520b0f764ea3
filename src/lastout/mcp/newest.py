"""The end of a job's feed, and the failures in it, without decoding all that is before: a feed may
have a hundred thousand events."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from lastout.jobs import feed, layout
from lastout.jobs.job import Job

__all__ = ["commands_that_failed", "last_number", "newest"]

_CHUNK: Final = 1 << 16
_COMMAND: Final = b'{"event":"command",'
_FAILED: Final = ("failed", "error", "declined")


def newest(job: Job, after: int, limit: int) -> list[feed.FeedEvent]:
    """The last `limit` events above a number, oldest first."""
    found: list[feed.FeedEvent] = []
    for line in _backwards(job):
        if len(found) >= limit:
            break
        event = _decoded(line)
        if event is None:
            continue
        if event.seq <= after:
            break
        found.append(event)
    return found[::-1]


def last_number(job: Job) -> int:
    """The number of its newest event: what comes after it is news."""
    return max((event.seq for event in newest(job, 0, 1)), default=0)


def commands_that_failed(
    job: Job, after: int = 0, turn: int | None = None
) -> list[feed.CommandRan]:
    """The commands that failed, of one turn or of all, oldest first."""
    found = []
    try:
        with open(_path(job), "rb") as file:
            for line in file:
                event = _decoded(line) if line.startswith(_COMMAND) else None
                if (
                    isinstance(event, feed.CommandRan)
                    and event.seq > after
                    and turn in (None, event.turn)
                    and (event.exit_code not in (0, None) or event.status in _FAILED)
                ):
                    found.append(event)
    except FileNotFoundError:
        pass
    return found


def _backwards(job: Job) -> Iterator[bytes]:
    """The feed's whole lines, the last one first."""
    try:
        fd = os.open(_path(job), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        at = os.fstat(fd).st_size
        rest: bytes | None = None
        while at > 0:
            size = min(_CHUNK, at)
            at -= size
            data = os.pread(fd, size, at)
            if rest is None:
                # What has no end yet is not there yet.
                data, newline, _ = data.rpartition(b"\n")
                if not newline:
                    continue
                rest = b""
            rest, *lines = (data + rest).split(b"\n")
            yield from reversed(lines)
        if rest is not None:
            yield rest
    finally:
        os.close(fd)


def _decoded(line: bytes) -> feed.FeedEvent | None:
    try:
        return feed.decode(line)
    except ValueError:
        return None  # a line that was torn by a crash


def _path(job: Job) -> str:
    return os.path.join(job.directory, layout.FEED)
