"""Waiting for records to appear and to grow: inotify on Linux, a look now and then elsewhere."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import struct
import sys
import time
from types import TracebackType
from typing import Self

__all__ = ["Watch"]

_MODIFY, _MOVED_TO, _CREATE, _ONLYDIR = 0x2, 0x80, 0x100, 0x01000000
_GONE, _OVERFLOW, _IGNORED = 0x40 | 0x200, 0x4000, 0x8000  # moved away or deleted
_EVENT = struct.Struct("=iIII")
_LOOK_EVERY_S = 0.5
_MONOTONIC = 1


class _Times(ctypes.Structure):
    """struct itimerspec: the interval and the first expiry, each in seconds and nanoseconds."""

    _fields_ = (("every", ctypes.c_long * 2), ("first", ctypes.c_long * 2))


class Watch:
    """Wakes up when something changes in one of its directories. `descriptor` is for select.

    The kernel may merge or drop news (inotify(7)): a wake-up says "look again", never what.
    """

    def __init__(self, *, deletions: bool = False) -> None:
        """With `deletions` it is news too that something was removed or moved away."""
        self.descriptor = -1
        self._mask = _MODIFY | _MOVED_TO | _CREATE | _ONLYDIR | (_GONE if deletions else 0)
        self._watched: dict[str, int] = {}
        self._libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
        if self._libc is not None and hasattr(self._libc, "inotify_init1"):
            self.descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._ticks = False
        if self._libc is not None and self.descriptor < 0:
            # The user's instances are used up (128, mostly): a clock says when to look.
            self.descriptor = _clock(self._libc)
            self._ticks = self.descriptor >= 0

    def add(self, directory: str) -> bool:
        """Watch a directory too; whether it is a new one. Raises OSError where it cannot be."""
        if directory in self._watched:
            return False
        number = -1
        if self.descriptor >= 0 and self._libc is not None and not self._ticks:
            path = os.fsencode(directory)
            number = self._libc.inotify_add_watch(self.descriptor, path, self._mask)
            if number < 0:
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code), directory)
        self._watched[directory] = number
        return True

    def remove(self, directory: str) -> None:
        """Watch this directory no more."""
        number = self._watched.pop(directory, -1)
        if number >= 0 and self._libc is not None:
            self._libc.inotify_rm_watch(self.descriptor, number)  # fails where it is gone already

    def add_runs(self, state: str) -> bool:
        """Watch a state directory's runs and every day of them; whether one is new."""
        runs = os.path.join(state, "runs")
        os.makedirs(runs, mode=0o700, exist_ok=True)
        new = self.add(runs)
        with os.scandir(runs) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                        new |= self.add(entry.path)
        return new

    def wait(self, seconds: float | None) -> bool:
        """Wait for news, at most so long; whether there may be some."""
        if self.descriptor < 0:
            time.sleep(_LOOK_EVERY_S if seconds is None else min(seconds, _LOOK_EVERY_S))
            return True
        ready, _, _ = select.select([self.descriptor], [], [], seconds)
        if ready:
            self.changed()
        return bool(ready)

    def changed(self) -> set[str] | None:
        """The paths that the news are about; None: more than could be told, look at everything."""
        if self.descriptor < 0 or self._ticks:
            if self._ticks:
                with contextlib.suppress(OSError):
                    os.read(self.descriptor, 8)
            return None
        paths: set[str] = set()
        everything = False
        places = {number: directory for directory, number in self._watched.items()}
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self.descriptor, 1 << 16):
                offset = 0
                while offset + _EVENT.size <= len(data):
                    number, mask, _, length = _EVENT.unpack_from(data, offset)
                    offset += _EVENT.size
                    name = data[offset : offset + length].split(b"\0", 1)[0]
                    offset += length
                    everything |= bool(mask & _OVERFLOW)
                    if mask & _IGNORED:
                        self._forget(number)
                    if number in places and name:
                        paths.add(os.path.join(places[number], os.fsdecode(name)))
        return None if everything else paths

    def _forget(self, number: int) -> None:
        """The directory has gone, and the kernel's watch with it: one that is made anew is another."""
        gone = [directory for directory, watch in self._watched.items() if watch == number]
        for directory in gone:
            del self._watched[directory]

    def close(self) -> None:
        """Watch nothing any more."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _clock(libc: ctypes.CDLL) -> int:
    """A descriptor that is readable every now and then (timerfd_create(2)), or -1."""
    fd: int = libc.timerfd_create(_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
    if fd >= 0:
        every = (0, int(_LOOK_EVERY_S * 1e9))
        libc.timerfd_settime(fd, 0, ctypes.byref(_Times(every, every)), None)
    return fd
