"""What a claim is: one thing said of a run, its grade, and the events that it rests on."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from lastout.evidence.events import (
    Dropped,
    Event,
    Failed,
    OwnerEvent,
    Refused,
    Takeover,
    TracerEvent,
    TreeGone,
    TreeUnproven,
    Unknown,
)
from lastout.evidence.journal import Contents, Problem
from lastout.evidence.line import SUPERVISOR

__all__ = ["Claim", "Grade", "Reading", "Story", "in_place", "reference"]

_E = TypeVar("_E", bound=Event)
_FINAL = (Refused, Failed, TreeGone, TreeUnproven)


class Grade(enum.StrEnum):
    """How something is known (DESIGN: Evidence)."""

    OBSERVED = "observed"
    """Our own wait, siginfo, pidfd or clock saw it."""
    TRACED = "traced"
    """The kernel's tracing saw it."""
    REPORTED = "reported"
    """Somebody else said so: the agent's protocol, the owner."""
    NOT_REPORTED = "not reported"
    """Nobody said; the claim names what is not known."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim; `words.sentence` turns it into a sentence.

    `events` names the lines that it rests on, as `source:seq`. With `whole` it also rests on what
    the record does not have. `facts` are what the sentence says, `numbers` what lies behind it.
    """

    kind: str
    grade: Grade
    events: tuple[str, ...] = ()
    at_ns: int | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)
    whole: bool = False
    detail: bool = False


@dataclass(frozen=True, slots=True)
class Story:
    """All that can be said of a run, in the order in which it happened."""

    run: str
    claims: tuple[Claim, ...]
    headline: tuple[Claim, ...]
    began_ns: int | None


class Reading:
    """A record's events in time order, and what is missing from it."""

    def __init__(self, contents: Contents) -> None:
        # Who wrote a line decides what it is worth: a fact of the supervisor's in somebody else's
        # name is none.
        by_time = sorted(contents.events, key=lambda event: event.boottime_ns)
        self.events: Sequence[Event] = [event for event in by_time if in_place(event)]
        self.misplaced: Sequence[Event] = [event for event in by_time if not in_place(event)]
        self.problems: Sequence[Problem] = contents.problems
        theirs = [event for event in contents.events if event.source in SUPERVISOR]
        last = theirs[-1] if theirs else None
        self.final = last if isinstance(last, _FINAL) and in_place(last) else None

    def of(self, kind: type[_E]) -> list[_E]:
        """All events of this kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def first(self, kind: type[_E]) -> _E | None:
        """The first event of this kind, or None."""
        return next((event for event in self.events if isinstance(event, kind)), None)

    def gaps(self) -> Iterator[tuple[str, int, int]]:
        """(source, first, last) of numbers that are missing between lines that are there."""
        by_source: dict[str, set[int]] = {}
        for event in (*self.events, *self.misplaced):
            by_source.setdefault(event.source, set()).add(event.seq)
        for source in sorted(by_source):
            before = 0
            for number in sorted(by_source[source]):
                if number > before + 1:
                    yield source, before + 1, number - 1
                before = number

    @property
    def complete(self) -> bool:
        """Whether the supervisor's lines are all there: an end, no gap, nothing dropped or torn."""
        return (
            self.final is not None
            and not self.problems
            and not self.misplaced
            and not any(source in SUPERVISOR for source, _, _ in self.gaps())
            and self.first(Dropped) is None
            # A keeper that was lost may have acted without having written it.
            and self.first(Takeover) is None
        )


def in_place(event: Event) -> bool:
    """Whether this kind of line is its writer's to write."""
    match event:
        case OwnerEvent():
            return event.source == "owner"
        case TracerEvent():
            return event.source == "tracer"
        case Unknown():
            return True
    if event.source == "guard":
        return isinstance(event, TreeGone)
    return event.source in SUPERVISOR


def reference(event: Event) -> str:
    """How a claim names an event."""
    return f"{event.source}:{event.seq}"
