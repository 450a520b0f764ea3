"""From the end of a turn to its result. Pure; nothing is guessed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lastout.host.message import Message
from lastout.host.quiet import Quiet, Stopped
from lastout.jobs import sentences
from lastout.jobs import turns_sentences as words
from lastout.jobs.result import HeldLock, Process, Result, Why
from lastout.jobs.spec import VERSION

__all__ = ["ANSWER_KEPT", "ended", "merged", "named", "of_turn", "refused", "remaining"]

ANSWER_KEPT = 1 << 20
"""Characters of an answer that are kept, from its end."""


def of_turn(
    message: Message,
    quiet: Quiet,
    *,
    why: Why,
    by: str | None,
    timeout: float | None,
    answers: str | None,
    final: bool,
    undelivered: tuple[str, ...],
    locks: tuple[HeldLock, ...],
    runs: tuple[str, ...],
    conversation: str | None,
    detail: dict[str, Any],
) -> Result:
    """The result of a turn. `quiet` is what was done about everything that it had started."""
    count = remaining(quiet)
    reasons = []
    if why == "timeout":
        late = message.state == "completed"
        reasons.append(words.late(timeout) if late else sentences.timed_out(timeout))
    elif why in ("abort", "shutdown"):
        reasons.append(sentences.cancelled(by))
    elif message.state != "completed":
        reasons.append(words.turn_failed(message.state, message.reason))
    if count != 0:
        reasons.append(sentences.left(count))
    code = _by_itself(quiet)
    return Result(
        version=VERSION,
        job="",
        turn=0,
        final=final,
        failed=bool(reasons),
        reason="; ".join(reasons) or None,
        why=why,
        ended_by=by,
        code=code if code is not None and code >= 0 else None,
        signal=-code if code is not None and code < 0 else None,
        status=message.state,
        answer=message.answer[-ANSWER_KEPT:] or None,
        message=answers,
        conversation=conversation,
        stopped=_processes(quiet.stopped),
        stopped_count=quiet.stopped_count,
        remaining=_processes(quiet.remaining),
        remaining_count=count,
        undelivered=undelivered,
        locks=locks,
        runs=runs,
        detail={
            **detail,
            "agent_kept": quiet.kept,
            **({"end": message.reason} if message.reason and why != "completion" else {}),
        },
    )


def ended(
    quiet: Quiet,
    *,
    why: Why,
    by: str | None,
    undelivered: tuple[str, ...],
    locks: tuple[HeldLock, ...],
    conversation: str | None,
) -> Result:
    """The end between two turns: the agent has rested long enough, or the job was cancelled."""
    count = remaining(quiet)
    return Result(
        version=VERSION,
        job="",
        turn=0,
        final=True,
        failed=count != 0,
        reason=sentences.left(count) if count != 0 else None,
        why=why,
        ended_by=by,
        conversation=conversation,
        stopped=_processes(quiet.stopped),
        stopped_count=quiet.stopped_count,
        remaining=_processes(quiet.remaining),
        remaining_count=count,
        undelivered=undelivered,
        locks=locks,
    )


def named(quiet: Quiet, names: Mapping[int, str]) -> Quiet:
    """With these names, by pid, where there was none."""
    stopped = tuple(
        one if one.name else replace(one, name=names.get(one.identity.pid, ""))
        for one in quiet.stopped
    )
    return replace(quiet, stopped=stopped)


def remaining(quiet: Quiet) -> int | None:
    """How many are left: 0 is proven, None is not known."""
    if quiet.proven and not quiet.remaining_count:
        return 0
    return quiet.remaining_count or None


def refused(
    why: Exception, answers: str | None, *, final: bool, undelivered: tuple[str, ...] = ()
) -> Result:
    """A turn for which nothing was started, and nothing can be."""
    return Result(
        version=VERSION,
        job="",
        turn=0,
        final=final,
        failed=True,
        reason=str(why),
        why="not-started",
        message=answers,
        remaining_count=0,
        undelivered=undelivered,
    )


def merged(first: Quiet, then: Quiet) -> Quiet:
    """The agent was ended after all, when the others had been stopped already."""
    stopped = {(one.identity.pid, one.identity.start): one for one in first.stopped}
    fresh = [one for one in then.stopped if (one.identity.pid, one.identity.start) not in stopped]
    return replace(
        then,
        stopped=(*first.stopped, *fresh),
        stopped_count=first.stopped_count + then.stopped_count - len(then.stopped) + len(fresh),
    )


def _by_itself(quiet: Quiet) -> int | None:
    """How the agent's process ended, where nobody had asked for it; as in subprocess."""
    outcome = quiet.outcome
    return outcome.returncode if outcome is not None and outcome.stop is None else None


def _processes(found: tuple[Stopped, ...]) -> tuple[Process, ...]:
    return tuple(Process.of(one.identity, one.name) for one in found)
