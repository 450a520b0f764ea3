"""An index of all records in SQLite, so that a run among many is found at once.

It holds nothing that the files do not: it can be deleted at any time, and is made anew when it is
missing, broken, or of another version. It is never in the way of a run; nothing is written to it
while one goes on.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from lastout.evidence import journal
from lastout.evidence.find import records
from lastout.evidence.summary import Summary, summarise
from lastout.state import locate

__all__ = ["Index", "Row"]

_VERSION = 1
_FIELDS = Summary.__struct_fields__
_REST_NS = 60_000_000_000
"""A record that had its end and was not written to for this long is not looked at again."""
_BATCH = 2000
# What is known of a record: it may grow; it had its end and rests; it has no end and rests.
_MOVES, _SETTLED, _RESTS = 0, 1, 2
_NEW = (-1, -1, _MOVES)

_SCHEMA = f"""
CREATE TABLE runs (
    path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
    settled INTEGER NOT NULL, {", ".join(_FIELDS)}
) WITHOUT ROWID;
CREATE INDEX by_run ON runs (run);
CREATE INDEX by_key ON runs (key, began_us) WHERE key IS NOT NULL;
CREATE INDEX by_time ON runs (began_us);
PRAGMA user_version = {_VERSION};
"""


class Row(Summary, frozen=True, kw_only=True):
    """A run's summary, and where its record is."""

    path: str
    size: int = 0


class Index:
    """The index of one state directory. Use it as a context manager, or close it."""

    def __init__(self, state: str | os.PathLike[str] | None = None) -> None:
        """Opens the index, and makes it (0600) where it is missing. Raises OSError."""
        self.state = locate(state)
        self.path = os.path.join(self.state, "index.sqlite3")
        self._db = self._open()

    def refresh(self) -> int:
        """Take in what is new or has grown since the last time; the number of records read."""
        with self._written() as db:
            known = {
                path: (size, mtime, settled)
                for path, size, mtime, settled in db.execute(
                    "SELECT path, size, mtime_ns, settled FROM runs"
                )
            }
            gone = set(known)
            rows: list[tuple[Any, ...]] = []
            read = 0
            for entry in records(self.state):
                gone.discard(entry.path)
                before = known.get(entry.path, _NEW)
                if before[2] == _SETTLED:
                    continue
                try:
                    found = entry.stat(follow_symlinks=False)
                    same = before[:2] == (found.st_size, found.st_mtime_ns)
                    # One that has come to rest is read once more, to be settled.
                    if same and (before[2] == _RESTS or not _at_rest(found)):
                        continue
                    rows.append(_row(entry.path, found))
                except FileNotFoundError:
                    continue  # pruned under our eyes
                read += 1
                if len(rows) >= _BATCH:
                    _insert(db, rows)
                    rows.clear()
            _insert(db, rows)
            db.executemany("DELETE FROM runs WHERE path = ?", ((path,) for path in gone))
        return read

    def rebuild(self) -> int:
        """Forget everything and read all records again; how many there are."""
        self._db.close()
        _remove(self.path)
        self._db = self._open()
        return self.refresh()

    def rows(
        self,
        *,
        key: str | None = None,
        command: str | None = None,
        since_us: int | None = None,
        until_us: int | None = None,
        state: str | None = None,
        verdict: str | None = None,
        limit: int | None = None,
    ) -> list[Row]:
        """Runs that match, the newest first. `command` may stand anywhere in the command line."""
        conditions: list[tuple[str, Any]] = [
            ("key = ?", key),
            ("instr(command, ?) > 0", command),
            ("began_us >= ?", since_us),
            ("began_us < ?", until_us),
            ("state = ?", state),
            ("verdict = ?", verdict),
        ]
        used = [(text, value) for text, value in conditions if value is not None]
        where = " AND ".join(text for text, _ in used) or "1"
        order = "ORDER BY began_us DESC, run DESC LIMIT ?"
        return self._select(f"{where} {order}", [value for _, value in used] + [limit or -1])

    def open_or_unproven(self) -> list[Row]:
        """Runs that are live, unproven, or of which nobody knows."""
        return self._select("state IN ('open', 'unproven')", [])

    def query(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """A question in SQL about the table `runs`, for exports and one's own statistics."""
        return self._db.execute(sql, values).fetchall()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _select(self, where: str, values: list[Any]) -> list[Row]:
        names = ("path", "size", *_FIELDS)
        found = self._db.execute(f"SELECT {', '.join(names)} FROM runs WHERE {where}", values)
        return [Row(**dict(zip(names, row, strict=True))) for row in found]

    def _open(self) -> sqlite3.Connection:
        try:
            return _connect(self.path)
        except sqlite3.DatabaseError:
            # Broken, or of another version: there is nothing in it that the files do not have.
            _remove(self.path)
            return _connect(self.path)

    @contextmanager
    def _written(self) -> Iterator[sqlite3.Connection]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
                raise
            self._db.close()
            _remove(self.path)
            self._db = _connect(self.path)
            self._db.execute("BEGIN IMMEDIATE")
        try:
            yield self._db
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")


def _connect(path: str) -> sqlite3.Connection:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    db = sqlite3.connect(path, timeout=10, isolation_level=None)
    try:
        # What a crash takes away is made again from the files.
        db.execute("PRAGMA synchronous = OFF")
        db.execute("PRAGMA journal_mode = WAL")
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version == 0 and not db.execute("SELECT 1 FROM sqlite_schema").fetchone():
            db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")
        elif version != _VERSION:
            raise sqlite3.DatabaseError(f"version {version} of the index")
    except BaseException:
        db.close()
        raise
    return db


def _remove(path: str) -> None:
    for name in (path, path + "-wal", path + "-shm"):
        try:
            os.unlink(name)
        except FileNotFoundError:
            pass


def _at_rest(found: os.stat_result) -> bool:
    return time.time_ns() - found.st_mtime_ns > _REST_NS


def _row(path: str, found: os.stat_result) -> tuple[Any, ...]:
    try:
        summary = summarise(journal.read(path))
    except PermissionError:
        summary = Summary(run="", state="open")
    if not summary.run:
        # A record without a single readable line is still a record.
        name = os.path.basename(path).removesuffix(".jsonl")
        summary = Summary(run=name, state="open", problems=summary.problems)
    settled = _MOVES
    if _at_rest(found):
        settled = _SETTLED if summary.state in ("ended", "not-started") else _RESTS
    return (
        path,
        found.st_size,
        found.st_mtime_ns,
        settled,
        *(getattr(summary, name) for name in _FIELDS),
    )


def _insert(db: sqlite3.Connection, rows: list[tuple[Any, ...]]) -> None:
    marks = ", ".join("?" * (4 + len(_FIELDS)))
    db.executemany(f"INSERT OR REPLACE INTO runs VALUES ({marks})", rows)
