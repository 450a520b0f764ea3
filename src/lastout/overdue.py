"""What is known of a run whose supervisor gave no last word in time: look elsewhere, then force.

Only here does a run of `open_process` use a thread: for the record's file, which may lie on a slow
disk, and for the forced step. Both are bounded.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from dataclasses import replace

from lastout import forced, identity, tier
from lastout.evidence.events import Event, Started
from lastout.evidence.settled import settled
from lastout.graces import MARGIN
from lastout.outcome import Outcome, decide, identity_of

__all__ = ["conclude", "settle"]


async def conclude(
    facts: Sequence[Event], *, run: str, record: str | None, deadline: float
) -> Outcome:
    """The outcome when the control socket did not tell it. `deadline` is the bound on the loop's
    clock, `facts` the lines that did come."""
    from anyio import to_thread

    if (started := _started(facts)) is not None:
        await _keeper_ends(started, deadline)
    return await to_thread.run_sync(functools.partial(settle, facts, run=run, record=record))


def settle(facts: Sequence[Event], *, run: str, record: str | None) -> Outcome:
    """The outcome by the record, or by the forced step. Blocks, at most as long as that takes."""
    started = _started(facts)
    if started is None:
        return decide(facts, run=run, record=record)
    written = _written(record, started.run)
    seen = {(event.source, event.seq) for event in facts}
    more = [event for event in written if (event.source, event.seq) not in seen]
    known = sorted([*facts, *more], key=lambda event: event.boottime_ns)
    outcome = decide(known, run=run, record=record)
    if outcome.tree_gone:
        return outcome
    target = forced.Target(
        run=run,
        front=identity_of(started.front, started),
        keeper=identity_of(started.keeper, started),
        root=identity_of(started.root, started),
        # A record whose first line was lost with its supervisors cannot say whom it is about. The
        # identities here came from them directly.
        record=record if _started(written) is not None else None,
        tier=tier.of_started(started),
    )
    verdict = forced.force(target)
    empty = verdict.kind == "exited" or bool(verdict.evidence.get("tree_empty"))
    return replace(
        outcome,
        verdict=verdict.kind,
        how=verdict.how,
        root_gone=bool(verdict.root_gone) or outcome.root_gone,
        tree_gone=empty,
        remaining=() if empty else outcome.remaining,
    )


def _started(facts: Sequence[Event]) -> Started | None:
    return next((event for event in facts if isinstance(event, Started)), None)


async def _keeper_ends(started: Started, deadline: float) -> None:
    """A keeper that lost its front goes on stopping the tree, and then writes the record itself."""
    import anyio

    try:
        fd = identity.open_pidfd(identity_of(started.keeper, started))
    except (OSError, identity.IdentityUnknown):
        return  # it is gone, or cannot be waited for at this moment
    try:
        with anyio.CancelScope(deadline=deadline):
            await anyio.wait_readable(fd)
    finally:
        os.close(fd)


def _written(record: str | None, run: str) -> Sequence[Event]:
    """The lines of the record; the last ones may still be on their way to the disk."""
    if record is None:
        return ()
    try:
        return settled(record, MARGIN, run).events
    except OSError:
        return ()
