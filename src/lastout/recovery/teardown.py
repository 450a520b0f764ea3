"""One active teardown per run: whoever comes later waits for the one that is under way.

The lock is an open-file-description lock on one byte far behind the record's end
(fcntl_locking(2)): it excludes threads as well as processes, ends with its holder, and does not
meet the flock that appending to the record takes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import time
from collections.abc import Iterator

__all__ = ["alone"]

_BYTE = 1 << 62
_AGAIN_EVERY = 0.01  # such a lock has no wait with a bound


@contextlib.contextmanager
def alone(record: str | None, seconds: float) -> Iterator[bool]:
    """Hold the run's teardown. False: another one is still under way after `seconds`.

    A run without a record, or whose record cannot be opened for writing, has no such lock.
    """
    fd = _open(record)
    if fd is None:
        yield True
        return
    try:
        yield _take(fd, seconds)
    finally:
        os.close(fd)


def _open(record: str | None) -> int | None:
    if record is None:
        return None
    try:
        return os.open(record, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None


def _take(fd: int, seconds: float) -> bool:
    lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, _BYTE, 1, 0)
    due = time.monotonic() + seconds
    while True:
        try:
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, lock)
            return True
        except (BlockingIOError, PermissionError):
            if time.monotonic() >= due:
                return False
        except OSError:
            return True  # no such locks on this file system: better two teardowns than none
        time.sleep(_AGAIN_EVERY)
