"""What all pages show, as rows with versions: a reader is told what changed since it last asked.

Nothing is queued for anybody. A reader holds a number; whoever reads slowly skips what was in
between and gets the latest of each row, and whoever was away too long gets everything anew. So no
reader costs memory or holds up another.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from typing import Any, Final

import msgspec

from lastout.changes import Changes

__all__ = ["KINDS", "Board"]

KINDS: Final = ("runs", "leases", "jobs", "services")
_MOST_GONE: Final = 4096

_encode = msgspec.json.Encoder().encode


class Board:
    """Rows by kind and name. Everything happens on one event loop."""

    def __init__(self) -> None:
        self.instance = secrets.token_hex(8)
        """Another one after every start: versions of one mean nothing to the other."""
        self.version = 1
        self.changed = Changes()
        self.ready = False
        self._rows: OrderedDict[tuple[str, str], tuple[int, bytes | None]] = OrderedDict()
        self._gone: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._forgotten = 0

    def put(self, kind: str, name: str, row: dict[str, Any]) -> None:
        """Set a row; one that says the same as before is no change."""
        data, key = _encode(row), (kind, name)
        before = self._rows.get(key)
        if before is not None and before[1] == data:
            return
        self._gone.pop(key, None)
        self._set(key, data)

    def remove(self, kind: str, name: str) -> None:
        """Take a row away."""
        key = (kind, name)
        before = self._rows.get(key)
        if before is None or before[1] is None:
            return
        self._set(key, None)
        self._gone[key] = None
        while len(self._gone) > _MOST_GONE:
            oldest, _ = self._gone.popitem(last=False)
            self._forgotten = max(self._forgotten, self._rows.pop(oldest)[0])

    def _set(self, key: tuple[str, str], data: bytes | None) -> None:
        self.version += 1
        self._rows[key] = (self.version, data)
        self._rows.move_to_end(key)
        self.changed.announce()

    def settle(self) -> None:
        """From here on what is there is everything that is there."""
        self.ready = True
        self.version += 1
        self.changed.announce()

    def names(self, kind: str) -> list[str]:
        """The names of the rows of a kind."""
        return [key[1] for key, (_, data) in self._rows.items() if key[0] == kind and data]

    def get(self, kind: str, name: str) -> bytes | None:
        """One row."""
        return self._rows.get((kind, name), (0, None))[1]

    def since(self, version: int | None) -> tuple[bytes, bool]:
        """What changed after a version, as JSON, and whether that is everything (None, or one from
        which on not all is known any more)."""
        whole = version is None or version < self._forgotten or version > self.version
        rows: dict[str, list[bytes]] = {kind: [] for kind in KINDS}
        gone: list[tuple[str, str]] = []
        for key, (at, data) in reversed(self._rows.items()):
            if not whole and at <= (version or 0):
                break
            if data is not None:
                rows[key[0]].append(data)
            elif not whole:
                gone.append(key)
        parts = [f'"{kind}":['.encode() + b",".join(found) + b"]" for kind, found in rows.items()]
        parts.append(b'"gone":' + _encode(gone))
        parts.append(f'"ready":{str(self.ready).lower()},"now":{time.time() * 1000:.1f}'.encode())
        return b"{" + b",".join(parts) + b"}", whole
