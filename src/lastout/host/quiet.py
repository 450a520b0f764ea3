"""Quiet between two turns: whatever an agent has started is stopped, and the agent stays if it can.

It cannot stay when it would miss what was stopped, or when nobody can stop the rest without it:

- it is itself below the root (a wrapper, an ACP adapter), so that stopping the others would kill it;
- it has tasks behind its turns: they would be missed, and Claude Code, told of their end, begins a
  turn that nobody asked for;
- its MCP servers were among the others, and it does not start them again (Codex).

Then it is ended as a rest ends it, and the next message starts a fresh one that resumes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lastout.agents.holders import is_below
from lastout.agents.session import DRAIN
from lastout.evidence.events import Identity, Member, OthersStopped
from lastout.identity import ProcessIdentity

if TYPE_CHECKING:
    from lastout.host.live import Live
    from lastout.host.worker import Worker
    from lastout.outcome import Outcome
    from lastout.reason import Reason

__all__ = ["Look", "Quiet", "Stopped", "finish", "quieten", "whole"]


@dataclass(frozen=True, slots=True)
class Stopped:
    """A process that had to go; `name` is empty when nobody had listed it before."""

    identity: ProcessIdentity
    name: str = ""


@dataclass(frozen=True, slots=True)
class Quiet:
    """What was stopped after a turn, and who is left."""

    kept: bool = False
    """The agent lives; otherwise its whole tree was ended, and `outcome` says how."""
    stopped: tuple[Stopped, ...] = ()
    """At most 256 are named; `stopped_count` counts all."""
    stopped_count: int = 0
    remaining: tuple[Stopped, ...] = ()
    remaining_count: int = 0
    """How many still run, besides an agent that was kept. Anything but 0 is a failed clean-up."""
    proven: bool = True
    """Nothing remains, and that was observed."""
    outcome: Outcome | None = None
    took_ms: int = field(default=0, compare=False)


Look = Callable[[Sequence[Member]], None]


async def quieten(worker: Worker, *, by: str | None = None, look: Look | None = None) -> Quiet:
    """Stop the others; end the agent too where it cannot stay."""
    live = worker.live
    if live is None or live.session is None:
        return whole(worker.last_outcome, ())
    if worker.adapter.one_turn or live.ended.is_set():
        await live.ended.wait()
        worker.bury(live)
        return whole(live.outcome, ())
    members, answer = await _stop_others(worker, live, "completion", by, None, look)
    if answer is not None and _can_stay(worker, live, answer, members):
        return Quiet(
            kept=True,
            stopped=_named(answer.stopped, members, live),
            stopped_count=answer.stopped_count,
            took_ms=answer.took_ms,
        )
    await worker.end("idle", by=by)
    return whole(live.outcome, _before(answer, members, live))


async def finish(
    worker: Worker,
    reason: Reason,
    *,
    by: str | None = None,
    grace: float | None = None,
    look: Look | None = None,
) -> Quiet:
    """Interrupt the turn, stop the others, and then end the agent.

    In this order: at its end Codex kills its tools with SIGKILL, and one that cleans up would have
    no time for it.
    """
    live = worker.live
    if live is None:
        return whole(worker.last_outcome, ())
    members: Sequence[Member] = ()
    answer: OthersStopped | None = None
    session = live.session
    going = session is not None and live.ready is not None and live.wanted is None
    if going and session is not None and not live.ended.is_set():
        if grace != 0 and not worker.adapter.one_turn:
            await session.hush(drain=DRAIN if grace is None else min(DRAIN, grace))
        members, answer = await _stop_others(worker, live, reason, by, grace, look)
    await worker.end(reason, by=by, grace=grace)
    return whole(live.outcome, _before(answer, members, live))


async def _stop_others(
    worker: Worker,
    live: Live,
    reason: Reason,
    by: str | None,
    grace: float | None,
    look: Look | None,
) -> tuple[Sequence[Member], OthersStopped | None]:
    """Who was there, and the supervisor's answer; None where the others are not to be stopped."""
    if live.session is None or live.wanted is not None or live.ended.is_set():
        return (), None
    process = live.session.process
    members = [one for one in await process.members() if one.pid != process.root.pid]
    if look is not None and members:
        look(members)
    follows = bool(worker.background) and worker.adapter.follows_up
    if grace == 0 or worker.adapter.one_turn or follows or _inside(worker, live, members):
        return members, None
    return members, await process.stop_others(reason, by=by, grace=grace)


def whole(outcome: Outcome | None, before: Iterable[Stopped]) -> Quiet:
    """The end of a whole tree. `before` are members who were there when it was asked for."""
    if outcome is None:
        return Quiet()
    found = {(one.identity.pid, one.identity.start): one for one in before}
    for identity in outcome.stopped:
        found.setdefault((identity.pid, identity.start), Stopped(identity))
    remaining = tuple(Stopped(identity) for identity in outcome.remaining)
    proven = outcome.tree_gone or outcome.verdict == "exited"
    return Quiet(
        stopped=tuple(found.values()),
        stopped_count=len(found),
        remaining=remaining,
        remaining_count=len(remaining),
        proven=proven,
        outcome=outcome,
    )


def _inside(worker: Worker, live: Live, members: Sequence[Member]) -> bool:
    """Whether the agent itself is one of the others."""
    if live.program is not None and live.program.wrapper:
        return True
    if not members or live.ready is None or live.session is None:
        return False
    root = live.session.process.root.pid
    writer = worker.adapter.writer(live.ready.conversation, frozenset({root}))
    return writer is not None and is_below(writer.pid, root)


def _can_stay(worker: Worker, live: Live, answer: OthersStopped, members: Sequence[Member]) -> bool:
    done = answer.interrupted is None and answer.remaining_count == 0
    # Whoever was there before is not there any more, by whatever signal.
    loses = bool(answer.stopped_count or members) and not worker.adapter.restarts_servers
    # A task may have begun behind the turn while the others were being stopped.
    return done and not loses and not worker.background and live.wanted is None


def _before(
    answer: OthersStopped | None, members: Sequence[Member], live: Live
) -> tuple[Stopped, ...]:
    """Everybody who was there before the end of the whole tree was asked for."""
    if live.session is None:
        return ()
    return _named((*(answer.stopped if answer is not None else ()), *members), members, live)


def _named(
    identities: Iterable[Identity], members: Sequence[Member], live: Live
) -> tuple[Stopped, ...]:
    assert live.session is not None
    started = live.session.process.started
    names = {(member.pid, member.start): member.name for member in members}
    found = {
        (one.pid, one.start): Stopped(
            ProcessIdentity(one.pid, one.start, one.inode, started.boot_id, started.pidns),
            names.get((one.pid, one.start), ""),
        )
        for one in identities
    }
    return tuple(found.values())
