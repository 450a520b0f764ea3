"""What to do about a run that may be over, decided from facts alone.

`decide` is pure: it asks nothing, waits for nothing and is tested over every combination of facts.
`recovery.act` gathers the facts, carries out the step and asks again. Unknown never counts as yes
or as no, and no fact becomes better by waiting.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lastout.identity import Alive
from lastout.leases.locks import LockState
from lastout.verdict import EXITED, KILLED, UNPROVEN, Verdict

__all__ = ["Decision", "Facts", "Record", "Step", "decide"]


class Record(enum.Enum):
    """How far the record of the run goes."""

    MISSING = "missing"
    EMPTY = "empty"
    """It is there, and nothing in it says that anything was started."""
    STARTED = "started"
    """The root was executed; the end is not told."""
    NOT_STARTED = "not-started"
    """`refused` or `failed`."""
    TREE_GONE = "tree-gone"
    TREE_UNPROVEN = "tree-unproven"
    UNREADABLE = "unreadable"


class Step(enum.Enum):
    """What is to be done next."""

    SETTLE = "settle"
    """The verdict is there: write it."""
    LEAVE = "leave"
    """The run lives, and it is not for the asker to touch it."""
    FENCE = "fence"
    """Make the next epoch's lock file, then test the lock: nothing can start late any more."""
    AWAIT_START = "await-start"
    """Somebody is starting right now: wait, bounded, for its record or for its end."""
    ASK = "ask"
    """SIGTERM and SIGCONT to the supervisor, then wait out its own bound on its pidfd."""
    FORCE = "force"
    """The forced step."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a run. A process is None where no identity of it is known."""

    same_boot: bool | None
    """Whether the run is of this boot; None when one of the two boot ids is not known."""
    record: Record
    lock: LockState | None = None
    """The run's own lock; None while it was not tested, or when it has none."""
    fenced: bool = False
    """A newer epoch's file is there, or the run never had a lock: no front comes up late."""
    front: Alive | None = None
    keeper: Alive | None = None
    root: Alive | None = None
    writer: Alive | None = None
    group: Alive | None = None
    """Whether anything is alive in the root's group or session that is verified to be its own."""
    executing: bool | None = None
    """Whether the keeper noted that it was about to execute the root (None: nobody notes it)."""
    cgroup_removed: bool = False
    """There is no `started` line, and the cgroup that was made for the run does not exist."""
    kill_delivered: bool | None = None
    """What the record says of the supervisor's own SIGKILL; None when it says nothing."""
    owner: Alive | None = None
    asker_owns: bool = False
    """The asker is the owner, or was told by a person to stop the run."""
    handle_gone: bool = False
    """The asker has no handle of this run any more, or was told to stop it."""
    awaited: bool = False
    asked: bool = False
    forced: Verdict | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision:
    """The next step; `verdict` comes with SETTLE, `why` says for people what was decided on."""

    step: Step
    verdict: Verdict | None = None
    why: str = ""


def decide(facts: Facts) -> Decision:
    """The next step for these facts."""
    if facts.same_boot is False:
        return _settle(facts, EXITED, "other-boot", True)
    if facts.record is Record.TREE_GONE:
        return _settle(facts, EXITED, "tree-gone", True)
    if facts.record is Record.NOT_STARTED:
        return _settle(facts, EXITED, "never-started", True)
    if facts.same_boot is None:
        return _settle(facts, UNPROVEN, "cannot-tell", None)
    if facts.forced is not None:
        return Decision(Step.SETTLE, facts.forced, "the forced step was taken")
    if facts.record is Record.TREE_UNPROVEN and (found := _after_the_bound(facts)):
        return found
    unstarted = facts.record is Record.EMPTY and facts.root is None  # a lease may know the root
    if facts.cgroup_removed and facts.front is Alive.NO and unstarted:
        # The kernel lets it go only when nothing lives in it, and there is nobody to make another.
        return _settle(facts, EXITED, "cgroup-removed", True)
    match _supervisors(facts):
        case Alive.YES:
            return _alive(facts)
        case Alive.NO:
            return _gone(facts)
        case Alive.UNKNOWN:
            return _settle(facts, UNPROVEN, "cannot-tell", _root_gone(facts))
        case None:
            return _nameless(facts)


def _supervisors(facts: Facts) -> Alive | None:
    """Front and keeper together. A free lock behind a fence means that both are gone."""
    both = (facts.front, facts.keeper)
    if Alive.YES in both:
        return Alive.YES
    if facts.lock is LockState.FREE and facts.fenced:
        return Alive.NO
    if both == (Alive.NO, Alive.NO):
        return Alive.NO
    if Alive.UNKNOWN in both:
        return Alive.UNKNOWN
    return None


def _after_the_bound(facts: Facts) -> Decision | None:
    """The supervisor said that it could not prove the end, and its keeper may stay for long."""
    if _writers(facts) is Alive.NO:
        return _settle(facts, KILLED, "root-gone", True)
    if facts.kill_delivered:
        return _settle(facts, KILLED, "killed-by-supervisor", _root_gone(facts))
    return None


def _alive(facts: Facts) -> Decision:
    """A supervisor lives. Its run is its owner's alone, and a run that nobody owns is nobody's."""
    ours = facts.asker_owns and (facts.handle_gone or facts.front is not Alive.YES)
    if not ours and facts.owner is not Alive.NO:
        return Decision(Step.LEAVE, None, "the run is alive, and its owner is not known to be gone")
    if not facts.asked:
        return Decision(Step.ASK)
    return Decision(Step.FORCE, None, "the supervisor is overdue")


def _gone(facts: Facts) -> Decision:
    """Both supervisors are gone and left no last word."""
    if facts.lock is LockState.HELD:
        # Not by front or keeper, then: whoever it is, nobody knows what it does.
        return _settle(facts, UNPROVEN, "lock-held", _root_gone(facts))
    if facts.root is None:
        return _gone_while_starting(facts)
    match _writers(facts):
        case Alive.NO:
            return _settle(facts, KILLED, "root-gone", True)
        case Alive.YES:
            if facts.owner is Alive.YES and not facts.asker_owns:
                return Decision(Step.LEAVE, None, "the agent is alive, and so is its owner")
            return Decision(Step.FORCE, None, "the supervisors are gone and the agent is not")
        case _:
            return _settle(facts, UNPROVEN, "cannot-tell", _root_gone(facts))


def _nameless(facts: Facts) -> Decision:
    """Nobody knows whether a supervisor was started: only the lock can tell, behind a fence."""
    # The owner itself may be starting it in another thread: its grant is then still there. Where
    # the front was known beforehand and is dead, nobody is starting anything.
    dropped = facts.asker_owns and facts.handle_gone
    if facts.owner is Alive.YES and not dropped and facts.front is not Alive.NO:
        return Decision(Step.LEAVE, None, "its owner is alive and may be starting it right now")
    if not facts.fenced:
        return Decision(Step.FENCE)
    if facts.lock is LockState.HELD:
        if not facts.awaited:
            return Decision(Step.AWAIT_START)
        return _settle(facts, UNPROVEN, "lock-held", None)
    if facts.lock is LockState.FREE:
        return _gone_while_starting(facts)
    return _settle(facts, UNPROVEN, "cannot-tell", None)


def _gone_while_starting(facts: Facts) -> Decision:
    """Nobody is there who could start anything, and no `started` line. Was the root executed?"""
    if not facts.fenced:
        return Decision(Step.FENCE)
    if facts.record is Record.UNREADABLE:
        return _settle(facts, UNPROVEN, "record-unreadable", None)
    # The record is opened before anything else is done: without it no front came that far. Where the
    # keeper noted that one did, the record was taken away since, and the run may have been long.
    missing = facts.record is Record.MISSING
    if facts.executing is False or (missing and not facts.executing):
        return _settle(facts, EXITED, "never-started", True)
    if facts.keeper is Alive.NO and facts.executing and not missing:
        return _settle(facts, KILLED, "killed-with-keeper", None)
    return _settle(facts, UNPROVEN, "no-record", None)


def _writers(facts: Facts) -> Alive | None:
    """Root, writer and the root's group as one: alive if one is, gone only if all are."""
    if facts.root is None:
        return None
    known = [alive for alive in (facts.root, facts.writer, facts.group) if alive is not None]
    if Alive.YES in known:
        return Alive.YES
    return Alive.UNKNOWN if Alive.UNKNOWN in known else Alive.NO


def _root_gone(facts: Facts) -> bool | None:
    return {Alive.YES: False, Alive.NO: True}.get(facts.root) if facts.root else None


def _settle(facts: Facts, kind: Any, how: str, root_gone: bool | None) -> Decision:
    evidence = {"facts": _told(facts), **facts.evidence}
    return Decision(Step.SETTLE, Verdict(kind, how, root_gone, evidence))


def _told(facts: Facts) -> dict[str, Any]:
    """The facts that are known, as JSON."""
    told: dict[str, Any] = {}
    for name in (
        "same_boot", "record", "lock", "fenced", "front", "keeper", "root", "writer", "group",
        "executing", "cgroup_removed", "kill_delivered", "owner", "asked",
    ):  # fmt: skip
        value = getattr(facts, name)
        if value is not None and not (name == "cgroup_removed" and not value):
            told[name] = value.value if isinstance(value, enum.Enum) else value
    return told
