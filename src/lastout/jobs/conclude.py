"""From what is known of a run to a job's result. Pure; nothing is guessed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from lastout.evidence.events import (
    Event,
    Leftovers,
    Listed,
    RootExited,
    Signalled,
    Started,
    StopBegan,
    TreeGone,
    TreeUnproven,
)
from lastout.jobs import sentences
from lastout.jobs.result import HeldLock, Process, Result, Why
from lastout.jobs.work import Cancel
from lastout.outcome import Outcome

__all__ = ["killed_locks", "lost", "names", "of_command"]


_TRIGGERS = {
    "peer-lost": "the death of one of its supervisors",
    "owner-died": "the end of its runner",
    "owner-hung-up": "the end of its runner",
}


def of_command(
    outcome: Outcome,
    events: Iterable[Event],
    *,
    cancel: Cancel | None,
    timeout: float | None,
    locks: tuple[HeldLock, ...],
    names: Mapping[int, str] | None = None,
) -> Result:
    """The result of a command whose run is over (`turn` and the like are filled in later)."""
    lines = list(events)
    why, by = _why(outcome, lines, cancel)
    count = _remaining(outcome, lines)
    code, signal = _native(outcome)
    kept = killed_locks(lines, locks)
    reasons = []
    if why == "timeout":
        reasons.append(sentences.timed_out(timeout))
    elif why != "completion":
        asked = cancel is not None or (outcome.stop is not None and outcome.stop.by)
        reasons.append(sentences.cancelled(by) if asked else sentences.stopped(by))
    elif code != 0:
        reasons.append(sentences.ended_with(code, signal))
    if count != 0:
        reasons.append(sentences.left(count))
    return Result(
        version=0,
        job="",
        turn=0,
        final=True,
        failed=bool(reasons),
        reason="; ".join(reasons) or None,
        why=why,
        ended_by=by,
        code=code,
        signal=signal,
        stopped=_stopped(outcome, lines, names),
        stopped_count=_stopped_count(outcome, lines),
        remaining=tuple(Process.of(one) for one in outcome.remaining),
        remaining_count=count,
        locks=kept,
        detail={"verdict": outcome.verdict},
    )


def lost(
    outcome: Outcome | None,
    events: Iterable[Event],
    *,
    reason: str,
    proven: bool,
    locks: tuple[HeldLock, ...],
) -> Result:
    """The result of a job whose runner is gone: with what is known of its last run."""
    lines = list(events)
    code, signal = _native(outcome) if outcome is not None else (None, None)
    count: int | None = 0
    if not proven:  # of all its runs; the last one's tree may be gone all the same
        count = (_remaining(outcome, lines) or None) if outcome is not None else None
    reasons = [reason]
    if code is not None or signal is not None:
        reasons.append(sentences.ended_with(code, signal))
    if count != 0:
        reasons.append(sentences.left(count))
    return Result(
        version=0,
        job="",
        turn=0,
        final=True,
        failed=True,
        reason="; ".join(reasons),
        why="runner-lost",
        code=code,
        signal=signal,
        stopped=_stopped(outcome, lines) if outcome is not None else (),
        stopped_count=_stopped_count(outcome, lines) if outcome is not None else 0,
        remaining=tuple(Process.of(one) for one in outcome.remaining) if outcome and count else (),
        remaining_count=count,
        locks=killed_locks(lines, locks),
        detail={"verdict": outcome.verdict} if outcome is not None else {},
    )


def killed_locks(events: Iterable[Event], found: tuple[HeldLock, ...]) -> tuple[HeldLock, ...]:
    """Of the locks that were found, those of runs in which somebody was killed at all."""
    killed = any(
        (isinstance(one, TreeGone) and one.killed_count)
        or (isinstance(one, Signalled) and one.signal in ("KILL", "SIGKILL"))
        for one in events
    )
    return found if killed else ()


def names(events: Iterable[Event]) -> dict[int, str]:
    """The names of members, as the lines told them."""
    found: dict[int, str] = {}
    for event in events:
        if isinstance(event, Leftovers | Listed):
            found |= {one.pid: one.name for one in event.members}
    return found


def _why(outcome: Outcome, lines: list[Event], cancel: Cancel | None) -> tuple[Why, str | None]:
    stop = outcome.stop
    if stop is None:
        return "completion", None
    if stop.trigger == "timeout" or stop.reason == "timeout":
        return "timeout", None
    if cancel is not None:
        return cancel.reason, cancel.by
    if stop.reason == "shutdown":
        return "shutdown", stop.by
    return "abort", stop.by or _sender(lines) or _TRIGGERS.get(stop.trigger, stop.trigger)


def _sender(lines: list[Event]) -> str | None:
    for event in lines:
        if isinstance(event, StopBegan) and event.sender is not None:
            return f"SIG{event.signal} from pid {event.sender.pid} of uid {event.sender.uid}"
    return None


def _native(outcome: Outcome) -> tuple[int | None, int | None]:
    if outcome.root_status is None:
        return None, None
    if os.WIFSIGNALED(outcome.root_status):
        return None, os.WTERMSIG(outcome.root_status)
    return os.WEXITSTATUS(outcome.root_status), None


def _remaining(outcome: Outcome, lines: list[Event]) -> int | None:
    if outcome.tree_gone:
        return 0
    for event in reversed(lines):
        if isinstance(event, TreeUnproven) and event.remaining_count:
            return event.remaining_count
    return len(outcome.remaining) or None


def _stopped(
    outcome: Outcome, lines: list[Event], seen: Mapping[int, str] | None = None
) -> tuple[Process, ...]:
    told = {**(seen or {}), **names(lines)}
    return tuple(Process.of(one, told.get(one.pid, "")) for one in outcome.stopped)


def _stopped_count(outcome: Outcome, lines: list[Event]) -> int:
    for event in reversed(lines):
        if isinstance(event, TreeGone):
            return max(event.stopped_count or 0, len(outcome.stopped))
    return len(outcome.stopped)


def root_ended(events: Iterable[Event]) -> bool:
    """Whether the root's end was seen."""
    return any(isinstance(one, RootExited) for one in events)


def began(events: Iterable[Event]) -> Started | None:
    """The line that says that something was started."""
    return next((one for one in events if isinstance(one, Started)), None)
