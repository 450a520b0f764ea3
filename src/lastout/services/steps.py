"""The steps of an activation, each taken by one process at a time and by whoever comes next.

accepted (durable) -> an attempt is begun (durable) -> its supervisor lives -> its tree is gone ->
the completion record is published -> its copy is delivered. Nothing here remembers anything: every
step begins with a look at what the files, the lock and the processes say.
"""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass
from typing import Final

from lastout.evidence.events import Failed, Refused
from lastout.evidence.journal import Contents
from lastout.evidence.settled import SETTLES, settled
from lastout.identity import Alive, ProcessIdentity, boot_id, still_alive
from lastout.recovery import case as cases
from lastout.recovery.act import recover
from lastout.recovery.case import Asker as RecoveryAsker
from lastout.recovery.case import Case, Known
from lastout.recovery.decide import Record
from lastout.services import activation as activations
from lastout.services import completion as completions
from lastout.services import delivery, layout
from lastout.services.activation import Activation
from lastout.services.completion import Completion
from lastout.verdict import EXITED, UNPROVEN, Verdict

__all__ = [
    "MOST_ATTEMPTS",
    "RETRY",
    "Found",
    "State",
    "case_of",
    "force_stop",
    "give_up",
    "settle",
    "supervisors_of",
]

MOST_ATTEMPTS: Final = 5
"""How often a start that comes to nothing is tried again, before that is the activation's end."""


RETRY: Final = 5.0
"""Seconds between two attempts at what could not be written (a full disk), or whose lock is held."""


class State(enum.Enum):
    """Where an activation is."""

    ACCEPTED = "accepted"
    """Durable, and nothing of it was executed: a start of its supervisor is due."""
    STARTING = "starting"
    RUNNING = "running"
    UNPROVEN = "unproven"
    """Its supervisor is gone, and nobody can say that its tree is."""
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Found:
    """What `settle` found. `verdict` comes with UNPROVEN, `completion` with ENDED."""

    state: State
    activation: Activation
    completion: Completion | None = None
    verdict: Verdict | None = None
    supervisors: tuple[ProcessIdentity, ...] = ()
    undelivered: str | None = None


def case_of(state: str, activation: Activation) -> Case | None:
    """The run of its last attempt; None when none was begun."""
    if not activation.attempts:
        return None
    attempt = activation.attempts[-1]
    folder = layout.locks_directory(state, activation.service)
    if not os.path.exists(os.path.join(folder, str(attempt.epoch))):
        return None  # killed between the two: what would be started takes its lock there first
    found = cases.of_lock(folder, attempt.epoch, f"service:{activation.service}")
    return Case(attempt.run, attempt.record, found.holder, found.key, found.epoch, folder)


def supervisors_of(known: Known) -> tuple[ProcessIdentity, ...]:
    """Front and keeper, those of them that are not known to be gone."""
    both = [one for one in (known.front, known.keeper) if one is not None]
    return tuple(one for one in both if still_alive(one) is not Alive.NO)


def settle(state: str, activation: Activation, *, fence: bool = False) -> Found:
    """Look where an activation is; publish its completion when it is over.

    The steps' lock is held. `fence`: the caller is about to start it anew, so an attempt that has
    not come to anything is kept from coming up late. Raises OSError when what is to be written
    cannot be.
    """
    name, one = activation.service, activation.id
    done = completions.load(state, name, one)
    if done is not None:
        return _ended(state, activation, done)
    if not activation.attempts:
        return Found(State.ACCEPTED, activation)
    ours = activation.attempts[-1].boot_id in ("", boot_id())
    case = case_of(state, activation)
    if case is None:
        if ours:
            return Found(State.ACCEPTED, activation)
        return _over(state, activation, Verdict(EXITED, "other-boot", True))
    known = cases.read(case)
    nobody = known.front is None and known.record in (Record.MISSING, Record.EMPTY)
    if nobody and ours and not fence:
        return Found(State.STARTING, activation)
    alive = supervisors_of(known) if ours else ()
    if known.record is Record.TREE_UNPROVEN and alive:
        return Found(State.RUNNING, activation, supervisors=alive)  # it says when the tree is gone
    result = recover(case)
    if result.verdict is None:
        known = cases.read(case)
        running = State.RUNNING if known.front is not None else State.STARTING
        return Found(running, activation, supervisors=supervisors_of(known))
    if result.verdict.kind == UNPROVEN:
        return Found(State.UNPROVEN, activation, verdict=result.verdict)
    return _over(state, activation, result.verdict)


def _over(state: str, activation: Activation, verdict: Verdict) -> Found:
    attempt = activation.attempts[-1]
    asked = activations.asked_to_stop(state, activation)
    case = case_of(state, activation)
    executing = case is not None and bool(cases.read(case).executing)
    contents = Contents()
    if os.path.exists(attempt.record):
        # What a supervisor of another boot has not written will not come any more.
        contents = settled(attempt.record, 0.0 if verdict.how == "other-boot" else SETTLES)
    refused = next((e for e in contents.events if isinstance(e, Refused | Failed)), None)
    # Not executed: it was fenced off, or killed before it began. Whoever may start it does so again.
    # Of another boot nobody knows: what went down with the machine may not have been on its disk.
    if not executing and not contents.events and verdict.how != "other-boot":
        return Found(State.ACCEPTED, activation)
    if isinstance(refused, Refused):
        return Found(State.ACCEPTED, activation)
    made = completions.conclude(activation, contents, verdict, asked)
    completions.publish(state, made)
    published = completions.load(state, activation.service, activation.id)
    assert published is not None
    return _ended(state, activation, published)


def give_up(state: str, activation: Activation, why: str) -> Found:
    """Complete an activation of which nothing was executed. The steps' lock is held."""
    asked = activations.asked_to_stop(state, activation)
    completions.publish(state, completions.failed_to_start(activation, why, asked))
    published = completions.load(state, activation.service, activation.id)
    assert published is not None
    return _ended(state, activation, published)


def force_stop(state: str, activation: Activation, *, now: bool = False) -> None:
    """The ladder, then the forced step where it is due. Blocks for the run's bound; the steps'
    lock is not held, so that whoever watches can publish."""
    case = case_of(state, activation)
    if case is not None:
        recover(case, asker=RecoveryAsker(stop=True), now=now)


def _ended(state: str, activation: Activation, done: Completion) -> Found:
    found = delivery.deliver(state, activation)
    why = found.why if found is not None and found.state == "failed" else None
    return Found(State.ENDED, activation, completion=done, undelivered=why)
