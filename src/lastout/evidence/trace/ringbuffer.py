"""Pages of the kernel's ring buffer, as `trace_pipe_raw` gives them.

Read in binary because the text form has the names of processes in it, and those may hold anything:
a process could write lines into its own name. The format is in `events/header_page` and
`events/header_event`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Record", "parse_page"]

_PADDING, _EXTEND, _STAMP = 29, 30, 31
_MISSED, _MISSED_STORED = 1 << 31, 1 << 30
_LENGTH = (1 << 27) - 1
_WORD = struct.Struct("=I")
_HEADER = struct.Struct("=QQ")
_STAMP_TOP = 0xF8 << 56


@dataclass(frozen=True, slots=True)
class Record:
    """One event's bytes; `at_ns` in the instance's clock. `lost` events were missed before it."""

    at_ns: int
    data: bytes
    lost: int = 0


def parse_page(page: bytes) -> Iterator[Record]:
    """The records of one page. A page that is cut off gives those that are whole."""
    if len(page) < _HEADER.size:
        return
    at, commit = _HEADER.unpack_from(page)
    end = min(_HEADER.size + (commit & _LENGTH), len(page))
    lost = 0
    if commit & _MISSED:
        lost = 1
        if commit & _MISSED_STORED and end + 8 <= len(page):
            (lost,) = struct.unpack_from("=Q", page, end)
    offset = _HEADER.size
    while offset + 4 <= end:
        (head,) = _WORD.unpack_from(page, offset)
        kind, delta = head & 31, head >> 5
        offset += 4
        if kind == _PADDING:
            if delta == 0 or offset + 4 > end:
                return  # the rest of the page is empty
            offset += _WORD.unpack_from(page, offset)[0]
            at += delta
            continue
        if kind in (_EXTEND, _STAMP):
            if offset + 4 > end:
                return
            more = (_WORD.unpack_from(page, offset)[0] << 27) + delta
            # A stamp has 59 bits; the top ones are those of the page.
            at = at + more if kind == _EXTEND else (at & _STAMP_TOP) | more
            offset += 4
            continue
        at += delta
        if kind == 0:
            if offset + 4 > end:
                return
            length = _WORD.unpack_from(page, offset)[0] - 4
            offset += 4
        else:
            length = kind * 4
        if length < 0 or offset + length > end:
            return
        yield Record(at, page[offset : offset + length], lost)
        lost = 0
        offset += length
