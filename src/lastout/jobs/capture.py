"""A stream's beginning and end, on disk as it comes: bounded, and readable while it grows.

The stream lies in files of one megabyte, `stdout.0`, `stdout.1`, ...; the first and the last two
are kept. So what is there says by itself what was dropped, also when nobody lived to write it down.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Final

from lastout.durable import written
from lastout.jobs.result import Output

__all__ = ["SEGMENT", "Capture", "Reader", "kept", "output"]

SEGMENT: Final = 1 << 20


class Capture:
    """Writes one stream of one turn."""

    def __init__(self, directory: str, stream: str) -> None:
        self._base = os.path.join(directory, stream)
        self._number = 0
        self._size = 0
        self._fd: int | None = None
        self._lost = 0
        self.error: str | None = None
        self.end = b""
        """The last bytes that came, for a line of progress."""

    def write(self, data: bytes) -> None:
        """More of the stream. A full disk costs bytes, which are counted, never the command."""
        self.end = data[-512:] if len(data) >= 512 else (self.end + data)[-512:]
        view = memoryview(data)
        while view:
            part = view[: SEGMENT - self._size]
            try:
                if self._fd is None:
                    self._fd = os.open(
                        f"{self._base}.{self._number}",
                        os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC,
                        0o600,
                    )
                before = os.lseek(self._fd, 0, os.SEEK_CUR)
                try:
                    written(self._fd, bytes(part))
                except OSError:
                    # What did get there counts: the file's size is what readers go by.
                    self._size = os.lseek(self._fd, 0, os.SEEK_CUR)
                    part = part[self._size - before :]
                    view = view[self._size - before :]
                    raise
            except OSError as error:
                self.error = error.strerror or str(error)
                self._lost += len(view)
                return
            self._size += len(part)
            view = view[len(part) :]
            if self._size >= SEGMENT:
                self._next()

    def close(self) -> Output:
        """The end of the stream: what is kept of it."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        found = kept(os.path.dirname(self._base), os.path.basename(self._base))
        return Output(
            found.total + self._lost, found.head, found.tail, found.dropped + self._lost, self.error
        )

    def _next(self) -> None:
        assert self._fd is not None
        os.close(self._fd)
        self._fd = None
        if self._number >= 2:
            with contextlib.suppress(OSError):
                os.unlink(f"{self._base}.{self._number - 1}")
        self._number += 1
        self._size = 0


def kept(directory: str, stream: str) -> Output:
    """How much of a stream there was, by its files."""
    sizes = _sizes(directory, stream)
    if not sizes:
        return Output()
    last = max(sizes)
    total = last * SEGMENT + sizes[last]
    head = sizes.get(0, 0)
    tail = sum(size for number, size in sizes.items() if number > 0)
    return Output(total, head, tail, total - head - tail)


def output(directory: str, stream: str) -> tuple[bytes, int, bytes]:
    """The beginning, how many bytes are missing, and the end."""
    for _ in range(8):
        sizes = _sizes(directory, stream)
        parts: dict[int, bytes] = {}
        try:
            for number in sorted(sizes):
                with open(os.path.join(directory, f"{stream}.{number}"), "rb") as file:
                    parts[number] = file.read(SEGMENT)
        except FileNotFoundError:
            continue  # it was dropped meanwhile
        head = parts.pop(0, b"")
        tail = b"".join(parts.values())
        total = (max(sizes) * SEGMENT + len(parts.get(max(sizes), head))) if sizes else 0
        return head, total - len(head) - len(tail), tail
    return b"", kept(directory, stream).total, b""


def _sizes(directory: str, stream: str) -> dict[int, int]:
    found = {}
    with contextlib.suppress(FileNotFoundError), os.scandir(directory) as entries:
        for entry in entries:
            base, _, number = entry.name.rpartition(".")
            if base == stream and number.isdigit():
                with contextlib.suppress(FileNotFoundError):
                    found[int(number)] = entry.stat().st_size
    return found


class Reader:
    """A stream that grows, from its beginning; memory for one read."""

    def __init__(self, directory: str, stream: str) -> None:
        self._directory = directory
        self._stream = stream
        self._at = 0

    def more(self) -> Iterator[bytes | int]:
        """What has come since: bytes, or how many of them were dropped before they were read."""
        while True:
            number, offset = divmod(self._at, SEGMENT)
            try:
                with open(os.path.join(self._directory, f"{self._stream}.{number}"), "rb") as file:
                    file.seek(offset)
                    data = file.read(SEGMENT - offset)
            except FileNotFoundError:
                later = [one for one in _sizes(self._directory, self._stream) if one > number]
                if not later:
                    return
                missing = min(later) * SEGMENT - self._at
                self._at += missing
                yield missing
                continue
            if not data:
                return
            self._at += len(data)
            yield data
