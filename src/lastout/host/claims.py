"""Leases for the host: the sole-writer grants, taken and settled without holding up the event
loop."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from anyio import CapacityLimiter, to_thread

from lastout import sole_writer
from lastout.host.recovered import Found
from lastout.identity import take
from lastout.leases import locks
from lastout.leases.model import Lease
from lastout.leases.store import Store
from lastout.outcome import Outcome
from lastout.process import Process
from lastout.recovery import act, case
from lastout.recovery.decide import Step
from lastout.sole_writer import Grant
from lastout.verdict import EXITED, Verdict

__all__ = ["Claims", "Grant", "open_claims"]

T = TypeVar("T")

_MOST_THREADS: Final = 256
"""They wait on pidfds while earlier agents end."""

_NEVER: Final = Verdict(EXITED, "never-started", True)


class Claims:
    """The leases of one state directory."""

    def __init__(self, state: str, store: Store) -> None:
        self._state = state
        self._store = store
        self._threads = CapacityLimiter(_MOST_THREADS)

    async def take(self, key: str) -> Grant:
        """The key for one new run, after what held it before was brought to a verdict.

        Raises Held, LeaseUnproven, StoreUnusable, OSError. Cancelled, the key is given back.
        """
        lock = threading.Lock()
        abandoned: list[bool] = []
        taken: list[Grant] = []

        def acquire() -> Grant:
            grant = sole_writer.acquire(key, state=self._state, store=self._store)
            with lock:
                taken.append(grant)
                if not abandoned:
                    return grant
            grant.release(_NEVER)
            return grant

        try:
            return await to_thread.run_sync(acquire, limiter=self._threads, abandon_on_cancel=True)
        except BaseException:
            # The thread may be waiting out an earlier agent, longer than a quit has time.
            with lock:
                abandoned.append(True)
                late = taken.pop() if taken else None
            if late is not None:
                late.release(_NEVER)
            raise

    async def commit(self, grant: Grant, process: Process) -> None:
        """The run's identities are known. Raises IdentityIncomplete."""
        await self._do(lambda: grant.commit(process.started))

    async def prove(self, grant: Grant, writer: int) -> None:
        """The agent answered for its conversation; `writer` is the pid of the one that writes."""
        await self._do(lambda: grant.prove(take(writer)))

    async def settle(self, grant: Grant, outcome: Outcome | None, *, launched: bool) -> Verdict:
        """Give the key back with what is known of the run; an unproven verdict keeps it."""
        known = outcome if launched else _NEVER
        return await self._do(lambda: grant.release(known))

    def held(self, key: str) -> Lease | None:
        """The lease when somebody may be running under it, None when nobody can be."""
        stored = self._store.get(key)
        if stored is None or stored.lease.free:
            return None
        found = case.of_lease(stored.lease, locks.directory(self._state, key))
        decision, _, _ = act.examine(found)
        over = decision.step is Step.SETTLE and decision.verdict is not None
        return None if over and decision.verdict.settled else stored.lease  # type: ignore[union-attr]

    async def recover(self, keys: Iterable[str]) -> list[Found]:
        """Bring the runs of owners that are gone to a verdict, side by side."""
        wanted = set(keys)
        todo = [
            case.of_lease(lease, locks.directory(self._state, lease.key))
            for lease in await self._do(self._store.leases)
            if lease.key in wanted and not lease.free and lease.holder is not None
        ]
        if not todo:
            return []
        results = await self._do(lambda: act.recover_all(todo, store=self._store))
        return [_found(result) for result in results]

    async def _do(self, work: Callable[[], T]) -> T:
        # A thread cannot be cancelled: what it began is waited for.
        return await to_thread.run_sync(work, limiter=self._threads)


def _found(result: act.Result) -> Found:
    verdict = result.verdict
    return Found(
        key=str(result.case.key),
        run=result.case.run,
        verdict=verdict.kind if verdict is not None else None,
        how=verdict.sentence if verdict is not None else "",
        left=result.left,
    )


@asynccontextmanager
async def open_claims(state: str | os.PathLike[str]) -> AsyncIterator[Claims]:
    """The leases of a state directory; the store is this process's, and stays open."""
    where = os.fspath(state)
    store: Any = await to_thread.run_sync(sole_writer.open_store, where)
    yield Claims(where, store)
