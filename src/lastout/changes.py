"""A way to wait for "something has changed": whoever waits looks again by itself."""

from __future__ import annotations

import anyio

__all__ = ["Changes", "either"]


class Changes:
    """Between a look at the state and `next` nothing may be awaited, or a change is missed."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def announce(self) -> None:
        """Something has changed."""
        event, self._event = self._event, anyio.Event()
        event.set()

    async def next(self, end: anyio.Event | None = None) -> None:
        """Wait for the next change, or for `end`."""
        event = self._event
        if end is None:
            await event.wait()
        else:
            await either(event, end)


async def either(one: anyio.Event, other: anyio.Event) -> None:
    """Wait for the first of two events."""
    async with anyio.create_task_group() as tasks:

        async def until_other() -> None:
            await other.wait()
            tasks.cancel_scope.cancel()

        tasks.start_soon(until_other)
        await one.wait()
        tasks.cancel_scope.cancel()
