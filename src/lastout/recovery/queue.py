"""Waiting for a key that somebody holds."""

from __future__ import annotations

import contextlib
import os
import select
import time
from types import TracebackType
from typing import Final, Self

from lastout.identity import Alive, IdentityUnknown, open_pidfd, still_alive, take
from lastout.leases.model import Lease
from lastout.leases.store import Store
from lastout.recovery import case as cases

__all__ = ["Turn"]

_LOOK_EVERY: Final = 0.1
"""How often a holder is looked at that has no process yet, in seconds."""


class Turn:
    """One asker's place among those who wait; others see it in `lastout ps`."""

    def __init__(self, store: Store, key: str, seconds: float | None) -> None:
        self._store = store
        self._key = key
        self._due = None if seconds is None else time.monotonic() + seconds
        self._number: int | None = None
        self.lost = 0
        """How often there was nobody to wait for, and somebody else had the key all the same."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._number is not None:
            self._store.wait_end(self._number)

    def next(self, lease: Lease) -> bool:
        """Wait until the holder may be gone. False when the time to wait is over."""
        left = None if self._due is None else self._due - time.monotonic()
        if left is not None and left <= 0:
            return False
        if self._number is None:
            for one in self._store.waiters():
                if still_alive(one.identity) is Alive.NO:
                    self._store.wait_end(one.number)
            self._number = self._store.wait_begin(self._key, take(os.getpid()))
        self.lost += not _wait(lease, left)
        return True


def _wait(lease: Lease, seconds: float | None) -> bool:
    """Wait for the holder; False when it was gone already."""
    known = cases.read(cases.of_lease(lease, None)) if lease.holder else None
    # The front ends first, and with it the run; the others are there only when something is left.
    for one in (known.front, known.keeper, known.root, known.writer) if known else ():
        if one is None or still_alive(one) is not Alive.YES:
            continue
        with contextlib.suppress(OSError, IdentityUnknown):
            fd = open_pidfd(one)
            try:
                poll = select.poll()
                poll.register(fd, select.POLLIN)
                if poll.poll(0):
                    return False
                poll.poll(None if seconds is None else max(0, int(seconds * 1000) + 1))
                return True
            finally:
                os.close(fd)
    # It has no process yet, or none that can be seen from here.
    time.sleep(_LOOK_EVERY if seconds is None else min(seconds, _LOOK_EVERY))
    return True
