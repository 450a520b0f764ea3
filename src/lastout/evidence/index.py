"""An index of all records in SQLite, so that a run among many is found at once.

It holds nothing that the files do not: it can be deleted at any time, and is made anew when it is
missing, broken, or of another version. It is never in the way of a run; nothing is written to it
while one goes on.
"""

from __future__ import annotations

import os
import sqlite3
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from lastout.evidence import journal
from lastout.evidence.find import directories, records_in
from lastout.evidence.summary import Summary, summarise
from lastout.state import locate

__all__ = ["Index", "Row"]

_FIELDS = Summary.__struct_fields__
_VERSION = zlib.crc32(f"2 {_FIELDS}".encode()) >> 1
"""Another number with every change of the table, so that no release reads another's."""
_REST_NS = 60_000_000_000
"""A record that had its end and was not written to for this long is not looked at again."""
_BATCH = 2000
# What is known of a record: it may grow; it had its end and rests; it has no end and rests.
_MOVES, _SETTLED, _RESTS = 0, 1, 2
_NEW = (-1, -1, _MOVES)
_IN_DIRECTORY = "SELECT path FROM runs WHERE path >= ? AND path < ?"

_SCHEMA = f"""
CREATE TABLE runs (
    path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
    settled INTEGER NOT NULL, {", ".join(_FIELDS)}
) WITHOUT ROWID;
CREATE TABLE directories (path TEXT PRIMARY KEY, mtime_ns INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX unsettled ON runs (settled) WHERE settled != {_SETTLED};
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
        """Take in what is new or has grown since the last time; the number of records read.

        A directory in which nothing was added or removed is not listed again; of its records only
        those are looked at that have not had their end.
        """
        read = 0
        rows: list[tuple[Any, ...]] = []
        with self._written() as db:
            for path, size, mtime_ns, settled in self._candidates(db):
                try:
                    found = os.lstat(path)
                except FileNotFoundError:
                    db.execute("DELETE FROM runs WHERE path = ?", (path,))
                    continue
                same = (size, mtime_ns) == (found.st_size, found.st_mtime_ns)
                # One that has come to rest is read once more, to be settled.
                if same and (settled == _RESTS or not _at_rest(found.st_mtime_ns)):
                    continue
                try:
                    rows.append(_row(path, found))
                except FileNotFoundError:
                    continue  # pruned under our eyes
                read += 1
                if len(rows) >= _BATCH:
                    _insert(db, rows)
                    rows.clear()
            _insert(db, rows)
        return read

    def _candidates(self, db: sqlite3.Connection) -> Iterator[tuple[str, int, int, int]]:
        """Records that are new, or may have grown, with what is known of them."""
        listed = dict(db.execute("SELECT path, mtime_ns FROM directories"))
        for path, mtime_ns in directories(self.state):
            if listed.pop(path, None) == mtime_ns:
                continue
            known = {row[0]: row for row in db.execute(_IN_DIRECTORY, (path + "/", path + "0"))}
            for record in records_in(path):
                before = known.pop(record.path, None)
                if before is None:
                    yield (record.path, *_NEW)
            db.executemany("DELETE FROM runs WHERE path = ?", ((gone,) for gone in known))
            # Something added in the same tick of the file system's clock would not show: later.
            if _at_rest(mtime_ns):
                db.execute("INSERT OR REPLACE INTO directories VALUES (?, ?)", (path, mtime_ns))
        for path in listed:
            db.execute("DELETE FROM directories WHERE path = ?", (path,))
            db.execute("DELETE FROM runs WHERE path >= ? AND path < ?", (path + "/", path + "0"))
        yield from db.execute(
            f"SELECT path, size, mtime_ns, settled FROM runs WHERE settled != {_SETTLED}"
        ).fetchall()

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


def _at_rest(mtime_ns: int) -> bool:
    return time.time_ns() - mtime_ns > _REST_NS


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
    if _at_rest(found.st_mtime_ns):
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
