"""Holding the supervisors still while the forced step works below them."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Sequence

from lastout.graces import PAUSE
from lastout.identity import (
    Alive,
    IdentityUnknown,
    ProcessIdentity,
    is_dead,
    open_pidfd,
    still_alive,
    wait_dead,
)
from lastout.proctable import read_stat

__all__ = ["Pause"]

_LOOK_EVERY = 0.0005  # nothing tells anybody but the parent that a process has stopped
_TRIES = 3
_KILL_BOUND = 1.0


class Pause:
    """SIGSTOP for processes that are not our children, and the check that it holds.

    SIGSTOP works some time after it was sent (up to 16 ms), and some parents resume a stopped child
    at once (tmux). Such a supervisor runs on: that is noted, and harms nobody, because every kill
    is by verified identity and the proof asks for its life afterwards.
    """

    def __init__(self, processes: Sequence[ProcessIdentity]) -> None:
        self._processes = tuple(processes)
        self._resumed: dict[ProcessIdentity, int] = {}
        self._held: dict[ProcessIdentity, bool] = dict.fromkeys(processes, False)

    def take(self) -> None:
        """Stop each, one after the other, and wait until it really is in state T."""
        for one in self._processes:
            self._stop(one)
        # Looked at again: whoever was resumed meanwhile has run on.
        self.check()

    def check(self) -> None:
        """Look whether they still are stopped; stop again whoever was resumed, a few times."""
        for one in self._processes:
            if _stopped(one) or still_alive(one) is not Alive.YES:
                continue
            self._held[one] = False
            self._resumed[one] = self._resumed.get(one, 0) + 1
            if self._resumed[one] <= _TRIES:
                self._stop(one)

    def held(self, front: ProcessIdentity) -> dict[str, bool]:
        """Which of them the pause held, by name."""
        return {"front" if one == front else "keeper": held for one, held in self._held.items()}

    def resume(self) -> None:
        """SIGCONT for all, also for those that somebody else had stopped before."""
        for one in self._processes:
            _send(one, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL for all, the keeper first, and wait for their end."""
        for one in reversed(self._processes):
            _send(one, signal.SIGKILL)
        due = time.monotonic() + _KILL_BOUND
        for one in self._processes:
            wait_dead(one, max(0.0, due - time.monotonic()))

    def _stop(self, one: ProcessIdentity) -> None:
        try:
            fd = open_pidfd(one)
        except (OSError, IdentityUnknown):
            return
        try:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(fd, signal.SIGSTOP)
            due = time.monotonic() + PAUSE
            while not (held := _stopped(one)) and time.monotonic() < due:
                if is_dead(fd, one.pid):
                    break
                time.sleep(_LOOK_EVERY)
            self._held[one] = held
        finally:
            os.close(fd)


def _stopped(one: ProcessIdentity) -> bool:
    try:
        return read_stat(one.pid).state in "Tt"
    except OSError:
        return False


def _send(one: ProcessIdentity, number: int) -> None:
    from lastout.identity import signal as send

    with contextlib.suppress(OSError, IdentityUnknown):
        send(one, number)
