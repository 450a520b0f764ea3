"""The stream of one page: everything once, then what changes, as server-sent events.

The id of an event is the board's instance and version, so a page that comes back tells where it
stopped: it gets what it missed, or everything where that is not known any more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Final

import msgspec

from lastout.web.board import Board
from lastout.web.http1 import Send, Stream
from lastout.web.looking import Looking, encode

__all__ = ["Streams"]

_TOGETHER_S: Final = 0.02
"""After something was sent, so long is waited for more: a burst is one event."""
_PULSE_S: Final = 10.0
"""A page that hears nothing for much longer knows that its connection is dead."""
_MOST: Final = 64


class Streams:
    """The streams of all pages."""

    def __init__(self, board: Board, looking: Looking, hello: Mapping[str, object]) -> None:
        """`hello` is told first to everybody."""
        self._board = board
        self._looking = looking
        self._hello = msgspec.json.encode(hello)
        self._open = 0

    @property
    def full(self) -> bool:
        """Whether no more pages can be told."""
        return self._open >= _MOST

    def stream(self, last: str, run: str | None) -> Stream:
        """A stream that goes on after the event `last`, and tells of one run's processes."""

        async def serve(send: Send) -> None:
            self._open += 1
            watched = self._looking.open(run) if run else None
            try:
                await send(_event("hello", self._hello))
                await self._tell(send, self._after(last), run)
            finally:
                self._open -= 1
                if watched is not None and run is not None:
                    self._looking.leave(run)

        return Stream(serve)

    def _after(self, last: str) -> int | None:
        instance, _, version = last.partition(":")
        if instance != self._board.instance or not version.isascii() or not version.isdigit():
            return None
        return int(version)

    async def _tell(self, send: Send, after: int | None, run: str | None) -> None:
        board, seen = self._board, -1
        while True:
            watched = self._looking.watched(run) if run else None
            data = b""
            if after is None or after != board.version:
                rows, whole = board.since(after)
                after = board.version
                data += _event(
                    "all" if whole else "some", rows, f"{board.instance}:{after}".encode()
                )
            if watched is not None and watched.version != seen:
                seen = watched.version
                data += _event("watched", encode(run or "", watched))
            if data:
                await send(data)
                await asyncio.sleep(_TOGETHER_S)
                continue
            try:
                async with asyncio.timeout(_PULSE_S):
                    await board.changed.next()
            except TimeoutError:
                await send(_event("pulse", f'{{"now":{time.time() * 1000:.1f}}}'.encode()))


def _event(name: str, data: bytes, number: bytes | None = None) -> bytes:
    told = b"" if number is None else b"id: " + number + b"\n"
    return told + b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"
