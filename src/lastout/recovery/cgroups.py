"""What `--contain cgroup` left behind: cgroups whose run lost front, keeper and guard.

Found through our records alone, never by a name: a directory is a run's own only while its inode is
the one that the `started` line has. Source: cgroups(7), "Cgroup v2: cgroup.kill, cgroup.events".
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from lastout.evidence import journal
from lastout.evidence.events import Note, Started, TreeGone
from lastout.evidence.line import SUPERVISOR
from lastout.graces import FORCED_STEP
from lastout.identity import Alive, ProcessIdentity, boot_id, still_alive

__all__ = ["Left", "Swept", "find", "sweep"]

_HEAD: Final = 16 << 10  # `started` is among the first lines; its argv is bounded to 8 KiB
_LOOK_AGAIN: Final = 0.1
"""How often an empty cgroup is tried again that the kernel still calls busy, in seconds."""


@dataclass(frozen=True, slots=True)
class Left:
    """A run's cgroup that nobody looks after any more."""

    run: str
    record: str
    path: str
    inode: int


@dataclass(frozen=True, slots=True)
class Swept:
    """What became of it. `why` says in words what stood in the way; None when it was removed."""

    left: Left
    killed: int
    """How many were alive in it when it was killed; 0 when it was empty and only removed."""
    ms: int
    why: str | None = None

    @property
    def removed(self) -> bool:
        """Whether the kernel let the directory go: then nothing lives in it."""
        return self.why is None

    @property
    def sentence(self) -> str:
        """For people, and for the record."""
        name = f"the run's cgroup {self.left.path}"
        if self.why is not None:
            return f"{name} could not be removed: {self.why}"
        if self.killed:
            return f"{name} was killed with {self.killed} in it, and removed"
        return f"{name} was empty, and removed"


def find(records: Iterable[str]) -> Iterator[Left]:
    """The cgroups that are there though front and keeper of their run are proven gone, and no
    `tree-gone` was written. Records that cannot be read are passed over."""
    for path in records:
        with contextlib.suppress(OSError):
            if (left := _left(path)) is not None:
                yield left


def sweep(left: Left, *, bound: float = FORCED_STEP) -> Swept:
    """End whatever lives in it by `cgroup.kill`, remove it and what was made below it, and write
    that to the record. At most `bound` seconds. Never raises for what the system answers."""
    began = time.monotonic()
    killed, why = 0, None
    try:
        killed = _end(left, began + bound)
    except FileNotFoundError as error:
        if _is_there(left.path, left.inode):  # else the guard was faster, or another sweep
            why = f"{error.filename} is missing"
    except OSError as error:
        why = error.strerror or str(error)
    swept = Swept(left, killed, round((time.monotonic() - began) * 1000), why)
    detail = {"cgroup": left.path, "cgroup_id": left.inode, "killed": killed, "ms": swept.ms}
    with contextlib.suppress(OSError):  # a full disk: the caller is told as well
        journal.append(left.record, Note, left.run, text=swept.sentence, detail=detail)
    return swept


def _left(path: str) -> Left | None:
    with open(path, "rb", buffering=0) as file:
        if b'"contain":"cgroup"' not in file.read(_HEAD):
            return None
    theirs = [event for event in journal.read(path).events if event.source in SUPERVISOR]
    started = next((event for event in theirs if isinstance(event, Started)), None)
    if started is None or any(isinstance(event, TreeGone) for event in theirs):
        return None
    cgroup, inode = started.cgroup, started.cgroup_id
    # The name as the supervisor makes it: a record that somebody edited leads nowhere else.
    if not cgroup or not inode or os.path.basename(cgroup) != f"lastout-{started.run}":
        return None
    if started.boot_id != boot_id() or not _is_there(cgroup, inode):
        return None
    for one in (started.front, started.keeper):
        whole = ProcessIdentity(one.pid, one.start, one.inode, started.boot_id, started.pidns)
        if still_alive(whole) is not Alive.NO:
            return None
    return Left(started.run, path, cgroup, inode)


def _is_there(path: str, inode: int) -> bool:
    try:
        return os.stat(path, follow_symlinks=False).st_ino == inode
    except FileNotFoundError:
        return False


def _end(left: Left, due: float) -> int:
    """How many were killed. Raises OSError with what is in the way."""
    directory = os.open(left.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        # From here on the descriptor says which cgroup is meant, whatever becomes of the name.
        if os.fstat(directory).st_ino != left.inode:
            raise FileNotFoundError(errno.ENOENT, "another cgroup has this name", left.path)
        members = set(_members(directory))
        if os.getpid() in members:
            raise OSError(errno.EDEADLK, "asked from inside: it would end whoever asks")
        events = _open(directory, "cgroup.events", os.O_RDONLY)
        try:
            if _populated(events):
                kill = _open(directory, "cgroup.kill", os.O_WRONLY)
                with contextlib.closing(os.fdopen(kill, "wb", buffering=0)) as file:
                    file.write(b"1")
            _remove(left, directory, events, due)
        finally:
            os.close(events)
    finally:
        os.close(directory)
    return len(members)


def _remove(left: Left, directory: int, events: int, due: float) -> None:
    """Wait until it is empty, then remove it. An ending process can hold it a moment longer."""
    changed = select.poll()
    changed.register(events, select.POLLPRI)
    while True:
        seconds = due - time.monotonic()
        populated = _populated(events)
        if not populated:
            try:
                _remove_below(directory)
                os.rmdir(left.path)
                return
            except OSError as error:
                if error.errno != errno.EBUSY or seconds <= 0:
                    raise
        if seconds <= 0:
            raise TimeoutError(errno.ETIMEDOUT, "something in it does not die")
        wait = seconds if populated else min(seconds, _LOOK_AGAIN)
        changed.poll(int(wait * 1000) + 1)


def _populated(events: int) -> bool:
    return b"populated 1" in os.pread(events, 4096, 0)


def _members(directory: int) -> Iterator[int]:
    for _, _, _, below in os.fwalk(".", dir_fd=directory):
        with contextlib.suppress(OSError):  # removed meanwhile, or a threaded cgroup
            with open(_open(below, "cgroup.procs", os.O_RDONLY), "rb") as file:
                yield from map(int, file.read().split())


def _remove_below(directory: int) -> None:
    """Programs of the tree may have made cgroups of their own; an empty one is all that goes."""
    for _, names, _, below in os.fwalk(".", topdown=False, dir_fd=directory):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(name, dir_fd=below)


def _open(directory: int, name: str, how: int) -> int:
    return os.open(name, how | os.O_CLOEXEC, dir_fd=directory)
