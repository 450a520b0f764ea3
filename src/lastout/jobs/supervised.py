"""A supervised command, as its runner sees it: what it hears, how it stops it, how it concludes.

As `Popen` does it for threads, but for one loop that has other things to listen to, and from any
moment of the run: a runner that went away for a while (`bare`) takes it up again.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Iterable
from typing import Literal

from lastout.evidence.events import Event, Started
from lastout.graces import HEARD, MARGIN
from lastout.identity import ProcessIdentity
from lastout.link import Link
from lastout.outcome import Outcome, decide, identity_of
from lastout.overdue import settle
from lastout.told import Told

__all__ = ["Supervised"]


class Supervised:
    """One run under way. `hear` gets every line once, in the order in which they come."""

    def __init__(
        self,
        control: socket.socket,
        pidfd: int,
        *,
        run: str,
        record: str,
        max_stop: float,
        hear: Callable[[Event], None],
    ) -> None:
        self.link = Link(control, pidfd)
        self.told = Told(max_stop)
        self.told.watch = hear
        self.run = run
        self.record = record
        self._control = control
        self._pidfd = pidfd
        self._seen: set[tuple[str, int]] = set()
        self._ending_since: float | None = None
        self._unheard_at: float | None = None

    @property
    def descriptors(self) -> list[int]:
        """What to listen to: readable means that `step` has something to do."""
        found = []
        if not self.link.ended:
            found.append(self._control.fileno())
        if not self.link.front_gone:
            found.append(self._pidfd)
        return found

    @property
    def control(self) -> int:
        """The control socket's descriptor."""
        return self._control.fileno()

    @property
    def started(self) -> Started | None:
        """The first line, once it is there."""
        return self.told.started

    @property
    def supervisors(self) -> tuple[ProcessIdentity, ...]:
        """Keeper and front, where they are known."""
        started = self.told.started
        if started is None:
            return ()
        return tuple(identity_of(one, started) for one in (started.keeper, started.front))

    @property
    def due(self) -> float | None:
        """When `step` must be called although nothing was heard, on the monotonic clock."""
        bound = self._overdue_at
        if bound is not None and self.link.front_gone:
            # Only the keeper is left, which has no descriptor here: it is looked at now and then.
            bound = min(bound, time.monotonic() + 0.1)
        return min((at for at in (bound, self._unheard_at) if at is not None), default=None)

    def take(self, events: Iterable[Event]) -> None:
        """Lines from the socket or from the record; each counts once."""
        for event in events:
            key = (event.source, event.seq)
            if key not in self._seen:
                self._seen.add(key)
                self.told.take(event)

    def stop(
        self,
        reason: Literal["timeout", "abort", "shutdown"],
        by: str | None,
        grace: float | None = None,
    ) -> None:
        """Ask for the stop; again it may only go faster."""
        self.link.request_stop(reason, by, grace)
        self._unheard_at = time.monotonic() + HEARD
        self._begin_bound()

    def step(self) -> Outcome | None:
        """Hear what has come; the outcome when that is all, or the bound is over."""
        self.take(self.link.read())
        if self.link.front_gone or self.told.stopping or self.told.final:
            self._begin_bound()
            self._unheard_at = None
        elif self._unheard_at is not None and time.monotonic() >= self._unheard_at:
            self.link.signal_front(signal.SIGCONT)  # somebody has stopped the front
            self._unheard_at = None
        if self.link.front_gone and (self.told.final or self.told.started is None):
            return decide(self.told.facts, run=self.run, record=self.record)
        overdue = self._overdue_at
        if overdue is not None and (
            time.monotonic() >= overdue or (self.link.front_gone and self._keeper_gone())
        ):
            return self._conclude()
        return None

    def close(self) -> None:
        """Give up the descriptors: a supervisor that still lives hears its owner hang up."""
        self.link.close()

    def _conclude(self) -> Outcome:
        """The last word did not come: look elsewhere, then force. At most 3 s."""
        if self.told.final:
            outcome = decide(self.told.facts, run=self.run, record=self.record)
        else:
            outcome = settle(self.told.facts, run=self.run, record=self.record)
        if not self.link.front_gone and outcome.verdict != "unproven":
            self.link.signal_front(signal.SIGKILL)
        return outcome

    def _keeper_gone(self) -> bool:
        from lastout.identity import Alive, still_alive

        return not self.supervisors or still_alive(self.supervisors[0]) is Alive.NO

    @property
    def _overdue_at(self) -> float | None:
        if self._ending_since is None:
            return None
        return self._ending_since + self.told.max_stop + MARGIN

    def _begin_bound(self) -> None:
        if self._ending_since is None:
            self._ending_since = time.monotonic()


def closed_quietly(fd: int) -> None:
    """Close a descriptor that somebody may have closed."""
    with contextlib.suppress(OSError):
        os.close(fd)
