"""The services as rows: what is provisioned, and how its newest activation is."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Any, Final

from lastout.evidence.watch import Watch
from lastout.services.layout import activations_directory, names, service_directory
from lastout.services.store import Status, open_services
from lastout.web.board import Board
from lastout.web.plain import command, plain
from lastout.web.view import wall_ms

__all__ = ["Provisioned"]

_TOGETHER_S: Final = 0.05
_OUTPUT: Final = "output.log"


class Provisioned:
    """The rows of the kind `services`."""

    def __init__(self, state: str, board: Board, watch: Watch) -> None:
        self._state = state
        self._board = board
        self._watch = watch
        self._wanted = asyncio.Event()
        self.directory = os.path.join(state, "services")

    def touch(self, path: str) -> None:
        """Something below the services' directory has changed."""
        if not path.endswith(_OUTPUT):  # how much a service prints is not shown here
            self._wanted.set()

    async def keep_up(self) -> None:
        """Read the services whenever one has changed, for ever."""
        while True:
            await self._wanted.wait()
            await asyncio.sleep(_TOGETHER_S)
            self._wanted.clear()
            await self.load()

    async def load(self) -> None:
        """Read all services now. What cannot be read leaves the rows as they are."""
        if not self._watch_all():
            return
        try:
            rows = await asyncio.to_thread(self._read)
        except Exception:
            return
        for name in set(self._board.names("services")) - rows.keys():
            self._board.remove("services", name)
        for name, row in rows.items():
            self._board.put("services", name, row)
            if row["activation"]:
                self._add(os.path.join(activations_directory(self._state, name), row["activation"]))

    def _watch_all(self) -> bool:
        if not os.path.isdir(self.directory):
            return False  # nobody has provisioned one yet
        self._add(self.directory)
        for name in names(self._state):
            self._add(service_directory(self._state, name))
            self._add(activations_directory(self._state, name))
        return True

    def _add(self, directory: str) -> None:
        with contextlib.suppress(OSError):
            self._watch.add(directory)

    def _read(self) -> dict[str, dict[str, Any]]:
        rows = {}
        for one in open_services(self._state).statuses():
            if isinstance(one, Status):
                rows[one.definition.name] = _row(one)
            else:
                rows[one[0]] = {**_NOTHING, "id": one[0], "note": plain(one[1])}
        return rows


_NOTHING: Final[dict[str, Any]] = {
    "command": "",
    "manager": "",
    "state": "unreadable",
    "activation": None,
    "run": None,
    "requested": None,
    "ended": None,
    "failed": None,
    "why": None,
}


def _row(status: Status) -> dict[str, Any]:
    definition, found = status.definition, status.found
    row = {
        **_NOTHING,
        "id": definition.name,
        "command": command(definition.argv, 200),
        "manager": definition.manager,
        "state": status.state,
        "note": status.note and plain(status.note),
    }
    if found is None:
        return row
    done = found.completion
    attempts = found.activation.attempts
    row |= {
        "activation": found.activation.id,
        "run": done.run if done else attempts[-1].run if attempts else None,
        "requested": wall_ms(found.activation.requested_at),
    }
    if done is not None:
        row |= {
            "ended": wall_ms(done.ended_at or ""),
            "failed": done.failed,
            "why": plain(done.why),
        }
    return row
