"""An agent's output in lines: whole, whatever the pieces in which it comes, in bounded memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lastout.agents.lines import Lines, TooLong
from lastout.agents.tail import KEPT, Tail


@given(st.lists(st.binary(max_size=40)), st.integers(1, 9))
def test_lines_come_out_whole_however_they_are_cut(lines, size):
    lines = [line.replace(b"\n", b" ").replace(b"\r", b" ") for line in lines]
    data = b"".join(line + b"\n" for line in lines)
    cutter = Lines()
    found = []
    for start in range(0, len(data), size):
        found += cutter.feed(data[start : start + size])
    assert found == [line for line in lines if line]
    assert cutter.finish() == b""


@given(st.integers(1, 50), st.integers(1, 7))
def test_a_line_above_the_limit_is_reported_by_its_length_and_the_next_is_whole(extra, size):
    data = b"x" * (20 + extra) + b"\nnext\n"
    cutter = Lines(longest=20)
    found = []
    for start in range(0, len(data), size):
        found += cutter.feed(data[start : start + size])
        assert sum(map(len, cutter._pieces)) <= 20, "what is dropped is not kept"
    dropped, following = found
    assert isinstance(dropped, TooLong)
    assert dropped.length == 20 + extra
    assert following == b"next"


def test_carriage_returns_and_empty_lines_are_left_out():
    assert Lines().feed(b"a\r\n\n\r\nb\n") == [b"a", b"b"]


def test_what_has_no_end_is_given_at_the_end():
    cutter = Lines()
    assert cutter.feed(b"a\nhalf") == [b"a"]
    assert cutter.finish() == b"half"


def test_fifty_megabytes_in_small_pieces_take_linear_time():
    cutter = Lines()
    piece = b"x" * (1 << 16)
    for _ in range(800):
        assert cutter.feed(piece) == []
    (line,) = cutter.feed(b"\n")
    assert len(line) == 800 << 16


def test_a_tail_keeps_the_end():
    tail = Tail()
    for number in range(5000):
        tail.add(f"{number} ".encode())
    assert tail.text().endswith("4998 4999")
    assert len(tail.text()) <= KEPT
