"""A run that threads wait for: who waits reads the lines for everybody, under one lock.

The lock and the number that it guards are the standard library's (`_waitpid_lock`, `returncode`);
popen.py has the rest of it.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from lastout.errors import HandleInert
from lastout.forked import unregister
from lastout.graces import HEARD, MARGIN
from lastout.link import Link
from lastout.outcome import Outcome, decide, identity_of
from lastout.overdue import settle
from lastout.told import Told

if TYPE_CHECKING:
    from lastout.evidence.events import Started
    from lastout.identity import ProcessIdentity

__all__ = ["Threaded"]


class Threaded:
    """What `Popen` knows of its run, how it learns more, and how it concludes what became of it."""

    args: Any
    returncode: Any
    run: str
    record: str | None
    _waitpid_lock: threading.Lock
    _told: Told

    def _begin(self) -> None:
        self._link: Link | None = None
        self._waiters = 0
        self._bells: set[int] = set()
        self._inert = False
        self._ending_since: float | None = None
        self._unheard_at: float | None = None
        self._outcome: Outcome | None = None

    @property
    def started(self) -> Started:
        """The supervisor's first line: identities, graces, where and as whom it runs."""
        assert self._told.started is not None  # the constructor does not return before it
        return self._told.started

    @property
    def root(self) -> ProcessIdentity:
        """The executed command."""
        return identity_of(self.started.root, self.started)

    @property
    def front(self) -> ProcessIdentity:
        """The supervisor's first process, our child; `pid` is its pid."""
        return identity_of(self.started.front, self.started)

    @property
    def keeper(self) -> ProcessIdentity:
        """The supervisor's second process, the root's parent."""
        return identity_of(self.started.keeper, self.started)

    @property
    def outcome(self) -> Outcome | None:
        """How the run ended; None while that has not been waited for."""
        return self._outcome

    def _wait(self, timeout: float | None) -> Any:
        """Called by `wait`. Sleeps on the front's pidfd and the control socket, not in between."""
        ended = self.returncode
        if ended is not None:
            return ended
        self._check()
        ends = None if timeout is None else time.monotonic() + timeout
        bell = _bell()
        with self._waitpid_lock:
            self._waiters += 1  # while there are any the descriptors stay open
            if bell is not None:
                self._bells.add(bell)
        try:
            while True:
                with self._waitpid_lock:
                    self._look()
                    ended = self.returncode
                if ended is not None:
                    return ended
                now = time.monotonic()
                if ends is not None and now >= ends:
                    raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
                overdue = self._overdue_at
                due = min(
                    (at for at in (ends, overdue, self._unheard_at) if at is not None), default=None
                )
                self._sleep(None if due is None else due - now, overdue is not None, bell)
        finally:
            with self._waitpid_lock:
                self._waiters -= 1
                if bell is not None:
                    self._bells.discard(bell)
                    os.close(bell)
                self._close_when_over()

    # --- reading the lines; the lock is held -----------------------------------------------------

    def _look(self) -> None:
        """Take what has come, and conclude when that is all or the bound is over."""
        link = self._link
        if self.returncode is not None or link is None:
            return
        for event in link.read():
            self._told.take(event)
        if link.front_gone or self._told.stopping or self._told.final:
            self._begin_bound()
            self._unheard_at = None
        elif self._unheard_at is not None and time.monotonic() >= self._unheard_at:
            # Somebody has stopped the front. Not sooner: it passes SIGCONT on to the root.
            link.signal_front(signal.SIGCONT)
            self._unheard_at = None
        if link.front_gone and (self._told.final or self._told.started is None):
            self._outcome = self._decide()
        elif self._overdue_at is not None and (
            time.monotonic() >= self._overdue_at or (link.front_gone and self._keeper_gone())
        ):
            self._outcome = self._conclude()
        if self._outcome is not None:
            self.returncode = self._returncode(self._outcome, link.front_status)
            self._close_when_over()

    def _decide(self) -> Outcome:
        return decide(self._told.facts, run=self.run, record=self.record)

    def _conclude(self) -> Outcome:
        """The supervisor's last word did not come: look elsewhere, then force. At most 3 s."""
        if self._told.final:
            outcome = self._decide()
        else:
            outcome = settle(self._told.facts, run=self.run, record=self.record)
        assert self._link is not None
        if not self._link.front_gone and outcome.verdict != "unproven":
            # The run is over; a front that still hangs has nothing left to do.
            self._link.signal_front(signal.SIGKILL)
            ends = time.monotonic() + MARGIN
            while not self._link.front_gone and (left := ends - time.monotonic()) > 0:
                self._link.wait_blocking(left)
                self._link.read()
        return outcome

    @staticmethod
    def _returncode(outcome: Outcome, front_status: int | None) -> int:
        # subprocess knows no "not known", and whoever compares with 0 must not read a success.
        if outcome.returncode is not None:
            return outcome.returncode
        return front_status if front_status is not None else sys.maxsize

    def _sleep(self, seconds: float | None, bounded: bool, bell: int | None) -> None:
        link = self._link
        assert link is not None
        if not link.front_gone:
            if bounded:
                link.wait_blocking(seconds)
            elif bell is not None:
                link.wait_blocking(seconds, (bell, select.POLLIN))
            else:
                link.wait_blocking(MARGIN if seconds is None else min(seconds, MARGIN))
            return
        # The front was killed: the keeper goes on, and what it has done is in the record.
        from lastout.identity import wait_dead

        wait_dead(self.keeper, seconds)

    def _keeper_gone(self) -> bool:
        from lastout.identity import Alive, still_alive

        return self._told.started is None or still_alive(self.keeper) is Alive.NO

    @property
    def _overdue_at(self) -> float | None:
        if self._ending_since is None:
            return None
        return self._ending_since + self._told.max_stop + MARGIN

    def _begin_bound(self) -> None:
        if self._ending_since is None:
            self._ending_since = time.monotonic()
            for bell in tuple(self._bells):
                os.eventfd_write(bell, 1)

    def _close_when_over(self) -> None:
        if self.returncode is not None and not self._waiters and self._link is not None:
            unregister(self)
            self._link.close()

    # --- stopping, signalling ------------------------------------------------------------------

    def _request(self, reason: str, by: str | None, grace: float | None) -> None:
        assert self._link is not None
        self._link.request_stop(reason, by, grace)
        with self._waitpid_lock:
            self._unheard_at = time.monotonic() + HEARD
            self._begin_bound()

    def _signal_root(self, sig: int) -> None:
        """Through the supervisor, so that it is on record; what that does not pass on, directly."""
        try:
            name = signal.Signals(sig).name.removeprefix("SIG")
        except ValueError:
            name = "STOP"  # no signal (0) or a real-time one: the supervisor has no name for it
        if name != "STOP" and self._pass_on(name):
            return
        from lastout import identity

        try:
            identity.signal(self.root, sig)
        except ProcessLookupError:
            pass  # it ended meanwhile, as in subprocess

    def _pass_on(self, name: str) -> bool:
        """As in subprocess, it has been delivered when this returns. False when nobody does it."""
        link = self._link
        assert link is not None
        with self._waitpid_lock:
            self._look()
            before = self._told.passed_on[name]
            if self.returncode is not None or not link.send({"cmd": "signal", "name": name}):
                return self.returncode is not None
            ends = time.monotonic() + MARGIN
            while self._told.passed_on[name] == before and self.returncode is None:
                if (left := ends - time.monotonic()) <= 0 or link.front_gone:
                    return not link.front_gone  # it is under way
                link.wait_blocking(left)
                self._look()
        return True

    def _check(self) -> None:
        if self._inert:
            raise HandleInert(
                "this handle was inherited through a fork; the run belongs to the parent process"
            )


def _bell() -> int | None:
    """For who sleeps while the run has no bound yet: another thread may begin a stop, or read the
    line that tells of one. None where no descriptor is left, which must not make a wait fail."""
    try:
        return os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    except OSError:
        return None
