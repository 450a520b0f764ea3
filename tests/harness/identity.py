"""Processes as the tests name them: by pid and start time, read from /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Identity:
    """A pid alone may be somebody else by now; with its start time (clock ticks) it is not."""

    pid: int
    start: int

    def alive(self) -> bool:
        """True while a thread of it runs: a zombie is dead unless another thread still runs."""
        stat = read_stat(self.pid)
        return stat is not None and stat.start == self.start and not stat.dead

    def exists(self) -> bool:
        """True until it is reaped, as a zombie too."""
        stat = read_stat(self.pid)
        return stat is not None and stat.start == self.start


@dataclass(frozen=True)
class Stat:
    """One line of /proc/PID/stat (proc(5)), cut after the last ')': a name may hold anything."""

    pid: int
    comm: str
    state: str
    ppid: int
    pgid: int
    session: int
    threads: int
    start: int

    @property
    def dead(self) -> bool:
        return self.state == "X" or (self.state == "Z" and self.threads <= 1)

    @property
    def identity(self) -> Identity:
        return Identity(self.pid, self.start)


def read_stat(pid: int) -> Stat | None:
    """The process's line, or None when there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    comm, _, rest = text.partition("(")[2].rpartition(") ")
    f = rest.split()
    return Stat(pid, comm, f[0], int(f[1]), int(f[2]), int(f[3]), int(f[17]), int(f[19]))


def take(pid: int) -> Identity:
    """The identity of a process that is there."""
    stat = read_stat(pid)
    if stat is None:
        raise ProcessLookupError(pid)
    return stat.identity


def children(pid: int) -> list[int]:
    """Children of every thread of a process, zombies included."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError):
        return found
    for thread in threads:
        try:
            found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def descendants(pid: int) -> list[int]:
    """Everything below a process, parents before their children."""
    found: list[int] = []
    todo = [pid]
    while todo:
        for child in children(todo.pop()):
            found.append(child)
            todo.append(child)
    return found


def command_line(pid: int) -> str:
    """The arguments for a message to people; empty for a zombie."""
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return raw.replace(b"\0", b" ").decode(errors="replace").strip()
