"""The leases as rows: who holds which key, since when, at which epoch, and how the last one ended."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any, Final

from lastout.identity import Alive, still_alive
from lastout.leases.model import Entry, Lease
from lastout.leases.store import Store
from lastout.sole_writer import open_store
from lastout.verdict import SENTENCES, Verdict
from lastout.web.board import Board
from lastout.web.plain import clean, plain
from lastout.web.view import wall_ms

__all__ = ["FILE", "Leases"]

FILE: Final = "leases.sqlite3"
"""What changes in the state directory when a lease does begins with this name."""

_FREE: Final = 50
"""So many keys that nobody holds are shown, those that were given back last."""
_TOGETHER_S: Final = 0.03


class Leases:
    """The rows of the kind `leases`."""

    def __init__(self, state: str, board: Board) -> None:
        self._state = state
        self._board = board
        self._wanted = asyncio.Event()
        self.elsewhere: dict[str, str] = {}
        """The runs that leases name and whose records lie outside the state directory, by path."""

    def touch(self) -> None:
        """Something in the store has changed."""
        self._wanted.set()

    async def keep_up(self, read: Callable[[], None]) -> None:
        """Read the store whenever it has changed, and call `read` then; for ever."""
        while True:
            await self._wanted.wait()
            await asyncio.sleep(_TOGETHER_S)  # one change is several writes
            self._wanted.clear()
            await self.load()
            read()

    async def load(self) -> None:
        """Read all leases now. A store that cannot be read leaves the rows as they are."""
        try:
            rows, elsewhere = await asyncio.to_thread(self._read)
        except Exception:
            return
        self.elsewhere |= elsewhere  # what was given back may still get its last lines
        for name in set(self._board.names("leases")) - rows.keys():
            self._board.remove("leases", name)
        for name, row in rows.items():
            self._board.put("leases", name, row)

    def held(self, run: str) -> Lease | None:
        """The lease that a run holds. Blocks for a moment; raises what the store raises."""
        store = self._store()
        leases = store.leases() if store else []
        return next((one for one in leases if one.holder and one.holder.run == run), None)

    def history(self, key: str) -> list[dict[str, Any]]:
        """What became of a key, the newest first. Blocks for a moment."""
        store = self._store()
        entries = store.history(key) if store else []
        return [_entry(one) for one in reversed(entries)]

    def _store(self) -> Store | None:
        # Looking must not make one.
        if not os.path.exists(os.path.join(self._state, FILE)):
            return None
        return open_store(self._state)

    def _read(self) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
        store = self._store()
        if store is None:
            return {}, {}
        leases = store.leases()
        waiting: dict[str, list[dict[str, Any]]] = {}
        for one in store.waiters():
            if still_alive(one.identity) is not Alive.NO:
                told = {"pid": one.identity.pid, "since": wall_ms(one.since)}
                waiting.setdefault(one.key, []).append(told)
        free = sorted((one for one in leases if one.free), key=lambda one: one.since.time)
        shown = [one for one in leases if not one.free] + free[-_FREE:]
        inside = os.path.join(self._state, "runs", "")
        elsewhere = {
            held.record: held.run
            for one in shown
            if (held := one.holder) is not None
            and held.record is not None
            and not held.record.startswith(inside)
        }
        return {_name(one.key): _row(one, waiting.get(one.key, [])) for one in shown}, elsewhere


def _name(key: str) -> str:
    """The key itself, where it can be sent."""
    try:
        key.encode()
    except UnicodeEncodeError:
        return plain(key)
    return key


def _row(lease: Lease, waiting: list[dict[str, Any]]) -> dict[str, Any]:
    held = lease.holder
    return {
        "id": _name(lease.key),
        "key": plain(lease.key),
        "epoch": lease.epoch,
        "state": lease.state,
        "since": wall_ms(lease.since.time),
        "run": plain(held.run) if held else None,
        "owner": held.owner.pid if held and held.owner else None,
        "writer": held.writer.pid if held and held.writer else None,
        "host": plain(held.host) if held else None,
        "verdict": _verdict(lease.verdict),
        "waiting": waiting,
    }


def _verdict(verdict: Verdict | None) -> dict[str, Any] | None:
    if verdict is None:
        return None
    return {
        "kind": verdict.kind,
        "settled": verdict.settled,
        "sentence": plain(SENTENCES.get(verdict.how, verdict.how)),
    }


def _entry(entry: Entry) -> dict[str, Any]:
    detail = clean(dict(entry.detail))
    how = detail.get("how")
    return {
        "epoch": entry.epoch,
        "event": plain(entry.event),
        "run": entry.run and plain(entry.run),
        "at": wall_ms(entry.at.time),
        "sentence": SENTENCES.get(how) if isinstance(how, str) else detail.get("reason"),
    }
