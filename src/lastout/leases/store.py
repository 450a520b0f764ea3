"""What a lease store can do: one machine's SQLite file today, a database of many machines later.

A store keeps values and decides nothing: `change` runs one pure transition (leases/model) while
nobody else can, and what it returns is durable together with its line of history.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from lastout.identity import ProcessIdentity
from lastout.leases.model import Change, Entry, Lease, Moment

__all__ = ["Store", "Stored", "Transition", "Waiter", "doubt_after", "local_moment"]


@dataclass(frozen=True, slots=True)
class Stored:
    """A lease as the store has it. Above `doubt` it cannot answer for older epochs: a restored
    backup did not know them, or the store itself was lost."""

    lease: Lease
    doubt: int | None = None


def doubt_after(found: Stored | None, change: Change) -> int | None:
    """What a store keeps as `doubt` with a change: one rule for all stores."""
    event = change.entry.event if change.entry else ""
    if event in ("trusted", "released"):
        return None
    return change.doubt if event == "reserved" else found.doubt if found else None


@dataclass(frozen=True, slots=True)
class Waiter:
    """A process that waits for a key."""

    number: int
    key: str
    identity: ProcessIdentity
    since: str


Transition = Callable[[Stored | None, Moment], Change]
"""A pure step. It runs inside the store's transaction: no signals, no waiting in it."""


class Store(Protocol):
    """Where leases live. Every method may be called from any thread."""

    def change(self, key: str, transition: Transition) -> Lease:
        """Carry out one transition alone, durably. What it raises leaves everything as it was."""

    def get(self, key: str) -> Stored | None:
        """The lease of a key, or None when it was never granted."""

    def leases(self) -> list[Lease]:
        """All leases, by key."""

    def history(self, key: str, limit: int = 100) -> list[Entry]:
        """The last `limit` entries of a key's history, oldest first."""

    def floor(self) -> int:
        """The epoch above which a key without a lease starts."""

    def wait_begin(self, key: str, identity: ProcessIdentity) -> int:
        """Note that a process waits for a key; gives the number for `wait_end`."""

    def wait_end(self, number: int) -> None:
        """Forget a waiter."""

    def waiters(self) -> list[Waiter]:
        """Who waits, also those that died meanwhile: look at their identities."""

    def moment(self) -> Moment:
        """Now, by the clock that this store goes by."""

    def close(self) -> None:
        """Give back what the store has open."""


def local_moment() -> Moment:
    """Now, by this machine's clocks."""
    wall = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return Moment(time.clock_gettime_ns(time.CLOCK_BOOTTIME), wall)
