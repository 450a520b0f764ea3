"""The file of the SQLite store: made, migrated, backed up, and restored when it is damaged.

A damaged file is kept aside untouched. What replaces it is the last backup with every epoch raised,
so that no epoch that was granted after the backup can be granted again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from importlib.resources import files
from typing import Final

from lastout.leases.filesystem import refuse_foreign
from lastout.leases.refusals import StoreDamaged, StoreUnusable

__all__ = [
    "BACKUP_EVERY",
    "RAISE",
    "back_up",
    "inode",
    "is_damage",
    "newer_sentence",
    "open_store",
    "set_aside",
]

BACKUP_EVERY: Final = 600.0
"""Seconds between two backups while there are changes."""

RAISE: Final = 1 << 20
"""By how much a restore raises every epoch: more than anybody grants between two backups."""

_NAME: Final = "leases.sqlite3"


def open_store(state: str) -> tuple[sqlite3.Connection, int]:
    """A connection, and the schema's number when it is newer than this program (else 0).

    Raises StoreUnusable for a directory that cannot be used, StoreDamaged when there is no backup
    to restore from.
    """
    os.makedirs(state, mode=0o700, exist_ok=True)
    refuse_foreign(state)
    try:
        return _open_checked(state)
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise StoreUnusable(f"the lease store in {state} cannot be used: {error}") from error
        set_aside(state, error)
    try:
        return _open_checked(state)
    except sqlite3.DatabaseError as error:
        raise StoreUnusable(f"the lease store in {state} cannot be used: {error}") from error


def inode(state: str) -> int:
    """Which file has the store's name now; 0 when none has."""
    try:
        return os.stat(os.path.join(state, _NAME)).st_ino
    except OSError:
        return 0


def is_damage(error: sqlite3.DatabaseError) -> bool:
    """Whether an error says that the file itself is broken."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def newer_sentence(state: str, number: int) -> str:
    """What a user of an older version is told."""
    return (
        f"{os.path.join(state, _NAME)} was written by a newer version (schema {number}, this one "
        f"knows {_migrations()[-1][0]}): it can be listed, and nothing is changed; upgrade lastout"
    )


def back_up(state: str, db: sqlite3.Connection) -> None:
    """Write the backup beside the store, whole or not at all. A full disk only leaves the old."""
    target = _backup(state)
    fresh = f"{target}.{os.getpid()}"
    try:
        with contextlib.closing(sqlite3.connect(fresh)) as copy:
            db.backup(copy)
        with open(fresh, "rb") as file:
            os.fsync(file.fileno())
        os.replace(fresh, target)
    except (OSError, sqlite3.Error):
        with contextlib.suppress(OSError):
            os.unlink(fresh)


def set_aside(state: str, error: sqlite3.DatabaseError) -> None:
    """Keep a damaged store under another name, and put the backup in its place.

    Everybody who meets the damage comes here, one at a time: who finds a sound file again has
    nothing to do. Raises StoreDamaged when there is no backup that can be read.
    """
    with _repairing(state):
        try:
            _open_checked(state)[0].close()
            return
        except sqlite3.DatabaseError as again:
            if not is_damage(again):
                raise StoreUnusable(
                    f"the lease store in {state} cannot be used: {again}"
                ) from again
        path, backup = os.path.join(state, _NAME), _backup(state)
        kept = _free_name(path + ".damaged")
        restored = f"{backup}.restore"
        try:
            _raised_copy(backup, restored)
        except (OSError, sqlite3.DatabaseError) as missing:
            raise StoreDamaged(
                f"{path} is damaged ({error}) and its backup cannot be used ({missing}); see that "
                "no agent of yours is running, move the file away, and start again"
            ) from error
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.rename(path + suffix, kept + suffix)
        os.rename(restored, path)


def _open_checked(state: str) -> tuple[sqlite3.Connection, int]:
    path = os.path.join(state, _NAME)
    db = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA busy_timeout = 10000")
        known = _migrations()[-1][0]
        number = int(db.execute("PRAGMA user_version").fetchone()[0])
        if number > known:
            db.execute("PRAGMA query_only = ON")
            return db, number
        if number == 0:
            with contextlib.suppress(OSError):
                os.chmod(path, 0o600)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        if number < known:
            _migrate(db)
        found = db.execute("PRAGMA quick_check('lease')").fetchone()[0]
        if found != "ok":
            raise _Damage(found)
        _backup_at_open(state, db)
        db.execute("PRAGMA busy_timeout = 0")
    except BaseException:
        db.close()
        raise
    return db, 0


class _Damage(sqlite3.DatabaseError):
    sqlite_errorcode = sqlite3.SQLITE_CORRUPT


def _migrations() -> list[tuple[int, str]]:
    """The numbered files of `sql/`, in order."""
    found = []
    for file in files("lastout.leases").joinpath("sql").iterdir():
        number, _, rest = file.name.partition("_")
        if number.isdigit() and rest.endswith(".sql"):
            found.append((int(number), file.read_text(encoding="utf-8")))
    return sorted(found)


def _migrate(db: sqlite3.Connection) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        # Read again: somebody else may have migrated while we waited.
        number = int(db.execute("PRAGMA user_version").fetchone()[0])
        for step, text in _migrations():
            if step <= number:
                continue
            for statement in _statements(text):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {step}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _statements(text: str) -> Iterator[str]:
    pending = ""
    for line in text.splitlines(keepends=True):
        pending += line
        if line.rstrip().endswith(";") and sqlite3.complete_statement(pending):
            yield pending
            pending = ""


def _backup(state: str) -> str:
    return os.path.join(state, _NAME + ".backup")


def _backup_at_open(state: str, db: sqlite3.Connection) -> None:
    """Processes are short: the file's age decides. A clock that was set makes one too many."""
    try:
        age = abs(time.time() - os.stat(_backup(state)).st_mtime)
    except FileNotFoundError:
        age = BACKUP_EVERY
    except OSError:
        return
    if age >= BACKUP_EVERY:
        back_up(state, db)


def _raised_copy(backup: str, target: str) -> None:
    """The backup with every epoch raised, whole and durable under `target`."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(target)
    source = sqlite3.connect(f"file:{backup}?mode=ro", uri=True)
    with contextlib.closing(source), contextlib.closing(sqlite3.connect(target)) as copy:
        source.backup(copy)
        if copy.execute("PRAGMA quick_check").fetchone()[0] != "ok":
            raise _Damage("the backup is damaged too")
        with copy:
            copy.execute(
                "UPDATE lease SET epoch = epoch + ?, doubt = coalesce(doubt, epoch)",
                (RAISE,),
            )
            copy.execute("UPDATE floor SET epoch = epoch + ?", (RAISE,))
    with open(target, "rb") as file:
        os.fsync(file.fileno())


@contextlib.contextmanager
def _repairing(state: str) -> Iterator[None]:
    fd = os.open(
        os.path.join(state, _NAME + ".repair"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
    )
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _free_name(path: str) -> str:
    number = 1
    while os.path.exists(f"{path}.{number}"):
        number += 1
    return f"{path}.{number}"
