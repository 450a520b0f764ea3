"""Proves that a test leaves nothing behind, and ends what it did leave.

The test process is a child subreaper: whatever escapes from a test, by setsid, double fork or a
killed supervisor, becomes a descendant of ours and is found here by its place, with its identity.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time

from harness.identity import Identity, Stat, children, command_line, descendants, read_stat

_PR_SET_CHILD_SUBREAPER = 36
_SWEEP_SECONDS = 10.0
_SUPERVISORS = frozenset({"lastout-keeper", "lastout-scribe", "lastout-guard"})


def become_subreaper() -> None:
    """PR_SET_CHILD_SUBREAPER, prctl(2): orphans below this process become its children."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def present() -> set[Identity]:
    """Every process below this one, zombies included."""
    stats = (read_stat(pid) for pid in descendants(os.getpid()))
    return {stat.identity for stat in stats if stat is not None}


def new(before: set[Identity]) -> list[Stat]:
    """What is below this process and was not before, zombies included.

    Not looked at is what a process from before has started since: a service that outlives one
    test (a database) has its own workers. Whatever escapes from it comes to us and is seen.
    """
    found: list[Stat] = []
    todo = [os.getpid()]
    while todo:
        for pid in children(todo.pop()):
            stat = read_stat(pid)
            if stat is None or stat.identity in before:
                continue
            found.append(stat)
            todo.append(pid)
    return found


def living(before: set[Identity]) -> list[Stat]:
    """Those of the new ones that are not dead."""
    return [stat for stat in new(before) if not stat.dead]


def wait_for_supervisors(before: set[Identity]) -> None:
    """Keeper, scribe and guard can outlive a front, and the lines that tell of its end, by what a
    busy machine takes to end a process. One that stays for good is found by the caller."""
    end = time.monotonic() + _SWEEP_SECONDS
    while time.monotonic() < end:
        names = {stat.comm for stat in living(before)}
        if not names or not names <= _SUPERVISORS:
            return
        time.sleep(0.001)


def describe(stat: Stat) -> str:
    return (
        f"pid {stat.pid} (start {stat.start}, parent {stat.ppid}, state {stat.state}) "
        f"{stat.comm}: {command_line(stat.pid)}"
    )


def sweep(before: set[Identity]) -> None:
    """SIGKILL and reap everything below this process that was not there before."""
    end = time.monotonic() + _SWEEP_SECONDS
    while (found := new(before)) and time.monotonic() < end:
        for stat in found:
            _kill(stat)
        for stat in found:
            _reap(stat.pid)


def _kill(stat: Stat) -> None:
    try:
        fd = os.pidfd_open(stat.pid)
    except ProcessLookupError:
        return
    try:
        # The pidfd pins the process; only now its place and start say that it is one of ours.
        again = read_stat(stat.pid)
        if again is not None and again.identity == stat.identity and not again.dead:
            signal.pidfd_send_signal(fd, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    finally:
        os.close(fd)


def _reap(pid: int) -> None:
    # Only direct children can be waited for; the others come to us when their parent is gone.
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass
