"""The owner's lines: what the library writes into a record, never the supervisor."""

from __future__ import annotations

from typing import Any

import msgspec

from lastout.evidence.line import Event

__all__ = [
    "Closed",
    "CommandRan",
    "Forced",
    "Note",
    "OwnerEvent",
    "Prepared",
    "TurnEnded",
]


class OwnerEvent(Event, frozen=True, kw_only=True):
    """A line that the library writes, never the supervisor: the owner's side of the story."""


class Prepared(OwnerEvent, frozen=True, kw_only=True, tag="prepared"):
    """What the owner is about to start."""

    argv: tuple[str, ...] = ()
    env_names: tuple[str, ...] = ()
    labels: dict[str, Any] = msgspec.field(default_factory=dict)


class Closed(OwnerEvent, frozen=True, kw_only=True, tag="closed"):
    """The verdict that the owner, or recovery, came to, and on what evidence."""

    verdict: str
    evidence: Any = None


class CommandRan(OwnerEvent, frozen=True, kw_only=True, tag="command"):
    """What an agent reported of a command that it ran (evidence/commands).

    `phase` is `completed`, `background` (the agent went on without it) or `unfinished` (no
    completion was reported). `exit_code_from` says whether the agent gave the code as a `field` or
    in a `text`; `native_timeout` is what it said of a deadline of its own, as it said it.
    `after_turn`: reported after its turn had ended.
    """

    agent: str = ""
    item: str | None = None
    thread: str | None = None
    turn: str | None = None
    phase: str = "completed"
    command: str | None = None
    cwd: str | None = None
    status: str | None = None
    exit_code: int | None = None
    exit_code_from: str | None = None
    duration_ms: int | None = None
    output: str | None = None
    output_chars: int | None = None
    native_timeout: dict[str, Any] | None = None
    after_turn: bool = False
    detail: dict[str, Any] | None = None


class TurnEnded(OwnerEvent, frozen=True, kw_only=True, tag="turn"):
    """A turn of the agent ended, as it reported; `unfinished` items were started, not completed."""

    agent: str = ""
    thread: str | None = None
    turn: str | None = None
    status: str | None = None
    commands: int = 0
    failed: int = 0
    unfinished: tuple[str, ...] = ()


class Forced(OwnerEvent, frozen=True, kw_only=True, tag="forced"):
    """What the forced step did."""

    verdict: str = ""
    detail: Any = None


class Note(OwnerEvent, frozen=True, kw_only=True, tag="note"):
    """Anything else that the owner wants kept."""

    text: str = ""
    detail: Any = None
