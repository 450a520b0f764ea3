"""Who holds a lock file.

For the sentence that tells a user why a conversation cannot be resumed.
"""

from __future__ import annotations

import os

from lastout.agents.adapter import Writer
from lastout.proctable import read_stat

_DEEPEST = 32

__all__ = ["is_below", "live_writer", "lock_holder"]


def lock_holder(path: str) -> Writer | None:
    """The process that took the flock on this file; None when nobody is seen to hold it.

    From /proc/locks, proc_locks(5). A holder in another pid namespace cannot be seen from here.
    """
    try:
        inode = os.stat(path).st_ino
        with open("/proc/locks") as file:
            lines = file.readlines()
    except OSError:
        return None
    for line in lines:
        fields = line.split()
        if "->" in fields or len(fields) < 6 or fields[1] != "FLOCK":
            continue
        if fields[5].rpartition(":")[2] == str(inode):
            return live_writer(int(fields[4]))
    return None


def live_writer(pid: int, start: int | None = None) -> Writer | None:
    """This process if it lives (and began at `start`, where that is given)."""
    if pid <= 0:
        return None
    try:
        stat = read_stat(pid)
    except (OSError, ValueError):
        return None
    if (start is not None and stat.start != start) or stat.state in ("Z", "X"):
        return None
    return Writer(pid, stat.start, stat.name)


def is_below(pid: int, root: int) -> bool:
    """Whether a process is `root` or descends from it, as its parents stand now."""
    for _ in range(_DEEPEST):
        if pid == root:
            return True
        if pid <= 1:
            return False
        try:
            pid = read_stat(pid).ppid
        except OSError:
            return False
    return False
