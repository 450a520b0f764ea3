"""A lease around one run: taken before anything starts, committed when it has, given back after."""

from __future__ import annotations

import functools
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

if TYPE_CHECKING:
    from lastout.handle import Process
    from lastout.sole_writer import Grant

__all__ = ["commit", "leased"]


@asynccontextmanager
async def leased(
    key: str,
    *,
    run: str,
    record: str | os.PathLike[str],
    state: str | os.PathLike[str] | None,
) -> AsyncIterator[tuple[Grant, list[Process]]]:
    """Hold a key for the length of the block; the process that ran goes into the list.

    Leaving the block gives the key back with the evidence of that run's end. Raises Held,
    LeaseUnproven, StoreUnusable.
    """
    from lastout.sole_writer import acquire

    ran: list[Process] = []
    take = functools.partial(acquire, key, run=run, record=record, state=state)
    # Shielded: a reservation that nobody gives back would be held until this process ends.
    with anyio.CancelScope(shield=True):
        grant = await anyio.to_thread.run_sync(take)
    try:
        yield grant, ran
    finally:
        outcome = ran[0].outcome if ran else None
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(grant.release, outcome)


async def commit(grant: Grant, process: Process) -> None:
    """Put a run that has started under its grant. Raises IdentityIncomplete, Fenced: stop it."""
    with anyio.CancelScope(shield=True):
        await anyio.to_thread.run_sync(grant.commit, process.started)
