"""The forced step: what somebody outside does when a supervisor does not finish by itself.

Front and keeper are paused, everything below them is killed by verified identity until nothing is
alive (a stopped subreaper still adopts, so that can be proven), and only then they are killed. What
is ambiguous ends without a kill, with both resumed. At most `graces.FORCED_STEP` seconds.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field, replace
from typing import Any

from lastout import tree
from lastout.graces import FORCED_STEP
from lastout.identity import Alive, IdentityUnknown, ProcessIdentity, same, still_alive, take
from lastout.pause import Pause
from lastout.proctable import read_stat
from lastout.sweep import Sweep
from lastout.tier import NONE, Tier
from lastout.verdict import EXITED, KILLED, UNPROVEN, Verdict

__all__ = ["MOST_NAMED", "Target", "aforce", "asked_from_inside", "force"]


@dataclass(frozen=True, slots=True)
class Target:
    """Whom the step is against, by the identities of the run's `started` line."""

    run: str
    front: ProcessIdentity
    keeper: ProcessIdentity
    root: ProcessIdentity
    writer: ProcessIdentity | None = None
    record: str | None = None
    tier: Tier = NONE

    @property
    def supervisors(self) -> tuple[ProcessIdentity, ...]:
        """Front first: a running front resumes a keeper that it sees stopped."""
        return (self.front, self.keeper)


@dataclass(slots=True)
class _Told:
    """What the step did, for the record."""

    paused: dict[str, bool] = field(default_factory=dict)
    signalled: list[dict[str, Any]] = field(default_factory=list)
    rounds: int = 0
    remaining: list[dict[str, Any]] = field(default_factory=list)
    why: str | None = None
    inherited: int | None = None
    """How many children the front had before it was one, by the record."""
    earlier: bool = False
    """A forced step before this one delivered kills: they are never called an exit."""


def force(target: Target, *, bound: float = FORCED_STEP) -> Verdict:
    """Take the forced step and give its verdict; every outcome is written to the run's record.

    `bound` is in seconds. Blocks; see `aforce`. Never raises for anything that the system answers.
    """
    began = time.monotonic()
    told = _Told()
    try:
        verdict = _step(target, began + bound, told)
    except OSError as error:
        told.why = str(error)
        verdict = Verdict(UNPROVEN, "table-unreadable")
    evidence = {
        "ms": round((time.monotonic() - began) * 1000),
        "paused": told.paused,
        "rounds": told.rounds,
        "signalled": told.signalled[:MOST_NAMED],
        "signalled_count": len(told.signalled),
        "remaining": told.remaining[:MOST_NAMED],
        "why": told.why,
    }
    verdict = replace(verdict, evidence={**evidence, **verdict.evidence})
    _write(target, verdict)
    return verdict


async def aforce(target: Target, *, bound: float = FORCED_STEP) -> Verdict:
    """`force` in a thread; it is bounded, so it is never abandoned half-way."""
    import functools

    import anyio.to_thread

    return await anyio.to_thread.run_sync(functools.partial(force, target, bound=bound))


def asked_from_inside(target: Target) -> bool:
    """Whether this process descends from the run: it would kill itself in the middle."""
    if os.getsid(0) == target.root.pid and tree.group_alive(target.root):
        return True
    pid = os.getpid()
    for _ in range(_DEEPEST):
        try:
            found = take(pid)
            if any(same(found, one) for one in (*target.supervisors, target.root)):
                return True
            pid = read_stat(pid).ppid
        except OSError:
            return False
        if pid <= 1:
            return False
    return False


MOST_NAMED = 256
"""So many members are named in a `forced` line; all are counted."""
_DEEPEST = 4096


def _step(target: Target, due: float, told: _Told) -> Verdict:
    if asked_from_inside(target):
        return Verdict(UNPROVEN, "asked-from-inside")
    if (refusal := _ambiguous(target, told)) is not None:
        told.why = refusal[1]
        return Verdict(UNPROVEN, refusal[0])
    alive = [one for one in target.supervisors if still_alive(one) is Alive.YES]
    pause = Pause(alive)
    finished = False
    try:
        pause.take()
        sweep = Sweep(
            target.root, target.writer, target.keeper, alive, pause, target.tier, told.inherited
        )
        try:
            empty = sweep.run(due)
        finally:  # what was killed before a table became unreadable was killed
            told.rounds, told.signalled = sweep.rounds, sweep.signalled
            told.remaining, told.why = sweep.remaining, sweep.why
        verdict = _verdict(target, sweep, empty, told)
        if empty and alive:
            # Nothing is below them any more, and nothing can come: only now they may go.
            pause.kill()
            finished = True
        return verdict
    finally:
        if not finished:
            pause.resume()
        told.paused = pause.held(target.front)


def _ambiguous(target: Target, told: _Told) -> tuple[str, str] | None:
    """Why nothing may be touched: the code of the verdict, and what was found."""
    if target.record is not None and (found := _record_differs(target, told)) is not None:
        return found
    found_alive = {one: still_alive(one) for one in (*target.supervisors, target.root)}
    if Alive.UNKNOWN in found_alive.values():
        return "cannot-tell", "an identity cannot be compared from here"
    front, keeper = (found_alive[one] is Alive.YES for one in target.supervisors)
    if front and keeper and read_stat(target.keeper.pid).ppid != target.front.pid:
        return "not-the-supervisor", "the keeper is no child of the front"
    for one, alive in found_alive.items():
        if alive is not Alive.YES:
            continue
        try:
            _try_signal(one)
        except ProcessLookupError:
            continue
        except PermissionError:
            return "not-delivered", f"EPERM for pid {one.pid}"
    return None


def _try_signal(one: ProcessIdentity) -> None:
    from lastout.identity import signal

    try:
        signal(one, 0)
    except IdentityUnknown as error:
        raise PermissionError(1, str(error)) from error


def _record_differs(target: Target, told: _Told) -> tuple[str, str] | None:
    from lastout.evidence import journal
    from lastout.evidence.events import Forced, Started

    try:
        contents = journal.read(target.record or "", target.run)
    except OSError as error:
        return "record-unreadable", str(error)
    started = next((event for event in contents.events if isinstance(event, Started)), None)
    if started is None:
        return "record-unreadable", "the record has no `started` line that can be read"
    for name in ("front", "keeper", "root"):
        found, wanted = getattr(started, name), getattr(target, name)
        if (found.pid, found.start) != (wanted.pid, wanted.start):
            return "not-the-supervisor", f"the record names another {name}"
    told.inherited = started.inherited_children
    told.earlier = any(
        isinstance(event, Forced) and _delivered(event.verdict, event.detail)
        for event in contents.events
    )
    return None


def _delivered(verdict: str, detail: object) -> bool:
    """Whether a `forced` line tells of kills; its step can have ended unproven all the same.

    One without a verdict is that of a stop which left out the graces.
    """
    return verdict in (KILLED, "") or (
        isinstance(detail, dict) and bool(detail.get("signalled_count"))
    )


def _verdict(target: Target, sweep: Sweep, empty: bool, told: _Told) -> Verdict:
    root, writer = still_alive(target.root), still_alive(target.writer or target.root)
    gone = root is Alive.NO and writer is Alive.NO
    if empty and not sweep.signalled and not told.earlier:
        return Verdict(EXITED, "nothing-left", True)
    reached = "not-all-reached" if sweep.undelivered else "forced"
    if empty:
        return Verdict(KILLED, reached, True, {"tree_empty": True})
    if sweep.stranger:
        return Verdict(UNPROVEN, "not-the-supervisor", root is Alive.NO)
    if gone and not sweep.unverified:
        nobody = not sweep.signalled and not sweep.undelivered
        return Verdict(KILLED, "root-gone" if nobody else reached, True)
    if sweep.delivered_to_root and not sweep.undelivered and not sweep.unverified:
        return Verdict(KILLED, "forced", False)
    how = "not-delivered" if sweep.refused else "cannot-tell"
    return Verdict(UNPROVEN, how, {Alive.NO: True, Alive.YES: False}.get(root))


def _write(target: Target, verdict: Verdict) -> None:
    if target.record is None:
        return
    from lastout.evidence import journal
    from lastout.evidence.events import Forced

    try:
        if os.path.exists(target.record):
            detail = {**verdict.evidence, "how": verdict.how, "root_gone": verdict.root_gone}
            journal.append(target.record, Forced, target.run, verdict=verdict.kind, detail=detail)
    except OSError:
        pass  # a full disk: the verdict itself is in the caller's hands
