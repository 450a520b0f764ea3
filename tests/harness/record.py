"""Reads a record while it grows: inotify(7) says when there is more."""

from __future__ import annotations

import ctypes
import json
import os
from pathlib import Path
from typing import Any

from harness.hub import Hub

Event = dict[str, Any]

_IN_MODIFY, _IN_CREATE = 0x2, 0x100
_libc = ctypes.CDLL(None, use_errno=True)


class Lines:
    """JSON lines of one source, in order; a torn last line waits for its end."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.torn: list[bytes] = []
        self.text = b""
        self._rest = b""

    def feed(self, data: bytes) -> None:
        self.text += data
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in filter(None, lines):
            try:
                self.events.append(json.loads(line))
            except ValueError:
                self.torn.append(line)


class RecordFile(Lines):
    """A record file, from before it exists."""

    def __init__(self, path: Path, hub: Hub) -> None:
        super().__init__()
        self.path = path
        self._hub = hub
        self._offset = 0
        self._inotify = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._inotify < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        # The directory, not the file: the supervisor creates the file itself.
        directory = os.fsencode(path.parent)
        if _libc.inotify_add_watch(self._inotify, directory, _IN_MODIFY | _IN_CREATE) < 0:
            raise OSError(ctypes.get_errno(), "inotify_add_watch")
        hub.add(self._inotify, self._changed)

    def _changed(self) -> None:
        try:
            os.read(self._inotify, 65536)
        except BlockingIOError:
            pass
        self.refresh()

    def refresh(self) -> None:
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return
        self._offset += len(data)
        self.feed(data)

    def close(self) -> None:
        if self._inotify >= 0:
            self._hub.remove(self._inotify)
            os.close(self._inotify)
            self._inotify = -1


def matches(event: Event, name: str, fields: dict[str, Any]) -> bool:
    """True when the event has this name and all these fields."""
    return event.get("event") == name and all(event.get(k) == v for k, v in fields.items())
