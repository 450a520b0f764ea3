"""A result is handed over once: who has it is written down, durably, before it is."""

from __future__ import annotations

import os

import msgspec

from lastout.durable import link_once, now
from lastout.jobs import layout, sentences
from lastout.jobs.errors import AlreadyTaken

__all__ = ["Mark", "take", "taken"]


class Mark(msgspec.Struct, frozen=True):
    """`taken/<turn>`."""

    taker: str
    at: str = ""


def take(directory: str, job: str, turn: int, taker: str) -> Mark:
    """Take a turn's result. The same taker may do it again. Raises AlreadyTaken, OSError."""
    if not taker or "\0" in taker:
        raise ValueError("a taker is a name of your own, the same for every retry")
    path = os.path.join(directory, layout.TAKEN, str(turn))
    mark = Mark(taker, now())
    if link_once(path, msgspec.json.encode(mark)):
        return mark
    with open(path, "rb") as file:
        before = msgspec.json.decode(file.read(), type=Mark)
    if before.taker != taker:
        raise AlreadyTaken(sentences.taken_by(job, turn, before.taker), before.taker)
    return before


def taken(directory: str) -> list[int]:
    """The turns whose results have been taken."""
    try:
        names = os.listdir(os.path.join(directory, layout.TAKEN))
    except FileNotFoundError:
        return []
    return sorted(int(name) for name in names if name.isdigit())
