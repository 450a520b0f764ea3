"""What callers ask of a job: one file each, made atomically and durably in `inbox`.

The runner closes the inbox by renaming it: a request is then either in it and will be seen, or its
caller is told that the job has ended.
"""

from __future__ import annotations

import os
import time

import msgspec

from lastout.durable import link_once
from lastout.jobs import layout
from lastout.jobs.work import Answer, Cancel, Message, Request

__all__ = ["CLOSED", "Inbox", "put"]

CLOSED = layout.INBOX + ".closed"

_KINDS: dict[str, type[Message | Answer | Cancel]] = {
    "message": Message,
    "answer": Answer,
    "cancel": Cancel,
}


def put(directory: str, request: Request, key: str) -> bool:
    """Ask for something. False: this `key` was asked for before.

    Raises FileNotFoundError when the inbox is closed, another OSError when it cannot be written.
    """
    kind = type(request).__name__.lower()
    request = msgspec.structs.replace(request, at_ns=time.time_ns())
    path = os.path.join(directory, layout.INBOX, f"{kind}-{layout.digest(key)}.json")
    return link_once(path, msgspec.json.encode(request))


def there(directory: str, kind: str, key: str) -> Request | None:
    """What was asked for under this key before."""
    name = f"{kind}-{layout.digest(key)}.json"
    for folder in (layout.INBOX, CLOSED):
        found = _read(os.path.join(directory, folder, name))
        if found is not None:
            return found
    return None


class Inbox:
    """The runner's side: each request once."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._folder = layout.INBOX
        self.seen: set[str] = set()

    def new(self) -> list[tuple[str, Request]]:
        """What has come since the last call, oldest first, with its file's name."""
        folder = os.path.join(self._directory, self._folder)
        try:
            names = set(os.listdir(folder)) - self.seen
        except FileNotFoundError:
            return []
        found = []
        for name in names:
            if name.startswith(".") or not name.endswith(".json"):
                continue
            self.seen.add(name)
            request = _read(os.path.join(folder, name))
            if request is not None:
                found.append((name, request))
        return sorted(found, key=lambda pair: (pair[1].at_ns, pair[0]))

    def close(self) -> list[tuple[str, Request]]:
        """Nothing can come any more; what had come."""
        if self._folder == layout.INBOX:
            try:
                os.rename(
                    os.path.join(self._directory, layout.INBOX),
                    os.path.join(self._directory, CLOSED),
                )
            except FileNotFoundError:
                pass  # another runner had closed it before it was lost
            self._folder = CLOSED
        return self.new()

    def reopen(self) -> None:
        """Take requests again."""
        os.rename(
            os.path.join(self._directory, CLOSED), os.path.join(self._directory, layout.INBOX)
        )
        self._folder = layout.INBOX


def _read(path: str) -> Request | None:
    kind = os.path.basename(path).partition("-")[0]
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=_KINDS[kind])
    except (OSError, KeyError, msgspec.MsgspecError):
        return None
