"""Hands events on to any number of readers, none of whom can hold up the others or the agent."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import anyio

from lastout.agents.events import AgentEvent
from lastout.host.events import Missed

__all__ = ["Reader", "Readers"]


class Reader:
    """The events for one reader, in order. Ends when the conversation's host has ended."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._events: deque[AgentEvent] = deque()
        self._missed = 0
        self._changed = anyio.Event()
        self._taken = anyio.Event()

    async def drained(self) -> None:
        """Wait until whoever reads has taken everything that was said so far."""
        while self._events:
            await self._taken.wait()

    def __aiter__(self) -> AsyncIterator[AgentEvent]:
        return self

    async def __anext__(self) -> AgentEvent:
        while not self._events:
            await self._changed.wait()
        if self._missed:
            missed, self._missed = self._missed, 0
            return Missed(count=missed)
        taken, self._taken = self._taken, anyio.Event()
        taken.set()
        return self._events.popleft()

    def _put(self, event: AgentEvent) -> None:
        if len(self._events) >= self._limit:
            # The oldest goes: a reader that comes back wants to know how things stand now.
            self._events.popleft()
            self._missed += 1
        self._events.append(event)
        waiting, self._changed = self._changed, anyio.Event()
        waiting.set()


class Readers:
    """Everybody who reads one conversation."""

    def __init__(self) -> None:
        self._readers: list[Reader] = []

    @contextmanager
    def reader(self, limit: int) -> Iterator[Reader]:
        """A reader for the length of the block."""
        reader = Reader(limit)
        self._readers.append(reader)
        try:
            yield reader
        finally:
            self._readers.remove(reader)

    def publish(self, event: AgentEvent) -> None:
        """Give it to all; never waits."""
        for reader in self._readers:
            reader._put(event)
