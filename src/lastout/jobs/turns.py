"""The turns of an agent's job, driven inside its runner. `run` is called by the runner.

One conversation of the host, one message at a time. Before a turn's result is published everything
that it has started is stopped, and the agent too where it is to go or cannot stay; the next message
waits for that.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

import anyio
import msgspec
from anyio.abc import TaskGroup

from lastout.agents.events import AgentEvent, CommandStarted, TurnEnded
from lastout.changes import Changes
from lastout.host.conversation import Conversation
from lastout.host.errors import HostError
from lastout.host.events import AgentEnded, AgentStarting
from lastout.host.host import open_host
from lastout.host.message import Message as Sent
from lastout.host.quiet import Quiet, whole
from lastout.jobs import conclude, feed, held, turns_open, turns_result
from lastout.jobs import turns_sentences as sentences
from lastout.jobs.result import HeldLock, Why
from lastout.jobs.spec import AgentTurn
from lastout.jobs.turns_answer import chosen
from lastout.jobs.turns_feed import Story
from lastout.jobs.work import Answer, Cancel, Message, Request, Work
from lastout.leases.refusals import LeaseError

if TYPE_CHECKING:
    from lastout.evidence.events import Member

__all__ = ["run"]

Reason = Literal["completion", "timeout", "abort", "shutdown"]


def run(work: Work) -> None:
    """Drive the job to its end; what `work.Work` says of it holds when this returns."""
    turns = _Turns(work)
    try:
        anyio.run(turns.run)
    except* Exception as group:
        # The task group's wrapping says nothing to whoever reads the job's result.
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        turns.error = error
    if turns.error is not None:
        raise turns.error


class _Turns:
    """One job's conversation, from its first turn to its end."""

    def __init__(self, work: Work) -> None:
        assert isinstance(work.spec.work, AgentTurn)
        self.error: BaseException | None = None
        self._work = work
        self._asked: AgentTurn = work.spec.work
        self._story = Story(work)
        self._waiting: deque[Message] = deque()
        self._cancel: Cancel | None = None
        self._changes = Changes()
        self._key = ""
        self._record: str | None = None
        self._runs: list[str] = []
        self._locks: dict[HeldLock, None] = {}
        self._began_ns = 0
        self._over = False
        self._in_turn = False
        self._idle = False
        self._stray = False
        """The agent has begun to work by itself, between two turns."""
        self._lost = False
        """The idle agent has ended by itself."""
        self._finishing = False
        self._chat: Conversation
        self._tasks: TaskGroup

    async def run(self) -> None:
        """All of it."""
        work = self._work
        work.turn_began(None)
        self._story.progress(sentences.starting(self._asked.agent))
        try:
            await self._with_host()
        except (HostError, LeaseError, OSError, ValueError) as refusal:
            if self._record is not None or self._over:
                raise
            self._over = True
            self._work.publish(turns_result.refused(refusal, None, final=True))

    async def _with_host(self) -> None:
        work = self._work
        opened = turns_open.opening(work.state, work.spec)
        adapter, options = turns_open.adapter(self._asked, work.state)
        async with open_host(state=work.state, idle=math.inf) as host:
            if opened.native is not None:
                known = host.key_of(opened.agent, opened.native)
                opened = msgspec.structs.replace(opened, key=known or opened.key)
            self._key = opened.key
            turns_open.note(work.directory, opened)
            self._chat = await host.open(
                opened.key,
                adapter,
                cwd=opened.cwd,
                options=options if options.given() else None,
                native=opened.native,
                umask=work.spec.umask,
            )
            with self._chat.listening(self._hear):
                async with anyio.create_task_group() as self._tasks:
                    self._take(work.requests())
                    self._tasks.start_soon(self._listen)
                    await self._turn(None, self._asked.prompt)
                    while not self._over:
                        if self._waiting and self._cancel is None:
                            message = self._waiting.popleft()
                            work.turn_began(message.id)
                            await self._turn(message.id, message.text)
                        else:
                            await self._rest()
                    self._tasks.cancel_scope.cancel()

    # --- a turn ----------------------------------------------------------------------------------

    async def _turn(self, answers: str | None, text: str) -> None:
        self._story.begin()
        self._locks.clear()
        self._began_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        # Its own name for the conversation's memory: several jobs may share a conversation, and
        # their callers may choose the same ids.
        name = self._work.spec.id if answers is None else f"{self._work.spec.id}:{answers}"
        self._in_turn, self._stray = True, False
        self._runs = [self._chat.run] if self._chat.run is not None else []
        try:
            sent = await self._chat.send(text, id=name)
        except (HostError, ValueError) as refusal:
            # What cannot be written down is not delivered; another message may be.
            self._over = answers is None
            self._work.publish(
                turns_result.refused(
                    refusal, answers, final=self._over, undelivered=self._undelivered()
                )
            )
            return
        await self._until_settled(sent)
        why: Why = "completion"
        by: str | None = None
        if sent.settled:
            final = self._nothing_follows(sent, first=answers is None)
            quiet = await self._quieten(final)
            if quiet.kept and (self._cancel is not None or self._stray):
                quiet = turns_result.merged(quiet, await self._finish())
            final = final or self._cancel is not None
        else:
            ends: Reason = "timeout"
            if self._cancel is not None:
                ends, by = self._cancel.reason, self._cancel.by
            why = ends
            self._work.describe(why=why)
            quiet = await self._finish(ends)
            final = self._nothing_follows(sent, first=answers is None)
        quiet = self._named(quiet)
        self._story.end()
        if why == "completion" and sent.state == "returned" and quiet.outcome is None:
            why = "not-started"
        self._over = final
        self._work.publish(
            turns_result.of_turn(
                sent,
                quiet,
                why=why,
                by=by,
                timeout=self._asked.timeout,
                answers=answers,
                final=final,
                undelivered=self._undelivered(),
                locks=self._killed_locks(quiet),
                runs=tuple(self._runs),
                conversation=self._chat.kept.native or self._chat.kept.opened,
                detail={
                    "key": self._key,
                    "commands": self._story.commands,
                    "failed_commands": self._story.failed_commands,
                },
            )
        )

    def _undelivered(self) -> tuple[str, ...]:
        """What will never be, when the job is over."""
        return tuple(one.id for one in self._waiting) if self._over else ()

    async def _until_settled(self, sent: Sent) -> None:
        """Until the turn has ended, its time is over, or the job is cancelled."""
        with anyio.move_on_after(self._asked.timeout):
            async with anyio.create_task_group() as tasks:

                async def cancelled() -> None:
                    while self._cancel is None:
                        await self._changes.next()
                    tasks.cancel_scope.cancel()

                tasks.start_soon(cancelled)
                await sent.done()
                tasks.cancel_scope.cancel()

    async def _quieten(self, final: bool) -> Quiet:
        if final:
            return await self._finish("completion")
        quiet = await self._chat.quiet(by=self._name, look=self._look)
        if quiet.stopped and quiet.outcome is not None and quiet.outcome.stop is not None:
            self._story.notice(sentences.ENDED_TOO)
        return quiet

    async def _finish(self, why: Reason | None = None) -> Quiet:
        """End the agent, and everything that it has started; a cancel may shorten it."""
        cancel = self._cancel
        reason = why or (cancel.reason if cancel is not None else "completion")
        by = cancel.by if cancel is not None and cancel.reason == reason else None
        self._finishing = True
        try:
            return await self._chat.finish(
                reason,
                by=by or self._name,
                grace=cancel.grace if cancel is not None else None,
                look=self._look,
            )
        finally:
            self._finishing = False

    def _nothing_follows(self, sent: Sent, *, first: bool) -> bool:
        """Whether this turn is the job's last; then its callers are told so from here on."""
        if self._cancel is not None or (first and sent.state == "returned"):
            return True  # also when there is no conversation that a message could go on with
        if self._waiting or self._asked.keep > 0:
            return False
        self._take(self._work.close_inbox())
        if self._waiting and self._cancel is None:
            self._work.reopen_inbox()
            return False
        return True

    # --- between two turns -----------------------------------------------------------------------

    async def _rest(self) -> None:
        """Keep the agent for another message, as long as it was asked for; then end the job."""
        if self._cancel is None:
            self._work.idle(self._asked.keep)
        self._idle, self._lost = True, False
        with anyio.move_on_after(self._asked.keep):
            while not self._waiting and self._cancel is None:
                if self._stray:
                    self._stray = False
                    self._story.notice(sentences.STARTED_BY_ITSELF)
                    await self._chat.rest()
                else:
                    await self._changes.next()
        self._idle = False
        if self._cancel is None:
            if not self._waiting:
                self._take(self._work.close_inbox())
                if self._waiting and self._cancel is None:
                    self._work.reopen_inbox()
            if self._waiting and self._cancel is None:
                return
        self._locks.clear()
        self._began_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        quiet = Quiet()
        if self._chat.run is not None:
            quiet = await self._finish()
        elif self._lost:
            quiet = whole(self._chat.last_outcome, ())
        cancel = self._cancel
        self._over = True
        self._work.end(
            turns_result.ended(
                quiet,
                why=cancel.reason if cancel is not None else "completion",
                by=cancel.by if cancel is not None else None,
                undelivered=self._undelivered(),
                locks=self._killed_locks(quiet),
                conversation=self._chat.kept.native,
            )
        )

    # --- what callers ask ------------------------------------------------------------------------

    async def _listen(self) -> None:
        while True:
            await anyio.wait_readable(self._work.fileno())
            self._take(self._work.requests())

    def _take(self, requests: Iterable[Request]) -> None:
        for request in requests:
            match request:
                case Message():
                    self._work.emit(
                        feed.MessageTaken(id=request.id, text=request.text, by=request.by)
                    )
                    self._waiting.append(request)
                case Answer():
                    self._tasks.start_soon(self._answer, request)
                case Cancel():
                    self._cancelled(request)
        self._changes.announce()

    def _cancelled(self, request: Cancel) -> None:
        if self._cancel is None:
            self._cancel = request
        elif request.grace is not None:
            self._cancel = msgspec.structs.replace(self._cancel, grace=request.grace)
        if self._finishing and request.grace is not None:
            # Joins the one that is under way, and shortens it.
            self._tasks.start_soon(self._hurry, request.reason, request.grace)

    async def _hurry(self, reason: Reason, grace: float) -> None:
        await self._chat.finish(reason, by=self._name, grace=grace)

    async def _answer(self, request: Answer) -> None:
        try:
            choice, fields = chosen(self._work.question(request.question), request)
            self._story.answered(request.question, choice, request.by)
            await self._chat.answer(request.question, choice, **fields)
        except (HostError, ValueError, KeyError) as why:
            text = sentences.answer_refused(request.question, request.by, why)
            self._story.notice(text)

    # --- what the agent says ---------------------------------------------------------------------

    def _hear(self, event: AgentEvent) -> None:
        if isinstance(event, AgentStarting):
            # Raises when the disk takes nothing: then the agent is not started.
            assert event.record is not None
            self._work.will_start(event.run, event.record, self._key)
            self._record = event.record
            self._runs.append(event.run)
        elif isinstance(event, TurnEnded) and event.message is not None:
            self._in_turn = False
        elif not self._in_turn and isinstance(event, CommandStarted):
            self._stray = True
            self._changes.announce()
        elif self._idle and isinstance(event, AgentEnded):
            self._lost = True
        self._story.hear(event)

    def _look(self, members: Sequence[Member]) -> None:
        found = held.of_processes((one.pid, one.name) for one in members)
        self._locks.update(dict.fromkeys(found))

    def _killed_locks(self, quiet: Quiet) -> tuple[HeldLock, ...]:
        """Of the locks that were seen, those of members that were stopped, where any was killed."""
        stopped = {one.identity.pid for one in quiet.stopped}
        found = tuple(one for one in self._locks if one.pid in stopped)
        if not found or self._record is None:
            return ()
        from lastout.evidence.journal import read

        lines = [one for one in read(self._record).events if one.boottime_ns >= self._began_ns]
        return conclude.killed_locks(lines, found)

    def _named(self, quiet: Quiet) -> Quiet:
        """With the names of who was left over when the agent had ended, from the run's record."""
        if self._record is None or all(one.name for one in quiet.stopped):
            return quiet
        from lastout.evidence.journal import read

        found = conclude.names(read(self._record).events)
        return turns_result.named(quiet, found)

    @property
    def _name(self) -> str:
        """Who asks the supervisor, for its record."""
        return f"job {self._work.spec.id}"
