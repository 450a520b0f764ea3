"""The scripted agent's memory of one thread, in a file that shows when two processes wrote it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from typing import Any

__all__ = ["Refusal", "Transcript", "take_lock"]


class Refusal(Exception):
    """A request that is answered with an error, or a turn that fails."""


class Transcript:
    """Each entry names the one before it as this process knew it: a fork shows as two children."""

    def __init__(self, home: str, thread: str) -> None:
        # Codex's own layout, so that whoever looks for its rollouts finds these.
        self.path = os.path.join(home, "sessions", "0000", "00", "00", f"rollout-{thread}.jsonl")
        self.entries: list[dict[str, Any]] = []
        with contextlib.suppress(OSError), open(self.path) as file:
            self.entries = [json.loads(line) for line in file]

    def append(self, **entry: Any) -> None:
        """Write one entry."""
        parent = self.entries[-1]["id"] if self.entries else None
        identity = f"{os.getpid()}.{time.monotonic_ns()}"
        entry |= {"id": identity, "parent": parent, "pid": os.getpid()}
        self.entries.append(entry)
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        with open(self.path, "a") as file:
            file.write(json.dumps(entry) + "\n")

    def revert(self, turn: str) -> None:
        """Drop this turn and all after it."""
        found = (i for i, entry in enumerate(self.entries) if entry["turn"] == turn)
        position = next(found, None)
        if position is None:
            raise Refusal(f"turn not found: {turn}")
        self.entries = self.entries[:position]
        with open(self.path, "w") as file:
            file.writelines(json.dumps(entry) + "\n" for entry in self.entries)


def take_lock(home: str, thread: str) -> None:
    """Codex's thread lock, held for as long as this process lives. Raises Refusal in its words."""
    directory = os.path.join(home, "thread-writer-locks")
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, thread + ".lock")
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise Refusal(f"thread {thread} already has an active writer") from None
