"""The lease store of one machine: SQLite in WAL mode, every change durable when it returns."""

from __future__ import annotations

import contextlib
import json
import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, Self, TypeVar

from lastout.identity import ProcessIdentity, from_record
from lastout.leases import sqlite_file
from lastout.leases.model import Entry, Holder, Lease, Moment
from lastout.leases.refusals import StoreReadOnly, StoreUnusable
from lastout.leases.store import Stored, Transition, Waiter, doubt_after, local_moment
from lastout.verdict import Verdict

__all__ = ["BUSY_BOUND", "KEPT", "SqliteStore"]

BUSY_BOUND: Final = 10.0
"""How long a change waits for other writers, in seconds; each of them needs less than 1 ms."""

KEPT: Final = 1000
"""How many entries of history are kept for a key."""

_PRUNE_EVERY: Final = 64  # epochs

_T = TypeVar("_T")

_LEASE = "key, epoch, state, holder, verdict, since_ns, since, doubt"


class SqliteStore:
    """Leases in `leases.sqlite3` of a state directory."""

    def __init__(self, state: str | os.PathLike[str]) -> None:
        """Opens the store, makes or migrates it. Raises StoreUnusable and its kinds."""
        self.state = os.fspath(state)
        self._lock = threading.RLock()
        self._open()

    def change(self, key: str, transition: Transition) -> Lease:
        """See `Store.change`. Raises StoreReadOnly, StoreUnusable (full, read-only, busy)."""

        def step(db: sqlite3.Connection) -> Lease:
            if self._newer:
                raise StoreReadOnly(sqlite_file.newer_sentence(self.state, self._newer))
            with _alone(db):
                if sqlite_file.inode(self.state) != self._inode:
                    raise _Replaced
                row = db.execute(f"SELECT {_LEASE} FROM lease WHERE key = ?", (key,)).fetchone()
                found = _stored(row) if row else None
                change = transition(found, self.moment())
                if change.entry is not None:
                    _write(db, change.lease, change.entry, found, doubt_after(found, change))
            return change.lease

        lease = self._run(step)
        self._backup_when_due()
        return lease

    def get(self, key: str) -> Stored | None:
        """See `Store.get`."""

        def step(db: sqlite3.Connection) -> Stored | None:
            row = db.execute(f"SELECT {_LEASE} FROM lease WHERE key = ?", (key,)).fetchone()
            return _stored(row) if row else None

        return self._run(step)

    def leases(self) -> list[Lease]:
        """See `Store.leases`."""

        def step(db: sqlite3.Connection) -> list[Lease]:
            rows = db.execute(f"SELECT {_LEASE} FROM lease ORDER BY key").fetchall()
            return [_stored(row).lease for row in rows]

        return self._run(step)

    def history(self, key: str, limit: int = 100) -> list[Entry]:
        """See `Store.history`."""

        def step(db: sqlite3.Connection) -> list[Entry]:
            rows = db.execute(
                "SELECT key, epoch, event, run, boottime_ns, time, detail FROM history"
                " WHERE key = ? ORDER BY number DESC LIMIT ?",
                (key, limit),
            ).fetchall()
            return [
                Entry(row[0], row[1], row[2], row[3], Moment(row[4], row[5]), json.loads(row[6]))
                for row in reversed(rows)
            ]

        return self._run(step)

    def floor(self) -> int:
        """See `Store.floor`."""

        def step(db: sqlite3.Connection) -> int:
            return int(db.execute("SELECT max(epoch) FROM floor").fetchone()[0] or 0)

        return self._run(step)

    def wait_begin(self, key: str, identity: ProcessIdentity) -> int:
        """See `Store.wait_begin`."""

        def step(db: sqlite3.Connection) -> int:
            with _alone(db):
                found = db.execute(
                    "INSERT INTO waiter (key, identity, since) VALUES (?, ?, ?)",
                    (key, _dump(identity.to_json()), self.moment().time),
                )
            return int(found.lastrowid or 0)

        return self._run(step)

    def wait_end(self, number: int) -> None:
        """See `Store.wait_end`."""

        def step(db: sqlite3.Connection) -> None:
            with _alone(db):
                db.execute("DELETE FROM waiter WHERE number = ?", (number,))

        self._run(step)

    def waiters(self) -> list[Waiter]:
        """See `Store.waiters`."""

        def step(db: sqlite3.Connection) -> list[Waiter]:
            rows = db.execute("SELECT number, key, identity, since FROM waiter ORDER BY number")
            found = []
            for number, key, identity, since in rows.fetchall():
                if (who := from_record(json.loads(identity))) is not None:
                    found.append(Waiter(number, key, who, since))
            return found

        return self._run(step)

    def moment(self) -> Moment:
        """See `Store.moment`."""
        return local_moment()

    def close(self) -> None:
        """See `Store.close`."""
        with self._lock:
            if self._pid == os.getpid():
                self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _open(self) -> None:
        self._db, self._newer = sqlite_file.open_store(self.state)
        self._inode = sqlite_file.inode(self.state)
        self._pid = os.getpid()
        self._backed_up = time.monotonic()

    def _run(self, step: Callable[[sqlite3.Connection], _T]) -> _T:
        with self._lock:
            if self._pid != os.getpid():
                # A connection does not survive a fork: the child gets one of its own, and leaves
                # the parent's open (closing it would drop the parent's locks).
                self._open()
            try:
                return step(self._db)
            except _Replaced:
                # Somebody set a damaged file aside, or removed it: ours is not the store any more.
                self._db.close()
                self._open()
                return step(self._db)
            except sqlite3.DatabaseError as error:
                if not sqlite_file.is_damage(error):
                    raise self._unusable(error) from error
                self._db.close()
                sqlite_file.set_aside(self.state, error)
                self._open()
                return step(self._db)

    def _unusable(self, error: sqlite3.DatabaseError) -> Exception:
        if self._newer:
            return StoreReadOnly(sqlite_file.newer_sentence(self.state, self._newer))
        return StoreUnusable(f"the lease store in {self.state} cannot be used: {error}")

    def _backup_when_due(self) -> None:
        if time.monotonic() - self._backed_up >= sqlite_file.BACKUP_EVERY:
            self._backed_up = time.monotonic()
            with self._lock:
                sqlite_file.back_up(self.state, self._db)


class _Replaced(Exception):
    """The file that is open is not the one that has the store's name."""


@contextlib.contextmanager
def _alone(db: sqlite3.Connection) -> Iterator[None]:
    """A transaction that nobody else can be in; durable when it is left, undone by an error."""
    due = time.monotonic() + BUSY_BOUND
    while True:
        try:
            db.execute("BEGIN IMMEDIATE")
            break
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= due:
                raise
        # SQLite's own waits grow to 100 ms, while a change takes a fraction of one: eight writers
        # would mostly sleep. Nothing tells when the lock is free, so this asks again.
        time.sleep(random.uniform(0.0002, 0.001))
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _write(
    db: sqlite3.Connection, lease: Lease, entry: Entry, found: Stored | None, doubt: int | None
) -> None:
    db.execute(
        f"INSERT INTO lease ({_LEASE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        if found is None
        else "UPDATE lease SET key = ?, epoch = ?, state = ?, holder = ?, verdict = ?,"
        " since_ns = ?, since = ?, doubt = ? WHERE key = ?",
        (
            lease.key,
            lease.epoch,
            lease.state,
            _dump(lease.holder.to_json()) if lease.holder else None,
            _dump(lease.verdict.to_json()) if lease.verdict else None,
            lease.since.boottime_ns,
            lease.since.time,
            doubt,
            *(() if found is None else (lease.key,)),
        ),
    )
    db.execute(
        "INSERT INTO history (key, epoch, event, run, boottime_ns, time, detail)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            entry.key,
            entry.epoch,
            entry.event,
            entry.run,
            entry.at.boottime_ns,
            entry.at.time,
            _dump(dict(entry.detail)),
        ),
    )
    if entry.event == "reserved" and lease.epoch % _PRUNE_EVERY == 0:
        db.execute(
            "DELETE FROM history WHERE key = ?1 AND number <="
            " (SELECT number FROM history WHERE key = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2)",
            (lease.key, KEPT),
        )


def _stored(row: tuple[Any, ...]) -> Stored:
    key, epoch, state, holder, verdict, since_ns, since, doubt = row
    lease = Lease(
        key=key,
        epoch=epoch,
        state=state,
        holder=Holder.from_json(json.loads(holder)) if holder else None,
        verdict=Verdict.from_json(json.loads(verdict)) if verdict else None,
        since=Moment(since_ns, since),
    )
    return Stored(lease, doubt)


def _dump(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))
