"""Which process is meant: identities that survive a restart and never name a stranger.

A pid alone is a number that the kernel gives away again. An identity is boot id, pid namespace,
pid, start time and, where the kernel has one, the pidfs inode: unique for a boot, storable, and
enough to reopen the process later.
"""

from __future__ import annotations

import enum
import errno
import functools
import os
import select
import signal as signals
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lastout import pidfs
from lastout.proctable import read_stat

__all__ = [
    "Alive",
    "IdentityUnknown",
    "ProcessIdentity",
    "boot_id",
    "from_record",
    "is_dead",
    "open_pidfd",
    "pidns",
    "same",
    "signal",
    "signal_pidfd",
    "still_alive",
    "take",
    "wait_dead",
]


class Alive(enum.Enum):
    """The answer to "is this process still alive?". UNKNOWN is neither of the others."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class IdentityUnknown(Exception):
    """Nobody can say whether this process is the one that was meant: nothing may be done to it."""


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process, for ever. `start` is in clock ticks since boot; 0 and "" mean not known."""

    pid: int
    start: int
    inode: int = 0
    boot_id: str = ""
    pidns: int = 0

    def to_record(self) -> dict[str, int]:
        """The form in a record's lines, where boot id and namespace stand once, in `started`."""
        return {"pid": self.pid, "start": self.start, "inode": self.inode}

    def to_json(self) -> dict[str, Any]:
        """The whole identity, for places that have no `started` line beside it."""
        return {**self.to_record(), "boot_id": self.boot_id, "pidns": self.pidns}


def from_record(
    data: Mapping[str, Any] | None, boot: str = "", namespace: int = 0
) -> ProcessIdentity | None:
    """An identity out of a record's line or a lease; None for null. Raises ValueError for others.

    `boot` and `namespace` are what the `started` line of the same record says.
    """
    if data is None:
        return None
    try:
        return ProcessIdentity(
            pid=int(data["pid"]),
            start=int(data.get("start") or 0),
            inode=int(data.get("inode") or 0),
            boot_id=str(data.get("boot_id") or boot),
            pidns=int(data.get("pidns") or namespace),
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"not a process identity: {data!r}") from error


def boot_id() -> str:
    """This boot's id, or "" where the kernel does not tell it (random(4)), or not at this moment."""
    try:
        return _boot_id()
    except OSError:
        return ""


@functools.lru_cache(maxsize=1)
def _boot_id() -> str:
    """It, or "" for good. Raises OSError, which is not remembered, when the means are lacking."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError as error:
        if error.errno in pidfs.PASSING:
            raise
        return ""


@functools.lru_cache(maxsize=1)
def pidns() -> int:
    """The inode of our own pid namespace, or 0. A process never leaves its (pid_namespaces(7))."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def take(pid: int) -> ProcessIdentity:
    """The identity of the process that has this pid now (a zombie has one too).

    Raises ProcessLookupError when there is none, another OSError when its start time or the boot id
    cannot be read: such a process must not be left running by whoever started it.
    """
    fd = _pidfd_open(pid)
    try:
        start = read_stat(pid).start
        # The pidfd was there first: while it still answers, nobody else can have had the number.
        if not _exists(fd):
            raise ProcessLookupError(errno.ESRCH, "no such process", str(pid))
        return ProcessIdentity(pid, start, pidfs.inode(fd), _boot_id(), pidns())
    finally:
        os.close(fd)


def same(one: ProcessIdentity, other: ProcessIdentity) -> bool | None:
    """Whether two identities are one process; None when a part that would decide is unknown."""
    for left, right in ((one.boot_id, other.boot_id), (one.pidns, other.pidns)):
        if not left or not right:
            return None
        if left != right:
            return False
    if one.pid != other.pid:
        return False
    if one.inode and other.inode:
        return one.inode == other.inode
    if one.start and other.start:
        return one.start == other.start
    return None


def open_pidfd(identity: ProcessIdentity) -> int:
    """A pidfd that is proven to be this process; the caller closes it.

    Raises ProcessLookupError when the process is gone and reaped, IdentityUnknown when nobody can
    say whether it is.
    """
    gone = ProcessLookupError(errno.ESRCH, "no such process", str(identity.pid))
    if not identity.boot_id or not boot_id():
        raise IdentityUnknown(f"pid {identity.pid}: the boot id is not known")
    if identity.boot_id != boot_id():
        raise gone
    if not identity.pidns or identity.pidns != pidns():
        raise IdentityUnknown(f"pid {identity.pid} is of another or an unknown pid namespace")
    by_handle = bool(identity.inode) and pidfs.has_handles()
    fd = pidfs.open_by_handle(identity.inode) if by_handle else _pidfd_open(identity.pid)
    if fd is None:
        raise gone
    try:
        found = _has_pid(fd, identity.pid) if by_handle else _is_this(fd, identity)
        if found is None:
            raise IdentityUnknown(f"pid {identity.pid}: what is stored of it cannot be compared")
        if not found:
            raise gone
    except BaseException:
        os.close(fd)
        raise
    return fd


def still_alive(identity: ProcessIdentity) -> Alive:
    """Whether this very process is alive; a zombie is not. What the system answers never raises."""
    try:
        with _opened(identity) as fd:
            return Alive.NO if is_dead(fd, identity.pid) else Alive.YES
    except ProcessLookupError:
        return Alive.NO
    except (IdentityUnknown, OSError):
        return Alive.UNKNOWN


def is_dead(fd: int, pid: int) -> bool:
    """Dead: the pidfd is readable, or every thread is a zombie or gone.

    State Z of the leader alone is not death (another thread may run), and a dead process whose
    thread is held by a tracer never makes its pidfd readable.
    """
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    if poll.poll(0):
        return True
    try:
        if read_stat(pid).state not in "ZX":
            return False
        tasks = os.listdir(f"/proc/{pid}/task")
        states = [read_stat(f"{pid}/task/{task}").state for task in tasks]
    except (ProcessLookupError, FileNotFoundError):
        return bool(poll.poll(0))
    except OSError:
        return False
    # Asked after the reading: if the pidfd still answers, what was read was this process.
    return all(state in "ZX" for state in states) and (_exists(fd) or bool(poll.poll(0)))


def signal(identity: ProcessIdentity, number: int) -> None:
    """Send a signal to this very process.

    Raises ProcessLookupError when it is gone, PermissionError when the kernel refuses,
    IdentityUnknown when nobody can say whether it is the process that was meant.
    """
    if identity.pid <= 1:
        raise IdentityUnknown(f"pid {identity.pid} is never signalled")
    with _opened(identity) as fd:
        signal_pidfd(fd, number)


def signal_pidfd(fd: int, number: int) -> None:
    """pidfd_send_signal(2) on a pidfd that `open_pidfd` has checked."""
    signals.pidfd_send_signal(fd, number)


def wait_dead(identity: ProcessIdentity, seconds: float | None) -> Alive:
    """Wait on the pidfd until the process is dead or the time is over; say what was found then."""
    try:
        with _opened(identity) as fd:
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            if poll.poll(None if seconds is None else max(0, int(seconds * 1000))):
                return Alive.NO
            return Alive.NO if is_dead(fd, identity.pid) else Alive.YES
    except ProcessLookupError:
        return Alive.NO
    except (IdentityUnknown, OSError):
        return Alive.UNKNOWN


@contextmanager
def _opened(identity: ProcessIdentity) -> Iterator[int]:
    fd = open_pidfd(identity)
    try:
        yield fd
    finally:
        os.close(fd)


def _pidfd_open(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        # EINVAL, and ENOENT since 6.9: the number is a thread's or nobody's, so no process has it.
        if error.errno in (errno.EINVAL, errno.ENOENT):
            raise ProcessLookupError(errno.ESRCH, "no such process", str(pid)) from None
        raise


def _exists(fd: int) -> bool:
    """Whether the process of a pidfd is not reaped yet; EPERM is an answer too."""
    try:
        signals.pidfd_send_signal(fd, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _has_pid(fd: int, pid: int) -> bool | None:
    """Whether a reopened process has the pid that was stored beside its inode.

    It cannot be otherwise unless the record was damaged: then nobody knows who was meant.
    """
    with open(f"/proc/self/fdinfo/{fd}", "rb") as file:
        for line in file:
            if line.startswith(b"Pid:"):
                found = int(line[4:])
                return found == -1 or (True if found == pid else None)
    return None


def _is_this(fd: int, identity: ProcessIdentity) -> bool | None:
    inode = pidfs.inode(fd)
    if inode and identity.inode:
        return inode == identity.inode
    if not identity.start:
        return None
    try:
        start = read_stat(identity.pid).start
    except ProcessLookupError:
        return False
    except OSError:
        return None
    if not _exists(fd):
        return False
    return start == identity.start if start else None
