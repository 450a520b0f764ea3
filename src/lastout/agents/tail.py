"""The end of a stream of bytes, in bounded memory."""

from __future__ import annotations

from typing import Final

__all__ = ["KEPT", "Tail"]

KEPT: Final = 4000
"""Bytes of an agent's last output that are shown when it dies."""


class Tail:
    """Remembers the last `KEPT` bytes."""

    def __init__(self) -> None:
        self._data = b""

    def add(self, data: bytes) -> None:
        """Take what came."""
        self._data = (self._data + data[-KEPT:])[-KEPT:]

    def text(self) -> str:
        """What is remembered, as text without surrounding blanks."""
        return self._data.decode("utf-8", "replace").strip()
