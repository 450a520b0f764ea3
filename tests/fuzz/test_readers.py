"""The Python readers of a record, fed with what nobody would write: they report, and never raise."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastout.evidence import journal
from lastout.evidence.events import Event, NotALine, decode, encode
from lastout.evidence.journal import Follower, Problem

KINDS = [
    "started", "refused", "failed", "stop", "stop-again", "signalled", "root-exited", "opportunity",
    "observed", "leftovers", "reaped", "takeover", "tree-gone", "tree-unproven", "dropped", "list",
    "error", "prepared", "closed", "command", "turn", "forced", "note", "trace-began",
    "traced-signal", "trace-ended", "unknown", "of a later version",
]  # fmt: skip
FIELDS = [
    "argv", "front", "keeper", "root", "owner", "members", "remaining", "status", "code", "signal",
    "verdict", "detail", "sender", "stopped", "proof", "pidns", "cgroup_id", "max_stop_ms", "count",
    "late", "trigger", "pid", "exit_code", "text", "evidence", "event", "fields", "kind",
]  # fmt: skip

scalars = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=20)
    | st.floats(allow_nan=False, allow_infinity=False)
)  # fmt: skip
values = st.recursive(
    scalars | st.fixed_dictionaries({"pid": st.integers(-5, 2**40), "start": scalars}),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
lines = st.builds(
    lambda kind, base, more: json.dumps({**more, **base, "event": kind}).encode(),
    st.sampled_from(KINDS),
    st.fixed_dictionaries(
        {
            "v": st.sampled_from([1, 2]),
            "run": st.text(max_size=8),
            "from": st.sampled_from(["front", "keeper", "guard", "owner", "tracer", "x"]),
            "seq": st.integers(-1, 2**40),
            "boottime_ns": st.integers(-1, 2**62),
            "time": st.text(max_size=8),
        }
    ),
    st.dictionaries(st.sampled_from(FIELDS), values, max_size=4),
)


@given(lines)
@settings(deadline=None)
def test_a_line_with_any_fields_is_an_event_and_stays_itself(line: bytes) -> None:
    event = decode(line)
    assert isinstance(event, Event)
    again = decode(encode(event).removesuffix(b"\n"))
    assert (type(again), again.seq, again.run) == (type(event), event.seq, event.run)


@given(st.binary(max_size=200) | lines.flatmap(lambda one: st.binary(max_size=9).map(one.__add__)))
@settings(deadline=None)
def test_bytes_are_an_event_or_no_line(data: bytes) -> None:
    try:
        assert isinstance(decode(data), Event)
    except NotALine:
        pass


@given(st.lists(st.binary(max_size=40) | lines, max_size=12), st.booleans(), st.integers(1, 64))
@settings(deadline=None)
def test_what_is_read_is_all_that_was_there(parts: list[bytes], ended: bool, piece: int) -> None:
    data = b"\n".join(parts) + (b"\n" if ended else b"")
    whole = journal.parse(data)
    for problem in whole.problems:
        found = data[problem.offset :][: len(problem.data)]
        assert found == problem.data

    follower = Follower()
    found_in_pieces: list[Any] = []
    for at in range(0, len(data), piece):
        found_in_pieces += follower.feed(data[at : at + piece])
    found_in_pieces += follower.finish()
    events = [e for e in found_in_pieces if not isinstance(e, Problem)]
    written = sum(1 for line in data.split(b"\n") if line)
    assert len(found_in_pieces) + follower.duplicates == written
    assert [e for e in found_in_pieces if isinstance(e, Problem)] == whole.problems
    assert follower.duplicates == whole.duplicates
    # Of several runs in one file each has its own lines, and the one that began last is meant.
    for run in {e.run for e in events}:
        assert journal.parse(data, run).events == [e for e in events if e.run == run]
    meant = [e for e in events if e.run == follower.last] if whole.others else events
    assert whole.events == meant


@pytest.mark.parametrize("depth", [100, 700, 900, 1_100, 5_000, 200_000])
def test_deep_nesting_is_no_line_or_kept(depth: int) -> None:
    line = b'{"v":1,"event":"note","run":"r","from":"owner","seq":1,"boottime_ns":1,"time":"","x":'
    contents = journal.parse(line + b"[" * depth + b"]" * depth + b"}\n")
    assert len(contents.events) + len(contents.problems) == 1
