"""The kernel's formats: pages of the ring buffer, event formats, messages of the connector."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastout.evidence.trace.connector import EXIT, FORK, Ended, Forked, parse
from lastout.evidence.trace.formats import parse_format
from lastout.evidence.trace.ringbuffer import parse_page

SIGNAL_GENERATE = """\
name: signal_generate
ID: 261
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:int sig;\toffset:8;\tsize:4;\tsigned:1;
\tfield:int errno;\toffset:12;\tsize:4;\tsigned:1;
\tfield:int code;\toffset:16;\tsize:4;\tsigned:1;
\tfield:char comm[16];\toffset:20;\tsize:16;\tsigned:0;
\tfield:pid_t pid;\toffset:36;\tsize:4;\tsigned:1;
\tfield:int group;\toffset:40;\tsize:4;\tsigned:1;
\tfield:int result;\toffset:44;\tsize:4;\tsigned:1;

print fmt: "sig=%d", REC->sig
"""
FORK_FORMAT = """\
name: sched_process_fork
ID: 366
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:__data_loc char[] parent_comm;\toffset:8;\tsize:4;\tsigned:0;
\tfield:pid_t parent_pid;\toffset:12;\tsize:4;\tsigned:1;
"""


def page(events: bytes, at: int = 1000, flags: int = 0, extra: bytes = b"") -> bytes:
    data = struct.pack("=QQ", at, len(events) | flags) + events + extra
    return data.ljust(4096, b"\0")


def event(delta: int, data: bytes) -> bytes:
    return struct.pack("=I", delta << 5 | len(data) // 4) + data


def test_small_events_and_their_times() -> None:
    found = list(parse_page(page(event(5, b"aaaa") + event(7, b"bbbbcccc"))))
    assert [(one.at_ns, one.data) for one in found] == [(1005, b"aaaa"), (1012, b"bbbbcccc")]


def test_a_large_event_has_its_length_apart() -> None:
    body = b"x" * 200
    data = struct.pack("=II", 3 << 5, len(body) + 4) + body
    assert [one.data for one in parse_page(page(data))] == [body]


def test_a_long_pause_is_added_and_a_stamp_replaces() -> None:
    extend = struct.pack("=II", (9 << 5) | 30, 2)
    (found,) = parse_page(page(extend + event(1, b"aaaa")))
    assert found.at_ns == 1000 + (2 << 27) + 9 + 1
    stamp = struct.pack("=II", (9 << 5) | 31, 2)
    (found,) = parse_page(page(stamp + event(1, b"aaaa")))
    assert found.at_ns == (2 << 27) + 9 + 1


def test_padding_ends_a_page_or_is_passed_over() -> None:
    passed = struct.pack("=II", (4 << 5) | 29, 8) + b"\0" * 4
    found = list(parse_page(page(passed + event(1, b"aaaa"))))
    assert [(one.at_ns, one.data) for one in found] == [(1005, b"aaaa")]
    assert not list(parse_page(page(struct.pack("=II", 29, 4) + event(1, b"aaaa"))))


def test_missed_events_are_counted() -> None:
    events = event(1, b"aaaa") + event(1, b"bbbb")
    stored = page(events, flags=(1 << 31) | (1 << 30), extra=struct.pack("=Q", 17))
    assert [one.lost for one in parse_page(stored)] == [17, 0]
    assert [one.lost for one in parse_page(page(events, flags=1 << 31))] == [1, 0]


@given(st.binary(max_size=300))
def test_no_page_breaks_the_reader(data: bytes) -> None:
    for one in parse_page(data):
        assert len(one.data) <= len(data)


def test_fields_are_found_by_the_kernels_own_description() -> None:
    form = parse_format(SIGNAL_GENERATE, "signal_generate")
    data = struct.pack("=HBBiiii16siii", 261, 0, 0, 911, 9, 0, -6, b"agent\0junk", 300, 1, 0)
    fields = form.read(data)
    assert (form.id, fields["common_pid"], fields["sig"], fields["code"]) == (261, 911, 9, -6)
    assert (fields["comm"], fields["pid"], fields["result"]) == ("agent", 300, 0)


def test_text_that_stands_elsewhere() -> None:
    form = parse_format(FORK_FORMAT, "sched_process_fork")
    data = struct.pack("=HxxiIi", 366, 1, 5 << 16 | 16, 42) + b"bash\0"
    assert form.read(data)["parent_comm"] == "bash"
    assert form.read(data)["parent_pid"] == 42


def test_what_is_no_format() -> None:
    with pytest.raises(ValueError, match="no ID"):
        parse_format("nothing", "x")


def message(what: int, data: bytes) -> bytes:
    body = struct.pack("=IIQ", what, 0, 1000) + data
    connector = struct.pack("=IIIIHH", 1, 1, 0, 0, len(body), 0) + body
    return struct.pack("=IHHII", 16 + len(connector), 3, 0, 0, 0) + connector


def test_the_connector_tells_forks_and_ends() -> None:
    fork = message(FORK, struct.pack("=IIII", 10, 10, 11, 11))
    end = message(EXIT, struct.pack("=IIIIII", 11, 11, 0x8900, 17, 10, 10))
    pad = b"\0" * (-len(fork) % 4)
    assert list(parse(fork + pad + end, offset_ns=5)) == [
        Forked(1005, 10, 10, 11, 11),
        Ended(1005, 11, 11, 0x8900, 10),
    ]


@given(st.binary(max_size=200))
def test_no_message_breaks_the_connector(data: bytes) -> None:
    list(parse(data))
