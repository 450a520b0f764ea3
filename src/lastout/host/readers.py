"""Hands events on to any number of readers, none of whom can hold up the others or the agent."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

from lastout.agents.events import AgentEvent
from lastout.changes import Changes
from lastout.host.events import Missed

__all__ = ["Reader", "Readers"]


class Reader:
    """The events for one reader, in order. Ends when the conversation's host has ended."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._events: deque[AgentEvent] = deque()
        self._missed = 0
        self._changes = Changes()
        self._taken = Changes()

    async def drained(self) -> None:
        """Wait until whoever reads has taken everything that was said so far."""
        while self._events:
            await self._taken.next()

    def __aiter__(self) -> AsyncIterator[AgentEvent]:
        return self

    async def __anext__(self) -> AgentEvent:
        while not self._events:
            await self._changes.next()
        if self._missed:
            missed, self._missed = self._missed, 0
            return Missed(count=missed)
        self._taken.announce()
        return self._events.popleft()

    def _put(self, event: AgentEvent) -> None:
        if len(self._events) >= self._limit:
            # The oldest goes: a reader that comes back wants to know how things stand now.
            self._events.popleft()
            self._missed += 1
        self._events.append(event)
        self._changes.announce()


class Readers:
    """Everybody who reads one conversation."""

    def __init__(self) -> None:
        self._readers: list[Reader] = []
        self._listeners: list[Callable[[AgentEvent], None]] = []

    @contextmanager
    def reader(self, limit: int) -> Iterator[Reader]:
        """A reader for the length of the block."""
        reader = Reader(limit)
        self._readers.append(reader)
        try:
            yield reader
        finally:
            self._readers.remove(reader)

    @contextmanager
    def listener(self, hear: Callable[[AgentEvent], None]) -> Iterator[None]:
        """Call `hear` at once with every event, for the length of the block; it misses none."""
        self._listeners.append(hear)
        try:
            yield
        finally:
            self._listeners.remove(hear)

    def has(self, reader: Reader) -> bool:
        """Whether it is one of these."""
        return reader in self._readers

    def publish(self, event: AgentEvent) -> None:
        """Give it to all; never waits."""
        for hear in tuple(self._listeners):
            hear(event)
        for reader in self._readers:
            reader._put(event)
