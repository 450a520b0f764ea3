"""What a host must not forget: its conversations, and every message with what became of it.

One SQLite file per state directory, shared by all hosts that use it. A commit survives the crash of
every process; the last ones may be lost with the machine's power (WAL, synchronous=NORMAL), and
then the agent's own transcript says what it has.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from lastout.agents.dialogue import Options
from lastout.host.errors import HostError
from lastout.identity import ProcessIdentity, from_record

__all__ = ["ENDED", "Kept", "KeptMessage", "Ledger", "LedgerFailed", "MessageState"]

MessageState = Literal[
    "queued", "delivering", "delivered", "completed", "interrupted", "failed", "returned"
]
ENDED: Final[frozenset[str]] = frozenset({"completed", "interrupted", "failed", "returned"})

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS conversations (
    key TEXT PRIMARY KEY, agent TEXT NOT NULL, cwd TEXT NOT NULL, options TEXT NOT NULL,
    native TEXT, opened TEXT, rewind_to TEXT
) STRICT;
CREATE TABLE IF NOT EXISTS messages (
    number INTEGER PRIMARY KEY, key TEXT NOT NULL, id TEXT NOT NULL, text TEXT NOT NULL,
    state TEXT NOT NULL, reason TEXT, turn TEXT, run TEXT, answer TEXT NOT NULL DEFAULT '',
    host TEXT NOT NULL, UNIQUE (key, id)
) STRICT;
CREATE INDEX IF NOT EXISTS open_messages ON messages (key)
    WHERE state IN ('queued', 'delivering', 'delivered');
PRAGMA user_version = 1;
"""
_VERSION: Final = 1
_BUSY: Final = 5.0  # seconds that one host waits while another writes


@dataclass(frozen=True, slots=True)
class Kept:
    """A conversation as it is stored. `native` is the agent's own name for it.

    `opened` is the name that it had at the last start. It becomes `native` with the first message:
    before, the agent itself has nothing that could be resumed.
    """

    key: str
    agent: str
    cwd: str
    options: Options
    native: str | None = None
    opened: str | None = None
    rewind_to: str | None = None


@dataclass(frozen=True, slots=True)
class KeptMessage:
    """A message as it is stored. `host` is the process that took it from its caller."""

    key: str
    id: str
    text: str
    state: MessageState
    reason: str | None
    turn: str | None
    run: str | None
    answer: str
    host: ProcessIdentity | None


class LedgerFailed(HostError, OSError):
    """The conversations' file cannot be read or written (a full disk, a damaged file)."""


class Ledger:
    """The file. Every method is one transaction. All of them raise LedgerFailed."""

    def __init__(self, state: str | os.PathLike[str]) -> None:
        """Opens it, and makes it where it is missing. Raises ValueError for a newer version's."""
        path = os.path.join(os.fspath(state), "conversations.sqlite3")
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._db = sqlite3.connect(
            path, timeout=_BUSY, isolation_level=None, check_same_thread=False
        )
        self._path = path
        self._execute("PRAGMA journal_mode=WAL")
        self._execute("PRAGMA synchronous=NORMAL")
        version = self._execute("PRAGMA user_version").fetchone()[0]
        if version > _VERSION:
            self._db.close()
            raise ValueError(f"{path} was written by a newer version of lastout; use that one")
        if version < _VERSION:
            with self._transaction():
                for statement in filter(str.strip, _SCHEMA.split(";")):
                    self._execute(statement)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def conversation(self, key: str) -> Kept | None:
        """One conversation, or None."""
        row = self._execute(
            "SELECT key, agent, cwd, options, native, opened, rewind_to FROM conversations WHERE key = ?",
            (key,),
        ).fetchone()
        return None if row is None else _kept(row)

    def conversations(self) -> list[Kept]:
        """All of them, by key."""
        rows = self._execute(
            "SELECT key, agent, cwd, options, native, opened, rewind_to FROM conversations ORDER BY key"
        )
        return [_kept(row) for row in rows]

    def keep(self, kept: Kept) -> None:
        """Write a conversation, new or changed."""
        options = msgspec.json.encode(kept.options.given()).decode()
        self._execute(
            "INSERT INTO conversations (key, agent, cwd, options, native, opened, rewind_to) "
            "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET agent = excluded.agent, "
            "cwd = excluded.cwd, options = excluded.options, native = excluded.native, "
            "opened = excluded.opened, rewind_to = excluded.rewind_to",
            (kept.key, kept.agent, kept.cwd, options, kept.native, kept.opened, kept.rewind_to),
        )

    def forget(self, key: str) -> None:
        """Delete a conversation with its messages; what its agent has of it stays."""
        with self._transaction():
            self._execute("DELETE FROM messages WHERE key = ?", (key,))
            self._execute("DELETE FROM conversations WHERE key = ?", (key,))

    def take(
        self, key: str, identity: str, text: str, host: ProcessIdentity
    ) -> tuple[KeptMessage, bool]:
        """Take a message in, or recognise it: the message, and whether it was taken just now.

        One that was returned is taken again; any other is given back as it stands. Raises
        ValueError when this id was used for another text.
        """
        with self._transaction():
            known = self.message(key, identity)
            if known is not None and known.text != text:
                raise ValueError(f"message id {identity!r} was used for another text")
            if known is None:
                self._execute(
                    "INSERT INTO messages (key, id, text, state, host) "
                    "VALUES (?, ?, ?, 'queued', ?)",
                    (key, identity, text, _encode(host)),
                )
            elif known.state == "returned":
                self._execute(
                    "UPDATE messages SET state = 'queued', reason = NULL, host = ? "
                    "WHERE key = ? AND id = ?",
                    (_encode(host), key, identity),
                )
            else:
                return known, False
        taken = self.message(key, identity)
        assert taken is not None
        return taken, True

    def message(self, key: str, identity: str) -> KeptMessage | None:
        """One message, or None."""
        rows = self._messages("key = ? AND id = ?", (key, identity))
        return rows[0] if rows else None

    def open_messages(self, key: str | None = None) -> list[KeptMessage]:
        """Those of which nobody has said yet how they ended, in the order in which they came."""
        where = "state IN ('queued', 'delivering', 'delivered')"
        return self._messages(*((where, ()) if key is None else (where + " AND key = ?", (key,))))

    def move(self, key: str, identity: str, state: MessageState, **fields: str | None) -> None:
        """Write what became of a message; `fields` are reason, turn, run and answer."""
        names = [name for name in ("reason", "turn", "run", "answer") if name in fields]
        changes = ", ".join(f"{name} = ?" for name in ("state", *names))
        self._execute(
            f"UPDATE messages SET {changes} WHERE key = ? AND id = ?",
            (state, *(fields[name] for name in names), key, identity),
        )

    def _execute(self, statement: str, values: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        try:
            return self._db.execute(statement, values)
        except sqlite3.Error as error:
            raise LedgerFailed(f"{self._path}: {error}") from error

    def _messages(self, where: str, values: tuple[Any, ...]) -> list[KeptMessage]:
        rows = self._execute(
            "SELECT key, id, text, state, reason, turn, run, answer, host FROM messages "
            f"WHERE {where} ORDER BY number",
            values,
        )
        return [
            KeptMessage(*row[:-1], from_record(msgspec.json.decode(row[-1])))  # type: ignore[call-arg]
            for row in rows
        ]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._execute("ROLLBACK")
            raise
        self._execute("COMMIT")


def _kept(row: tuple[Any, ...]) -> Kept:
    key, agent, cwd, options, native, opened, rewind_to = row
    given = Options().updated(msgspec.json.decode(options))
    return Kept(key, agent, cwd, given, native, opened, rewind_to)


def _encode(identity: ProcessIdentity) -> str:
    return msgspec.json.encode(identity.to_json()).decode()
