"""The door: one lock for who may run next, and the slots behind it.

Whoever takes a slot, looks whether there is a free one, or ends because nothing is queued does it
while it holds the door; so a job that was queued behind the door is seen by the last runner, or its
submitter sees that there is none. A slot is the flock of `slots/<n>`: it is taken by whoever starts
a runner, inherited by the runner, and free when that is dead, however it died.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from lastout.durable import replace
from lastout.jobs import layout
from lastout.jobs.result import Process

__all__ = ["DEFAULT_LIMIT", "Slot", "door", "free_slot", "limit", "note_slot", "set_limit", "slots"]

DEFAULT_LIMIT: Final = 4
_MOST: Final = 256
_SLOT: Final = 512
"""Bytes: the length of what is said in a slot."""


class Slot(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who has a slot. Without a job its runner has just been started, or is about to end."""

    number: int = 0
    runner: Process | None = None
    job: str | None = None
    resident: bool = False
    """A Python waits there, which hears of what is queued and starts runners for others."""


@contextlib.contextmanager
def door(state: str) -> Iterator[None]:
    """Hold the door. It is never held while anything is waited for. Raises OSError."""
    fd = os.open(
        os.path.join(layout.make(state), "door"),
        os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW,
        0o600,
    )
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def limit(state: str) -> int:
    """How many jobs run at once."""
    try:
        with open(os.path.join(layout.jobs_directory(state), "limit"), "rb") as file:
            return max(1, min(_MOST, int(file.read(16))))
    except (OSError, ValueError):
        return DEFAULT_LIMIT


def set_limit(state: str, number: int) -> None:
    """Raises ValueError or OSError."""
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= _MOST:
        raise ValueError(f"the limit is a number from 1 to {_MOST}, not {number!r}")
    replace(os.path.join(layout.make(state), "limit"), b"%d\n" % number)


def free_slot(state: str) -> tuple[int, int] | None:
    """A slot of our own: its number and the descriptor that holds it. The door is held."""
    for number in range(1, limit(state) + 1):
        fd = os.open(_slot(state, number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            continue
        return number, fd
    return None


def note_slot(fd: int, **fields: Any) -> None:
    """Say in a slot of our own who has it. The door is held.

    In one write of one length: whoever is killed here leaves what stood there before, or this.
    """
    with contextlib.suppress(OSError):  # a full disk: then it says nothing
        os.pwrite(fd, msgspec.json.encode(Slot(**fields)).ljust(_SLOT), 0)


def slots(state: str) -> list[Slot]:
    """The slots that are taken. The door is held: looking takes a free one for a moment."""
    found = []
    with (
        contextlib.suppress(FileNotFoundError),
        os.scandir(os.path.join(layout.jobs_directory(state), "slots")) as entries,
    ):
        for entry in entries:
            if not entry.name.isdigit():
                continue
            with layout.try_lock(entry.path) as fd:
                if fd is None:
                    found.append(_read(entry.path, int(entry.name)))
    return found


def _read(path: str, number: int) -> Slot:
    try:
        with open(path, "rb") as file:
            told = msgspec.json.decode(file.read(4096), type=Slot)
        return msgspec.structs.replace(told, number=number)
    except (OSError, msgspec.MsgspecError):
        return Slot(number)


def _slot(state: str, number: int) -> str:
    return os.path.join(layout.jobs_directory(state), "slots", str(number))
