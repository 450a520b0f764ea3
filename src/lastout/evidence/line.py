"""What every line of a record has, whoever writes it."""

from __future__ import annotations

import re

import msgspec

__all__ = ["SUPERVISOR", "Event", "Identity", "NotALine", "several_runs"]

SUPERVISOR = ("front", "keeper", "guard")
"""Who writes for the supervisor; the rest of a record is by others."""


class NotALine(ValueError):
    """This is no line of a record: not JSON, torn, or without the fields that every line has."""


class Identity(msgspec.Struct, frozen=True):
    """A process as a line names it; boot id and pid namespace stand in `started`."""

    pid: int
    start: int = 0
    inode: int = 0


class Event(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="event", rename={"source": "from"}
):
    """What every line has. `source` is `from` in JSON (SUPERVISOR, `owner` or `tracer`)."""

    v: int = 1
    run: str
    source: str
    seq: int
    boottime_ns: int
    time: str


def several_runs(*parts: bytes) -> bool:
    """Whether these bytes of a record may be of more than one run, without decoding them."""
    return len({run for part in parts for run in re.findall(rb'"run":"([^"]*)"', part)}) > 1
