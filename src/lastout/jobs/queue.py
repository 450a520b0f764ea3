"""What waits to be run: one empty file a job, named by time, asker and id.

`queue/<time>.<asker>.<id>` is there before its job is, and becomes `active/<asker>.<id>` when a
runner has the job. Askers take turns: who has the fewest running comes first, then who was served
longest ago; of one asker's jobs the oldest.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from lastout.durable import sync_directory
from lastout.jobs import layout

__all__ = [
    "Entry",
    "activate",
    "active",
    "begin",
    "deactivate",
    "discard",
    "enter",
    "entries",
    "note_served",
    "places",
    "ring",
    "serve_next",
]


class Entry(NamedTuple):
    """A queue entry, by its name."""

    queued_ns: int
    by: str
    job: str

    @property
    def name(self) -> str:
        """Its file's name."""
        return f"{self.queued_ns:020d}.{self.by}.{self.job}"


def enter(state: str, entry: Entry) -> None:
    """Make the entry. Raises OSError."""
    os.close(
        os.open(_path(state, entry), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    )


def ring(state: str, entry: Entry) -> None:
    """The job is complete now: whoever watches the queue looks again."""
    with contextlib.suppress(OSError):
        fd = os.open(_path(state, entry), os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, b"\n")
        finally:
            os.close(fd)


def entries(state: str) -> list[Entry]:
    """What is queued, the oldest first."""
    return sorted(_parsed(os.path.join(layout.jobs_directory(state), "queue")))


def begin(state: str, entry: Entry) -> None:
    """Durably: somebody has it, and it will not be begun again. Raises OSError."""
    folder = os.path.join(layout.jobs_directory(state), "active")
    os.rename(_path(state, entry), os.path.join(folder, f"{entry.by}.{entry.job}"))
    sync_directory(folder)


def activate(state: str, by: str, job: str) -> None:
    """The entry of a job that somebody has from the beginning. Raises OSError."""
    path = os.path.join(layout.jobs_directory(state), "active", f"{by}.{job}")
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def active(state: str) -> list[tuple[str, str]]:
    """What has begun and is not known to have ended: asker and id."""
    try:
        names = os.listdir(os.path.join(layout.jobs_directory(state), "active"))
    except FileNotFoundError:
        return []
    parts = (name.partition(".") for name in names)
    return [(by, job) for by, _, job in parts if layout.is_id(job)]


def deactivate(state: str, by: str, job: str) -> None:
    """It has ended, and its result is there."""
    top = layout.jobs_directory(state)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(top, "active", f"{by}.{job}"))
        return
    for entry in entries(state):  # it ended before a runner could say that it has it
        if entry.job == job:
            discard(state, entry)


def discard(state: str, entry: Entry) -> None:
    """The entry of a job that will not be run."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_path(state, entry))


def serve_next(state: str, waiting: Iterable[Entry]) -> Iterator[Entry]:
    """The order in which to try what waits. The door is held."""
    running = Counter(by for by, _ in active(state))
    served = _served(state)
    by_asker: dict[str, list[Entry]] = {}
    for entry in waiting:
        by_asker.setdefault(entry.by, []).append(entry)
    while by_asker:
        by = min(by_asker, key=lambda one: (running[one], served.get(one, 0), by_asker[one][0]))
        yield by_asker[by].pop(0)
        served[by] = max(served.values(), default=0) + 1  # if that one is run, the others are next
        if not by_asker[by]:
            del by_asker[by]


def places(state: str) -> dict[str, int]:
    """How many are before each job that waits, as it looks now."""
    order = serve_next(state, entries(state))
    return {entry.job: number for number, entry in enumerate(order)}


def note_served(state: str, entry: Entry) -> None:
    """An asker had its turn. The door is held."""
    served = _served(state)
    served[entry.by] = max(served.values(), default=0) + 1
    still = {one.by for one in entries(state)} | {by for by, _ in active(state)} | {entry.by}
    kept = {by: number for by, number in served.items() if by in still}
    with contextlib.suppress(OSError):  # for fairness alone
        # One write, and nobody reads outside the door: a runner that is killed in it costs one turn.
        with open(_served_path(state), "wb", buffering=0) as file:
            file.write(msgspec.json.encode(kept))


def _parsed(directory: str) -> Iterator[Entry]:
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return
    for name in names:
        parts = name.split(".", 2)
        if len(parts) == 3 and parts[0].isdigit() and layout.is_id(parts[2]):
            yield Entry(int(parts[0]), parts[1], parts[2])


def _served(state: str) -> dict[str, int]:
    try:
        with open(_served_path(state), "rb") as file:
            return msgspec.json.decode(file.read(1 << 16), type=dict[str, int])
    except (OSError, msgspec.MsgspecError):
        return {}


def _served_path(state: str) -> str:
    return os.path.join(layout.jobs_directory(state), "served")


def _path(state: str, entry: Entry) -> str:
    return os.path.join(layout.jobs_directory(state), "queue", entry.name)
