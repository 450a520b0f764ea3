"""A stop as its lines tell it, stage by stage, while it happens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from lastout.evidence.events import (
    Event,
    RootExited,
    Signalled,
    StopAgain,
    StopBegan,
    TreeGone,
    TreeUnproven,
)
from lastout.web.plain import plain

__all__ = ["Ladder"]

_MOST_MARKS: Final = 24
_TARGETS: Final = {
    "root-group": "to the root's group",
    "root": "to the root",
    "members": "to the other members",
    "tree": "to the whole tree",
}


@dataclass(slots=True)
class Ladder:
    """One stop. Times are milliseconds since its `stop` line, by the clock of the record."""

    began: StopBegan
    began_ms: float
    """The wall time of the `stop` line, in milliseconds since the epoch."""
    stage: str = "term"
    marks: list[dict[str, Any]] = field(default_factory=list)
    ended_ms: float | None = None
    proven: bool | None = None

    def __post_init__(self) -> None:
        if self.began.trigger == "stdin-ended" and self.began.stdin_grace_ms:
            self.stage = "stdin"

    def take(self, event: Event) -> None:
        """One more line of the record."""
        match event:
            case Signalled(forwarded=False):
                if event.target == "tree":
                    self.stage = "kill"
                elif event.signal == "TERM" and self.stage == "stdin":
                    self.stage = "term"
                if event.signal != "CONT":
                    self._mark(event, f"SIG{plain(event.signal)}", _target(event))
            case RootExited():
                self._mark(event, "root ended", _end(event))
            case StopAgain():
                self._mark(event, "again", plain(event.trigger))
                if event.shortened and event.term_grace_ms == 0:
                    self.stage = "kill"
            case TreeGone() | TreeUnproven():
                self.ended_ms = self._at(event)
                self.proven = isinstance(event, TreeGone)
                self.stage = "gone" if self.proven else "unproven"

    def to_json(self) -> dict[str, Any]:
        """The form for the page."""
        began = self.began
        return {
            "at": self.began_ms,
            "stage": self.stage,
            "trigger": plain(began.trigger),
            "reason": began.reason and plain(began.reason),
            "by": began.by and plain(began.by),
            "signal": began.signal and plain(began.signal),
            "sender": began.sender.pid if began.sender else None,
            "which": began.which and plain(began.which),
            "graces": [
                (began.stdin_grace_ms or 0) if began.trigger == "stdin-ended" else 0,
                began.term_grace_ms or 0,
                began.reap_bound_ms or 0,
            ],
            "marks": self.marks,
            "ended": self.ended_ms,
            "proven": self.proven,
        }

    def _mark(self, event: Event, what: str, detail: str) -> None:
        if len(self.marks) < _MOST_MARKS:
            self.marks.append({"at": self._at(event), "what": what, "detail": detail})

    def _at(self, event: Event) -> float:
        return max(0.0, round((event.boottime_ns - self.began.boottime_ns) / 1e6, 1))


def _target(event: Signalled) -> str:
    failed = f", {event.failed} failed" if event.failed else ""
    if event.result not in (None, "delivered"):
        failed = f", {plain(event.result)}"
    count = "" if event.count is None else f" ({event.count})"
    return f"{_TARGETS.get(event.target, plain(event.target))}{count}{failed}"


def _end(event: RootExited) -> str:
    if event.signal:
        return f"by SIG{plain(event.signal)}"
    return "" if event.code is None else f"with code {event.code}"
