"""Pages of a file of lines that grows: only where the lines begin is kept, eight bytes each."""

from __future__ import annotations

import os
import threading
from array import array
from collections import OrderedDict
from typing import Final

__all__ = ["Lines", "Shelf"]

_CHUNK: Final = 1 << 20
_LONGEST: Final = 1 << 20
_FILES: Final = 16


class Lines:
    """One file. May be asked by any thread."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._ends = array("Q")
        self._read = 0
        self._inode = 0

    def page(self, first: int, count: int) -> tuple[list[bytes], int]:
        """Lines from number `first` (from 0) on, each without its newline and cut at a megabyte,
        and how many there are. A line without its end is not there yet. Raises OSError."""
        with self._lock, open(self._path, "rb", buffering=0) as file:
            found = os.fstat(file.fileno())
            if found.st_ino != self._inode or found.st_size < self._read:
                self._ends, self._read, self._inode = array("Q"), 0, found.st_ino
            file.seek(self._read)
            while data := file.read(_CHUNK):
                self._scan(data)
            total = len(self._ends)
            lines = []
            for number in range(max(0, first), min(total, first + count)):
                begin = self._ends[number - 1] if number else 0
                file.seek(begin)
                wanted = min(self._ends[number] - 1 - begin, _LONGEST)
                lines.append(file.read(wanted) if wanted else b"")
            return lines, total

    def _scan(self, data: bytes) -> None:
        at = data.find(b"\n")
        while at >= 0:
            self._ends.append(self._read + at + 1)
            at = data.find(b"\n", at + 1)
        self._read += len(data)


class Shelf:
    """The files that were asked for last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Lines] = OrderedDict()

    def get(self, path: str) -> Lines:
        """The lines of a file."""
        with self._lock:
            found = self._kept.setdefault(path, Lines(path))
            self._kept.move_to_end(path)
            while len(self._kept) > _FILES:
                self._kept.popitem(last=False)
            return found
