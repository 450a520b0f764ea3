"""Asking a living supervisor to stop, and waiting for it as long as its own run says."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from typing import Final

from lastout.evidence import journal
from lastout.evidence.events import Forced
from lastout.forced import MOST_NAMED
from lastout.graces import DEFAULT, MARGIN
from lastout.identity import (
    Alive,
    IdentityUnknown,
    ProcessIdentity,
    open_pidfd,
    still_alive,
)
from lastout.leases import locks
from lastout.pause import Pause
from lastout.recovery import case as cases
from lastout.recovery.case import Case, Known
from lastout.recovery.decide import Record
from lastout.sweep import Sweep

__all__ = ["START_BOUND", "ask", "await_start"]

START_BOUND: Final = 2.0
"""How long somebody may need from taking the lock to its first line, in seconds."""

_LOOK_EVERY = 0.01  # nothing tells whoever has neither a pid nor a descriptor of a start


def ask(case: Case, known: Known, *, now: bool = False) -> None:
    """SIGTERM and SIGCONT, then wait out the run's own bound on the pidfds of front and keeper.

    `now`: the tree gets SIGKILL at once, and the supervisors have the reap bound to tell its end.
    """
    front, keeper = known.front, known.keeper
    if front is not None and still_alive(front) is Alive.YES:
        _send(front, signal.SIGTERM, signal.SIGCONT)
        if keeper is not None:
            _send(keeper, signal.SIGCONT)
    elif keeper is not None:
        _send(keeper, signal.SIGTERM, signal.SIGCONT)
    seconds = known.max_stop + MARGIN
    if now and known.root is not None and keeper is not None:
        alive = [one for one in (front, keeper) if one and still_alive(one) is Alive.YES]
        sweep = Sweep(known.root, known.writer, keeper, alive, Pause(()), known.tier)
        # Before it as well: whoever is killed in the middle has told at least that.
        _tell(case, known, {"how": "now"})
        try:
            sweep.run(time.monotonic() + DEFAULT.reap)
            seconds = DEFAULT.reap + MARGIN
        except OSError:
            pass  # the tree cannot be seen from here: the supervisors go on with their own ladder
        told = sweep.signalled
        detail = {"how": "now", "rounds": sweep.rounds, "signalled_count": len(told)}
        _tell(case, known, {**detail, "signalled": told[:MOST_NAMED]})
    _wait(case, known, seconds)


def _tell(case: Case, known: Known, detail: dict[str, object]) -> None:
    """What was signalled past the supervisors, into the record: they know nothing of it."""
    if case.record is None or known.record is Record.MISSING:
        return
    with contextlib.suppress(OSError):
        journal.append(case.record, Forced, known.run, detail=detail)


def await_start(case: Case) -> None:
    """Wait until a start that is under way has a record, or has given up its lock."""
    due = time.monotonic() + START_BOUND
    while time.monotonic() < due:
        known = cases.read(case)
        if known.record not in (Record.MISSING, Record.EMPTY):
            return
        if case.folder is None or case.epoch is None:
            return
        if locks.probe(case.folder, case.epoch) is not locks.LockState.HELD:
            return
        time.sleep(_LOOK_EVERY)


def _wait(case: Case, known: Known, seconds: float) -> None:
    """Until both are dead, or the front is and the record has its last word."""
    due = time.monotonic() + seconds
    poll = select.poll()
    fds: dict[int, ProcessIdentity] = {}
    try:
        for one in (known.front, known.keeper):
            if one is None:
                continue
            with contextlib.suppress(OSError, IdentityUnknown):
                fd = open_pidfd(one)
                fds[fd] = one
                poll.register(fd, select.POLLIN)
        while fds and (left := due - time.monotonic()) > 0:
            if known.front not in fds.values() and _has_last_word(case):
                return
            for fd, _ in poll.poll(left * 1000):
                poll.unregister(fd)
                os.close(fd)
                del fds[fd]
    finally:
        for fd in fds:
            os.close(fd)


def _has_last_word(case: Case) -> bool:
    return cases.read(case).record in (Record.TREE_GONE, Record.TREE_UNPROVEN, Record.NOT_STARTED)


def _send(one: ProcessIdentity, *numbers: int) -> None:
    from lastout.identity import signal as send

    for number in numbers:
        with contextlib.suppress(OSError, IdentityUnknown):
            send(one, number)
