"""Background jobs in tests: how long to wait for one, and for the runners behind them."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from harness import leftovers
from harness.identity import Identity, command_line
from lastout.identity import take, wait_dead
from lastout.jobs import Status

__all__ = ["PATIENCE", "Gate", "Line", "Until", "runners_end"]

PATIENCE = 30.0
"""Seconds: nothing that a test waits for takes so long."""

Line = Callable[[], str]
"""The next line that a job's command has written into the FIFO `said`."""

Gate = Callable[..., Callable[[], object]]
"""Makes a FIFO from which a job's command reads a line before it goes on."""

Until = Callable[..., Status]
"""Waits until a job's status is as a test wants it."""


def runners_end(state: str, before: set[Identity]) -> None:
    """Wait until nobody has a slot, and until the runners, whose last act that is, are gone: they
    are below this process, which is a subreaper."""
    folder = Path(state) / "jobs" / "slots"
    for path in folder.iterdir() if folder.exists() else ():
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.close(fd)
    for stat in leftovers.living(before):
        words = command_line(stat.pid)
        if not words or "lastout.jobs.runner" in words:  # one that is exiting has none any more
            with contextlib.suppress(ProcessLookupError):
                wait_dead(take(stat.pid), PATIENCE)
