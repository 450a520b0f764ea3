"""What `--contain cgroup` left behind: cgroups whose run lost front, keeper and guard.

Found through our records alone, never by a name: a directory is a run's own only while its inode is
the one that `started` has, or `contained`, where they were lost before that. What was lost between the
two `contained` lines has no inode; that directory is empty, and is removed only as an empty one.
Source: cgroups(7), "Cgroup v2: cgroup.kill, cgroup.events".
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from lastout.evidence import journal
from lastout.evidence.events import Contained, Event, Failed, Note, Started, TreeGone
from lastout.evidence.journal import Contents
from lastout.evidence.line import SUPERVISOR, Identity, several_runs
from lastout.graces import FORCED_STEP
from lastout.identity import Alive, ProcessIdentity, boot_id, still_alive

__all__ = ["Left", "Swept", "find", "is_removed", "sweep"]

_HEAD: Final = 16 << 10  # `started` is among the first lines; its argv is bounded to 8 KiB
_TAIL: Final = 4 << 10
_LOOK_AGAIN: Final = 0.1
"""How often an empty cgroup is tried again that the kernel still calls busy, in seconds."""


@dataclass(frozen=True, slots=True)
class Left:
    """A run's cgroup that nobody looks after any more."""

    run: str
    record: str
    path: str
    inode: int | None
    """None: it was lost while it was made, and nothing can be in it."""


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
            yield from _left(path)


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


def _left(path: str) -> Iterator[Left]:
    with open(path, "rb", buffering=0) as file:
        head = file.read(_HEAD)
        file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
        if b'"contain":"cgroup"' not in head and not several_runs(head, file.read(_TAIL)):
            return
    last = journal.read(path)
    for contents in (*(journal.read(path, run) for run in last.others), last):
        if (left := _of_run(path, contents)) is not None:
            yield left


def _of_run(path: str, contents: Contents) -> Left | None:
    theirs = [event for event in contents.events if event.source in SUPERVISOR]
    if (made := _made(theirs)) is None or any(isinstance(event, TreeGone) for event in theirs):
        return None
    cgroup, inode = made.cgroup, made.cgroup_id
    # The name as the supervisor makes it: a record that somebody edited leads nowhere else.
    if not cgroup or os.path.basename(cgroup) != f"lastout-{made.run}":
        return None
    if made.boot_id != boot_id() or not _is_there(cgroup, inode):
        return None
    supervisors = (made.front, made.keeper) if isinstance(made, Started) else (made.front,)
    if any(_may_live(one, made) for one in supervisors):
        return None
    # Nobody has said who the keeper is: it holds the directory's lock, as do front and guard.
    if isinstance(made, Contained) and _is_held(cgroup):
        return None
    return Left(made.run, path, cgroup, inode)


def is_removed(theirs: Iterable[Event]) -> bool:
    """Whether the cgroup that a supervisor's lines speak of was to be made, and is not there."""
    made = _made(theirs)
    if made is None or not made.cgroup:
        return False
    try:
        # Where it would be found: a look from a mount namespace without cgroups says nothing.
        os.stat(os.path.join(os.path.dirname(made.cgroup), "cgroup.procs"))
        return not _is_there(made.cgroup, made.cgroup_id)
    except OSError:
        return False


def _made(theirs: Iterable[Event]) -> Started | Contained | None:
    """The line that says most of the run's cgroup. One that could not be made is nobody's."""
    made: Started | Contained | None = None
    for event in theirs:
        match event:
            case Contained() if not isinstance(made, Started):
                made = event
            case Started() if event.cgroup_id:
                made = event
            case Failed(reason="contain") if made is not None and made.cgroup_id is None:
                return None
    return made


def _may_live(one: Identity | None, line: Started | Contained) -> bool:
    if one is None:
        return True
    whole = ProcessIdentity(one.pid, one.start, one.inode, line.boot_id, line.pidns)
    return still_alive(whole) is not Alive.NO


def _is_there(path: str, inode: int | None) -> bool:
    try:
        found = os.stat(path, follow_symlinks=False).st_ino
    except FileNotFoundError:
        return False
    return inode is None or found == inode


def _is_held(path: str) -> bool:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(directory)
    return False


def _end(left: Left, due: float) -> int:
    """How many were killed. Raises OSError with what is in the way."""
    if left.inode is None:
        os.rmdir(left.path)
        return 0
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
