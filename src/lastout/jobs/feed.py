"""The story of a job as it happens: numbered events, appended by its runner alone.

Readers skip what they do not know (`Other`) and a line that has no end yet.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from lastout.jobs.result import Process
from lastout.jobs.status import Question

__all__ = [
    "Answered",
    "CommandRan",
    "Ended",
    "FeedEvent",
    "MessageTaken",
    "Notice",
    "Other",
    "Progress",
    "Questioned",
    "Started",
    "Text",
    "TurnBegan",
    "TurnEnded",
    "decode",
    "encode",
]


class FeedEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", omit_defaults=True):
    """One fact. `seq` counts from 1 without a gap; `at` is RFC 3339, UTC; `turn` from 1."""

    seq: int = 0
    at: str = ""
    turn: int = 0


class Started(FeedEvent, frozen=True, kw_only=True, tag="started"):
    """The runner has the job, and a run of it has begun (another one when an agent is resumed)."""

    runner: Process | None = None
    run: str | None = None
    record: str | None = None


class TurnBegan(FeedEvent, frozen=True, kw_only=True, tag="turn-began"):
    """A turn has begun; `message` is the id of what it answers, None for the job's own prompt."""

    message: str | None = None


class Progress(FeedEvent, frozen=True, kw_only=True, tag="progress"):
    """The current line, which replaces the one before it."""

    text: str


class CommandRan(FeedEvent, frozen=True, kw_only=True, tag="command"):
    """A command that the agent ran has ended, as the agent reported it. It never fails the job."""

    item: str
    command: str
    cwd: str | None = None
    status: str | None = None
    exit_code: int | None = None
    duration_ms: int | None = None
    output: str = ""
    phase: str = "completed"


class Text(FeedEvent, frozen=True, kw_only=True, tag="text"):
    """Something that the agent said."""

    text: str
    role: Literal["answer", "thought", "user"] = "answer"


class Questioned(FeedEvent, frozen=True, kw_only=True, tag="question"):
    """The agent waits for an answer."""

    question: Question


class Answered(FeedEvent, frozen=True, kw_only=True, tag="answered"):
    """A question waits no longer: it was answered by `by`, or the agent took it back (None)."""

    question: str
    choice: str | None = None
    by: str | None = None


class MessageTaken(FeedEvent, frozen=True, kw_only=True, tag="message"):
    """A caller's message was taken out of the inbox; the turn that answers it comes."""

    id: str
    text: str
    by: str | None = None


class Notice(FeedEvent, frozen=True, kw_only=True, tag="notice"):
    """Anything else that is worth knowing; `detail` is for programs."""

    text: str
    detail: Any = None


class TurnEnded(FeedEvent, frozen=True, kw_only=True, tag="turn-ended"):
    """The result of a turn is there."""

    failed: bool
    why: str
    reason: str | None = None


class Ended(FeedEvent, frozen=True, kw_only=True, tag="ended"):
    """The job has ended; nothing comes after it."""

    failed: bool
    why: str
    reason: str | None = None


class Other(FeedEvent, frozen=True, kw_only=True, tag="?"):
    """An event of a later version, as it was written."""

    raw: dict[str, Any] = {}


_Known = (
    Started
    | TurnBegan
    | Progress
    | CommandRan
    | Text
    | Questioned
    | Answered
    | MessageTaken
    | Notice
    | TurnEnded
    | Ended
)
_decoder = msgspec.json.Decoder(_Known)


def encode(event: FeedEvent) -> bytes:
    """One line."""
    return msgspec.json.encode(event) + b"\n"


def decode(line: bytes) -> FeedEvent:
    """The event of a line; `Other` for what this version does not know. Raises ValueError."""
    try:
        return _decoder.decode(line)
    except msgspec.ValidationError:
        raw = msgspec.json.decode(line)
        if not isinstance(raw, dict) or not isinstance(raw.get("seq"), int):
            raise ValueError("no event of a feed") from None
        return Other(seq=raw["seq"], at=str(raw.get("at", "")), raw=raw)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error
