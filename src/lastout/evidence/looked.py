"""The lines of a look at an exited root (`--observe`; see observe.py)."""

from __future__ import annotations

from lastout.evidence.line import Event

__all__ = ["Observed", "OpportunityBegan"]


class OpportunityBegan(Event, frozen=True, kw_only=True, tag="opportunity"):
    """An exited root is held unreaped for a look; until then pid, group and session are its own."""

    pid: int
    pgid: int = 0
    session: int = 0
    bound_ms: int = 0
    until_boottime_ns: int = 0


class Observed(Event, frozen=True, kw_only=True, tag="observed"):
    """The look is over: `completed`, `timed-out`, `failed` or `unavailable`, and why."""

    pid: int
    outcome: str
    why: str | None = None
    held_us: int = 0
