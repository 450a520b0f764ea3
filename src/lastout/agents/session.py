"""One live agent: a supervised process with its dialogue.

The session moves bytes and keeps time; it decides nothing about conversations. Its events come in
the order in which the agent said them, from one task, through one function.
"""

from __future__ import annotations

import contextlib
import math
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
from anyio import BrokenResourceError, ClosedResourceError, EndOfStream

from lastout.agents.adapter import Plan
from lastout.agents.dialogue import Dialogue
from lastout.agents.events import AgentEvent, Noise
from lastout.agents.lines import Lines, TooLong
from lastout.agents.tail import Tail
from lastout.changes import Changes
from lastout.evidence.commands import CommandLog
from lastout.evidence.events import Note
from lastout.evidence.journal import Journal
from lastout.graces import MARGIN
from lastout.outcome import Outcome
from lastout.process import PIPE, Process, open_process
from lastout.streams import PipeReceiveStream

__all__ = ["DRAIN", "Session", "open_session", "stopped"]

DRAIN: Final = 1.0
"""Seconds: how long an interrupted turn may take to end before the agent's stdin is ended."""

_LAST_OUTPUT: Final = 1.0
"""Seconds: how long output is read on after the tree has gone. It has an end then, unless somebody
outside the tree holds the pipe."""


class Session:
    """A live agent. `on_event` is called for everything that it says."""

    def __init__(
        self, process: Process, plan: Plan, on_event: Callable[[AgentEvent], None]
    ) -> None:
        self.process = process
        self.dialogue: Dialogue = plan.dialogue
        self.tail = Tail()
        """The end of what it printed apart from its protocol."""
        self.over = anyio.Event()
        """The run is over: nothing of the tree is left, or its supervisor has said its last."""
        self._on_event = on_event
        self._written = Changes()
        self._idle = Changes()
        self._input_done = False
        self._log: CommandLog | None = None
        self._journal: Journal | None = None
        self._output_over = anyio.Event()

    # What the owner may do; each returns at once.

    def tell(self, action: Callable[[Dialogue], Any]) -> Any:
        """Do something with the dialogue, and send what it leads to."""
        result = action(self.dialogue)
        self._after()
        return result

    def interrupt(self) -> int:
        """Interrupt the turn, as the agent does it."""
        with contextlib.suppress(ProcessLookupError):
            if self.dialogue.ended_input:
                self.process.send_signal(signal.SIGINT)
        number: int = self.tell(lambda dialogue: dialogue.interrupt())
        return number

    async def hush(self, *, drain: float = DRAIN) -> None:
        """Interrupt the turn, as the agent does it, and let it end."""
        self.tell(lambda dialogue: dialogue.farewell())
        if self.dialogue.busy or self.dialogue.outgoing:
            with anyio.move_on_after(drain):
                while (self.dialogue.busy or self.dialogue.outgoing) and not self.over.is_set():
                    await self._idle.next()

    async def close(self, *, drain: float = DRAIN) -> None:
        """The agent's own polite end: interrupt, let the turn end, end its input. Does not wait."""
        await self.hush(drain=drain)
        self._input_done = True
        self._written.announce()
        if self.dialogue.outgoing and self.process.stdin is not None:
            self.process.stdin.close()  # it does not read: the writer will never get there

    def note(self, text: str) -> None:
        """A line of ours in the run's record."""
        if self._journal is not None:
            with contextlib.suppress(OSError):
                self._journal.append(Note, text=text)

    def record_commands(self) -> None:
        """Write what the agent reports of its commands into the run's record."""
        if self.process.record is not None:
            self._journal = Journal(self.process.record, self.process.run)
            self._log = CommandLog(self._journal)
            self.dialogue.heard = self._hear

    # The session's own work.

    async def _run(self, tasks: anyio.abc.TaskGroup) -> None:
        tasks.start_soon(self._write)
        tasks.start_soon(self._read)
        tasks.start_soon(self._read_errors)
        tasks.start_soon(self._watch)
        self.tell(lambda dialogue: dialogue.open())

    async def _watch(self) -> None:
        async for _ in self.process.events():
            pass
        with anyio.move_on_after(_LAST_OUTPUT):
            await self._output_over.wait()
        # From the root alone, and without the forced step: the run's outcome is the owner's to ask.
        self._emit(self.dialogue.ended(await self.process.wait_root(), self.tail.text()))
        self.over.set()
        self._idle.announce()

    async def _read(self) -> None:
        lines = Lines()
        stream = self.process.stdout
        assert stream is not None
        try:
            async for data in _chunks(stream):
                for line in lines.feed(data):
                    self._line(line)
                self._after()
            rest = lines.finish()
            if rest:
                self.tail.add(rest)
                head = rest[:200].decode("utf-8", "replace")
                self._emit([Noise(head=head, length=len(rest), why="unfinished")])
        finally:
            self._output_over.set()

    def _line(self, line: bytes | TooLong) -> None:
        if isinstance(line, TooLong):
            head = line.head.decode("utf-8", "replace")
            self._emit([Noise(head=head, length=line.length, why="too-long")])
            return
        events = self.dialogue.receive(line)
        for event in events:
            if isinstance(event, Noise):
                self.tail.add(line[:4096] + b"\n")
        self._emit(events)

    async def _read_errors(self) -> None:
        stream = self.process.stderr
        if stream is not None:
            async for data in _chunks(stream):
                self.tail.add(data)

    async def _write(self) -> None:
        stdin = self.process.stdin
        assert stdin is not None
        outgoing = self.dialogue.outgoing
        try:
            while True:
                while outgoing:
                    # Taken away only when it is written: `close` sees what an agent never read.
                    await stdin.send(outgoing[0])
                    outgoing.popleft()
                self._idle.announce()
                if self._input_done or self.dialogue.ended_input:
                    stdin.close()
                    return
                await self._written.next()
        except (BrokenResourceError, ClosedResourceError):
            outgoing.clear()  # the agent has gone, or is going: `_watch` tells
            self._idle.announce()

    def _after(self) -> None:
        self._emit(self.dialogue.pending())
        self._written.announce()
        if not self.dialogue.busy:
            self._idle.announce()

    def _emit(self, events: list[AgentEvent]) -> None:
        for event in events:
            self._on_event(event)

    def _hear(self, message: Any) -> None:
        if self._log is not None:
            # A full disk costs the record some lines, and the conversation nothing.
            with contextlib.suppress(OSError):
                self._log.feed(message)

    def _finish_log(self) -> None:
        if self._log is not None:
            with contextlib.suppress(OSError):
                self._log.close()
        journal, self._journal = self._journal, None
        if journal is not None:
            journal.close()


@asynccontextmanager
async def open_session(
    plan: Plan, on_event: Callable[[AgentEvent], None], **how: Any
) -> AsyncIterator[Session]:
    """Start the agent for the length of the block; `how` is for `open_process`.

    After the block nothing of it is alive, and `session.process.outcome` says how it ended.
    """
    async with open_process(
        plan.argv,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env=plan.env,
        # Out of the terminal's foreground group: its Ctrl-C is the owner's to understand.
        start_new_session=True,
        **how,
    ) as process:
        session = Session(process, plan, on_event)
        session.record_commands()
        failure: Exception | None = None
        try:
            async with anyio.create_task_group() as tasks:
                await session._run(tasks)
                try:
                    yield session
                except Exception as caught:
                    failure = caught  # raised below: in here it would come out as a group
                tasks.cancel_scope.cancel()
        finally:
            session._finish_log()
        if failure is not None:
            raise failure


async def stopped(
    session: Session, reason: Any, *, by: str | None = None, grace: float | None = None
) -> Outcome:
    """End the agent and wait for its outcome: its own polite end first, then the ladder.

    `grace` (seconds) shortens each of the waits; with 0 the tree gets SIGKILL at once.
    """
    most = math.inf if grace is None else grace
    # An input that is over has nothing to say any more: a plain command has had all of its own.
    if most > 0 and not session.dialogue.ended_input:
        await session.close(drain=min(DRAIN, most))
        own = session.process.started.stdin_grace_ms / 1000 + MARGIN
        with anyio.move_on_after(min(own, most)):
            await session.over.wait()
    # In the normal case the supervisor has seen the input's end and this changes nothing; a copy of
    # our pipe in a forked child of ours would hide the end from it.
    return await session.process.stop(reason, by=by, grace=grace)


async def _chunks(stream: PipeReceiveStream) -> AsyncIterator[bytes]:
    try:
        while True:
            yield await stream.receive(1 << 18)
    except (EndOfStream, ClosedResourceError, BrokenResourceError):
        return
