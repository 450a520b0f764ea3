"""A lease store in memory, for tests: the same behaviour as SQLite's, nothing durable."""

from __future__ import annotations

import threading

from lastout.identity import ProcessIdentity
from lastout.leases.model import Entry, Lease, Moment, raise_epoch
from lastout.leases.store import Stored, Transition, Waiter, doubt_after, local_moment

__all__ = ["MemoryStore"]


class MemoryStore:
    """Leases of one process, gone with it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._leases: dict[str, Stored] = {}
        self._history: list[Entry] = []
        self._waiters: dict[int, Waiter] = {}
        self._numbers = 0
        self._floor = 0

    def change(self, key: str, transition: Transition) -> Lease:
        """See `Store.change`."""
        with self._lock:
            found = self._leases.get(key)
            change = transition(found, self.moment())
            if change.entry is not None:
                self._leases[key] = Stored(change.lease, doubt_after(found, change))
                self._history.append(change.entry)
            return change.lease

    def get(self, key: str) -> Stored | None:
        """See `Store.get`."""
        with self._lock:
            return self._leases.get(key)

    def leases(self) -> list[Lease]:
        """See `Store.leases`."""
        with self._lock:
            return [self._leases[key].lease for key in sorted(self._leases)]

    def history(self, key: str, limit: int = 100) -> list[Entry]:
        """See `Store.history`."""
        with self._lock:
            return [entry for entry in self._history if entry.key == key][-limit:]

    def floor(self) -> int:
        """See `Store.floor`."""
        with self._lock:
            return self._floor

    def wait_begin(self, key: str, identity: ProcessIdentity) -> int:
        """See `Store.wait_begin`."""
        with self._lock:
            self._numbers += 1
            since = self.moment().time
            self._waiters[self._numbers] = Waiter(self._numbers, key, identity, since)
            return self._numbers

    def wait_end(self, number: int) -> None:
        """See `Store.wait_end`."""
        with self._lock:
            self._waiters.pop(number, None)

    def waiters(self) -> list[Waiter]:
        """See `Store.waiters`."""
        with self._lock:
            return list(self._waiters.values())

    def moment(self) -> Moment:
        """See `Store.moment`."""
        return local_moment()

    def close(self) -> None:
        """See `Store.close`."""

    def forget_since(self, leases: list[Stored], by: int) -> None:
        """Go back to an earlier listing, as a restored backup does: every epoch is raised."""
        with self._lock:
            at = self.moment()
            self._leases = {
                stored.lease.key: Stored(
                    raise_epoch(stored.lease, by, at).lease, stored.lease.epoch
                )
                for stored in leases
            }
            self._floor += by
