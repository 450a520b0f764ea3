"""Cuts an agent's output into lines with bounded memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["LONGEST_LINE", "Lines", "TooLong"]

LONGEST_LINE: Final = 64 << 20
"""Bytes. Agents send whole histories and screenshots in one line (50 MB were met).

Above this a line is dropped.
"""

_HEAD = 200


@dataclass(frozen=True, slots=True)
class TooLong:
    """A line that was dropped: its length in bytes, and how it began."""

    length: int
    head: bytes


class Lines:
    """Feed it bytes as they come.

    It gives whole lines, without their newline. Empty lines are left out.
    """

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        # Pieces, not one growing string: a 50 MB line arrives in 800 reads, and joining each time
        # would be quadratic.
        self._pieces: list[bytes] = []
        self._length = 0
        self._head = b""

    def feed(self, data: bytes) -> list[bytes | TooLong]:
        """The lines that these bytes complete."""
        done: list[bytes | TooLong] = []
        *complete, rest = data.split(b"\n")
        for piece in complete:
            self._add(piece)
            self._take(done)
        if rest:
            self._add(rest)
        return done

    def finish(self) -> bytes:
        """What is left when the output has ended.

        The beginning of a line that never got its newline.
        """
        left = self._head if self._length > self._longest else b"".join(self._pieces)
        self._clear()
        return left

    def _add(self, piece: bytes) -> None:
        self._length += len(piece)
        if self._length <= self._longest:
            self._pieces.append(piece)
        elif self._pieces:
            self._head = b"".join(self._pieces)[:_HEAD]
            self._pieces.clear()
        elif not self._head:
            self._head = piece[:_HEAD]

    def _take(self, done: list[bytes | TooLong]) -> None:
        if self._length > self._longest:
            done.append(TooLong(self._length, self._head))
        else:
            line = b"".join(self._pieces).rstrip(b"\r")
            if line:
                done.append(line)
        self._clear()

    def _clear(self) -> None:
        self._pieces = []
        self._length = 0
        self._head = b""
