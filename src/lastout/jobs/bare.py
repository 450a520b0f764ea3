"""A command whose output nobody keeps: no Python waits with it.

When such a command has run quietly for a while the runner executes a shell that reads one line from
the supervisor's control socket and then executes the runner again. It stays the same process with
the same identity, and keeps the job's lock, its slot and the socket; whatever the supervisor says
(a stop has begun, the root has ended) brings Python back within its start-up time, which is long
before a grace is over.

A cancel cannot reach a shell: whoever cancels writes it down and then, seeing that no Python waits,
sends SIGCONT to the supervisor, which passes it on and reports it: that wakes the runner. The
runner says so in the state first and looks into the inbox afterwards, so one of the two always sees
the other. SIGTERM, which asks a runner to end, has the shell execute it at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from dataclasses import dataclass, field
from typing import Final

from lastout.evidence import journal
from lastout.evidence.events import Event, NotALine, Started, decode
from lastout.identity import open_pidfd
from lastout.jobs import route
from lastout.jobs.desk import Desk
from lastout.jobs.result import Process
from lastout.jobs.supervised import Supervised
from lastout.jobs.work import Cancel
from lastout.outcome import identity_of

__all__ = ["ASKED", "QUIET", "Kept", "TakenUp", "rest", "wake"]

QUIET: Final = 1.0
"""Seconds: a command that ends sooner costs no second start of Python."""

ASKED: Final = "TERM"
"""What a shell that got SIGTERM says instead of a line: the runner was asked to end."""

_SCRIPT: Final = f'trap \'exec "$@" {ASKED}\' TERM; read -r line; exec "$@" "$line"'


@dataclass(frozen=True, slots=True)
class Kept:
    """What a runner holds besides its run: the descriptors of the job's lock and of its slot."""

    lock: int
    slot: int
    number: int


@dataclass(slots=True)
class TakenUp:
    """A run that a shell has waited for."""

    control: socket.socket
    pidfd: int
    front: Process
    lines: list[Event] = field(default_factory=list)


def rest(desk: Desk, kept: Kept, supervised: Supervised) -> None:
    """Give this process's memory back. Returns when that cannot be, or there is news already."""
    started = supervised.started
    if started is None or not _is_written(supervised.record):
        return  # nobody could take it up again by its record
    try:
        argv = route.runner_argv(
            "wake",
            desk.state,
            str(kept.number),
            str(kept.slot),
            str(kept.lock),
            desk.spec.id,
        )
    except OSError:
        return
    front = Process.of(identity_of(started.front, started))
    desk.describe(resident=False, front=front)
    if any(isinstance(one, Cancel) for one in desk.peek()):
        desk.describe(resident=True)
        return
    control = os.dup(supervised.control)
    try:
        os.dup2(control, 0, inheritable=True)
        for fd in (kept.lock, kept.slot):
            os.set_inheritable(fd, True)
        # A shell would inherit what Python ignores.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.set_blocking(0, True)
        os.execv("/bin/sh", ["/bin/sh", "-c", _SCRIPT, "lastout-job", *argv])
    except OSError:
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        os.dup2(null, 0)
        os.close(null)
        desk.describe(resident=True)
    finally:
        os.close(control)
        os.set_blocking(supervised.control, False)


def wake(desk: Desk, line: str) -> TakenUp | None:
    """Python is back: the socket is descriptor 0, and what woke it is `line`.

    None when the front has been reaped by somebody: then only the record is left to tell.
    """
    control = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(null, 0)
    os.close(null)
    desk.describe(resident=True)
    front = desk.stored.front
    assert front is not None
    assert desk.stored.record is not None
    lines = journal.read(desk.stored.record).events
    with contextlib.suppress(NotALine):
        lines.append(decode(line.encode("utf-8", "surrogateescape")))
    try:
        pidfd = open_pidfd(front.identity)
    except ProcessLookupError:
        control.close()
        return None
    return TakenUp(control, pidfd, front, lines)


def _is_written(record: str) -> bool:
    try:
        return any(isinstance(event, Started) for event in journal.read(record).events)
    except OSError:
        return False
