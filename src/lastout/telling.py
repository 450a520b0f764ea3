"""What a supervisor tells its owner: the lines of one run, read for everybody who waits for one.

There is no task behind it. Whoever waits reads, and what he reads is there for all; when he is
cancelled, the next one who waits goes on reading.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable

import anyio

from lastout.control import Control
from lastout.evidence import events as lines
from lastout.graces import MARGIN
from lastout.told import Told

__all__ = ["Telling"]

_KEPT = 1024  # events for those who iterate; what decides the outcome is kept besides


class Telling(Told):
    """The lines of one run as they come from `control`, and what they say at once.

    `max_stop` (seconds) is the bound until `started` tells it.
    """

    def __init__(self, control: Control, max_stop: float) -> None:
        super().__init__(max_stop)
        self._control = control
        self._turn = anyio.Lock(fast_acquire=True)
        self._recent: deque[lines.Event] = deque(maxlen=_KEPT)
        self._count = 0  # of all events, those that `_recent` has forgotten included
        self._ending_since: float | None = None  # on the event loop's clock
        self.over = False
        """Somebody has concluded what became of the run: nobody waits for a line any more."""
        self.listed: lines.Listed | None = None
        """The latest answer to the `list` command."""
        self.answers = 0
        """How many such answers have come."""
        self.others: lines.OthersStopped | None = None
        """The latest answer to the `stop-others` command."""
        self.errors = 0
        """How many commands were refused."""

    @property
    def finished(self) -> bool:
        """Nothing more will come that could matter."""
        if self.over:
            return True
        if not self._control.front_gone:
            return False
        # A keeper that outlives its front goes on writing; one that stays behind an unproven tree
        # has said its last word for now.
        return self.final or self._control.ended

    @property
    def ending(self) -> bool:
        """A stop has begun, was asked for, or the front is gone: from here on it is bounded."""
        return self._ending_since is not None

    @property
    def overdue_at(self) -> float:
        """When the supervisor should have said its last word, on the event loop's clock."""
        since = anyio.current_time() if self._ending_since is None else self._ending_since
        return since + self.max_stop + MARGIN

    def ends_now(self) -> None:
        """The bound begins, unless it has begun before."""
        if self._ending_since is None:
            self._ending_since = anyio.current_time()

    async def until(self, done: Callable[[], bool]) -> None:
        """Read until `done`. It must come true when `finished` does."""
        self.read()
        while not done():
            async with self._turn:
                self._read()
                if not done():
                    await self._control.wait()
                    self._read()

    def read(self) -> None:
        """Take what has come, without waiting."""
        # Not from under somebody who waits for it: what is taken away here would not wake him, and
        # it may be just what he waits for. He takes it himself, for all.
        if not self._turn.locked():
            self._read()

    def _read(self) -> None:
        for event in self._control.read():
            self._recent.append(event)
            self._count += 1
            self.take(event)
        told_to_end = self.stopping or (self.final and self.nothing is None)
        if told_to_end or self._control.front_gone or self._control.ended:
            self.ends_now()

    async def event(self, number: int) -> tuple[int, lines.Event] | None:
        """The event of this number, or the next that is kept, with its number; None at the end."""
        await self.until(lambda: self.finished or self._count > number)
        number = max(number, self._count - len(self._recent))
        return (number, self._recent[number - self._count]) if number < self._count else None

    def __aiter__(self) -> AsyncIterator[lines.Event]:
        return _Events(self)

    def take(self, event: lines.Event) -> None:
        """One more line."""
        super().take(event)
        if isinstance(event, lines.Listed):
            self.listed = event
            self.answers += 1
        elif isinstance(event, lines.OthersStopped):
            self.others = event
        elif isinstance(event, lines.Error):
            self.errors += 1


class _Events:
    """An iterator instead of a generator: a loop may leave it in the middle without a trace."""

    def __init__(self, telling: Telling) -> None:
        self._telling = telling
        self._next = 0

    def __aiter__(self) -> _Events:
        return self

    async def __anext__(self) -> lines.Event:
        found = await self._telling.event(self._next)
        if found is None:
            raise StopAsyncIteration
        self._next = found[0] + 1
        return found[1]
