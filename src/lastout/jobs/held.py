"""Kernel locks of processes that are about to be killed: nobody else can say afterwards.

From the descriptors' own information (proc_pid_fdinfo(5)): a lock that was inherited through a fork
is found with whoever has it now, which /proc/locks does not tell.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from lastout import tree
from lastout.identity import Alive, ProcessIdentity, still_alive
from lastout.jobs.result import HeldLock

__all__ = ["members", "of_processes", "of_record"]

_MOST_PROCESSES = 1024
_MOST_LOCKS = 256


def members(supervisors: Iterable[ProcessIdentity]) -> list[tuple[int, str]]:
    """Pid and name of everything below these supervisors."""
    alive = [one.pid for one in supervisors if still_alive(one) is Alive.YES]
    try:
        found = tree.below(alive, without=alive)
    except OSError:
        return []
    return [(one.pid, one.stat.name) for one in found[:_MOST_PROCESSES]]


def of_record(record: str) -> list[HeldLock]:
    """The locks of a run's members, by the supervisors that its record names."""
    from lastout.recovery import case

    known = case.read(case.of_record(record))
    return of_processes(members(one for one in (known.keeper, known.front) if one is not None))


def of_processes(processes: Iterable[tuple[int, str]]) -> list[HeldLock]:
    """The locks that these processes hold: by their descriptors, or by the kernel's own table."""
    try:
        with open("/proc/locks", encoding="ascii", errors="replace") as file:
            table = file.read().splitlines()
    except OSError:
        return []
    if not table:
        return []
    found: dict[HeldLock, None] = {}
    for pid, name in processes:
        locks = _by_descriptors(pid, name)
        if locks is None:
            locks = [one for line in table if (one := _parsed(line, pid, name, None, own=True))]
        found.update(dict.fromkeys(locks))
    return list(found)[:_MOST_LOCKS]


def _by_descriptors(pid: int, name: str) -> list[HeldLock] | None:
    """None where we may not look."""
    found = []
    try:
        numbers = os.listdir(f"/proc/{pid}/fdinfo")
        for number in numbers:
            try:
                with open(
                    f"/proc/{pid}/fdinfo/{number}", encoding="ascii", errors="replace"
                ) as file:
                    lines = [line for line in file if line.startswith("lock:")]
                for line in lines:
                    path = os.readlink(f"/proc/{pid}/fd/{number}")
                    lock = _parsed(line.removeprefix("lock:"), pid, name, path, own=False)
                    if lock is not None:
                        found.append(lock)
            except FileNotFoundError:
                continue  # closed meanwhile
    except PermissionError:
        return None
    except (FileNotFoundError, ProcessLookupError):
        return []
    return found


def _parsed(line: str, pid: int, name: str, path: str | None, *, own: bool) -> HeldLock | None:
    """A line of /proc/locks: `1: FLOCK  ADVISORY  WRITE 4711 08:01:5678 0 EOF`."""
    parts = line.split()
    if len(parts) < 6 or parts[1] == "->":  # somebody who waits for it
        return None
    _, kind, _, mode, holder, where = parts[:6]
    if own and holder != str(pid):
        return None
    device, _, inode = where.rpartition(":")
    if not inode.isdigit():
        return None
    return HeldLock(pid, kind, mode, path, device, int(inode), name)
