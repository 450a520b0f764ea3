"""What became of a run: decided from its lines alone, never from a status that somebody could have
taken away.

`decide` is pure. It says `exited` only when both the root's end and an empty tree were observed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from lastout.evidence.events import (
    Event,
    Identity,
    Reaped,
    RootExited,
    Signalled,
    Started,
    StopBegan,
    TreeGone,
    TreeUnproven,
)
from lastout.identity import ProcessIdentity

__all__ = ["Outcome", "Stop", "Verdict", "decide", "identity_of"]

Verdict = Literal["exited", "killed", "unproven"]


@dataclass(frozen=True, slots=True)
class Stop:
    """The stop that ended a run: its trigger, and who asked for it and why where that was said."""

    trigger: str
    reason: str | None = None
    by: str | None = None
    signal: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended. What was not observed is None or empty."""

    verdict: Verdict
    """`exited`: the root's end and an empty tree were observed. `killed`: a SIGKILL reached
    everything, or the root is gone, but nobody saw the tree's end. `unproven`: something may still
    be running."""
    returncode: int | None
    """The root's exit status, or minus the signal that ended it, as in subprocess."""
    root_status: int | None
    """The raw wait status of the root."""
    stop: Stop | None
    """None when the root ended by itself."""
    root_gone: bool
    tree_gone: bool
    stopped: tuple[ProcessIdentity, ...]
    """Members other than the root that the stop had to signal (at most 256 are named)."""
    remaining: tuple[ProcessIdentity, ...]
    """Who was still there when the bound was over (at most 64 are named)."""
    run: str
    record: str | None
    how: str | None = None
    """What the verdict rests on where it is not the run's own lines: the forced step, by its code
    in `lastout.verdict`."""


def decide(events: Iterable[Event], *, run: str, record: str | None = None) -> Outcome:
    """The outcome that these lines of one run prove, in the order of their time.

    `root-exited` as the only stop trigger is no stop of the root: what was stopped are its
    leftovers. The caller adds what it found out elsewhere (the forced step) itself.
    """
    started: Started | None = None
    stop: StopBegan | None = None
    ended: RootExited | Reaped | None = None
    killed = False
    final: TreeGone | TreeUnproven | None = None
    for event in events:
        match event:
            case Started():
                started = event
            case StopBegan():
                stop = stop or event
            case RootExited() | Reaped(who="root"):
                ended = event if event.status is not None or ended is None else ended
            case Signalled(signal="KILL" | "SIGKILL", target="tree"):
                killed = killed or not event.failed
            case TreeGone() | TreeUnproven():
                final = event
            case _:
                pass
    tree_gone = isinstance(final, TreeGone)
    status = ended.status if ended is not None else None
    verdict: Verdict = "unproven"
    if tree_gone and ended is not None:
        verdict = "exited"
    elif ended is not None or tree_gone or killed:
        verdict = "killed"
    return Outcome(
        verdict=verdict,
        returncode=os.waitstatus_to_exitcode(status) if status is not None else None,
        root_status=status,
        stop=_stop(stop),
        root_gone=ended is not None or tree_gone,
        tree_gone=tree_gone,
        stopped=_named(final.stopped, started) if isinstance(final, TreeGone) else (),
        remaining=_named(final.remaining, started) if isinstance(final, TreeUnproven) else (),
        run=run,
        record=record,
    )


def identity_of(identity: Identity, started: Started | None) -> ProcessIdentity:
    """A line's identity, completed with the boot id and the pid namespace of its run."""
    return ProcessIdentity(
        identity.pid,
        identity.start,
        identity.inode,
        started.boot_id if started else "",
        started.pidns if started else 0,
    )


def _named(identities: Iterable[Identity], started: Started | None) -> tuple[ProcessIdentity, ...]:
    return tuple(identity_of(identity, started) for identity in identities)


def _stop(event: StopBegan | None) -> Stop | None:
    if event is None or event.trigger == "root-exited":
        return None
    return Stop(event.trigger, event.reason, event.by, event.signal)
