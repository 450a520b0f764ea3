"""The kernel's half of a lease: one lock file per key and epoch, `locks/<digest>/<epoch>`.

The front locks its file and *then* refuses when a greater epoch's file is there; whoever grants an
epoch makes its file and *then* tests the older locks. So either the late front sees the newer file,
or the granter sees the lock held. A file that exists means nothing; only the lock does.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from lastout.leases.filesystem import refuse_foreign

__all__ = [
    "LockState",
    "contents",
    "create",
    "directory",
    "empty",
    "epochs",
    "lock_path",
    "probe",
    "tidy",
]


class LockState(enum.Enum):
    """Whether somebody holds a lock."""

    HELD = "held"
    FREE = "free"
    UNKNOWN = "unknown"


def directory(state: str | os.PathLike[str], key: str) -> str:
    """Where the lock files of a key are."""
    digest = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return os.path.join(os.fspath(state), "locks", digest)


def lock_path(state: str | os.PathLike[str], key: str, epoch: int) -> str:
    """The lock file of one epoch."""
    return os.path.join(directory(state, key), str(epoch))


def epochs(folder: str) -> list[int]:
    """The epochs that have a file, in rising order."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return sorted(int(name) for name in names if name.isascii() and name.isdigit())


def create(folder: str, epoch: int, content: Mapping[str, Any]) -> str:
    """Make the file of an epoch; from here on no front of an older epoch can start.

    What is written into it (run, record, key) is for whoever finds the lock held and has lost the
    store. Raises StoreUnusable on a file system whose locks do not hold, OSError otherwise.
    """
    os.makedirs(folder, mode=0o700, exist_ok=True)
    refuse_foreign(folder)
    path = os.path.join(folder, str(epoch))
    # Not exclusive: a fence that a recovery left there is the same file.
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        if content:
            os.pwrite(fd, json.dumps(content, separators=(",", ":")).encode("ascii") + b"\n", 0)
    finally:
        os.close(fd)
    return path


def empty(folder: str, epoch: int) -> None:
    """Take back what was written into an own file whose epoch was not used: a fence is left."""
    with contextlib.suppress(OSError):
        os.truncate(os.path.join(folder, str(epoch)), 0)


def contents(folder: str, epoch: int) -> dict[str, Any]:
    """What the granter wrote into a lock file; empty when it wrote nothing that can be read."""
    try:
        with open(os.path.join(folder, str(epoch)), "rb") as file:
            line = file.readline(1 << 16)
        found = json.loads(line)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def probe(folder: str, epoch: int) -> LockState:
    """Whether front or keeper of an epoch still hold its lock.

    Only for epochs that have a newer file: this takes the lock for an instant, and a front that
    comes in that instant must be one that is refused anyway.
    """
    try:
        fd = os.open(os.path.join(folder, str(epoch)), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return LockState.FREE
    except OSError:
        return LockState.UNKNOWN
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        busy = error.errno in (errno.EWOULDBLOCK, errno.EACCES)
        return LockState.HELD if busy else LockState.UNKNOWN
    finally:
        os.close(fd)
    return LockState.FREE


def tidy(folder: str, settled: Iterable[int], newest: int) -> None:
    """Remove the files of settled epochs, each under its own lock, while a newer one is there.

    A front that opened the file before and locks it afterwards still sees the newer one.
    """
    for epoch in settled:
        if epoch >= newest:
            continue
        path = os.path.join(folder, str(epoch))
        with contextlib.suppress(OSError):
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
            finally:
                os.close(fd)
