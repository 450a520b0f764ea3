"""The one task behind a conversation: starts agents, delivers messages, sees their ends.

Two starts at a time cannot be, because only this task starts. What the agent says comes in through
`_heard`, in order, and changes the state at once. Whoever ends the agent only asks; the end is seen
here, and what became of the message is said here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import anyio
from anyio.abc import TaskGroup

from lastout.agents.adapter import Adapter
from lastout.agents.dialogue import Start
from lastout.agents.events import (
    Accepted,
    AgentEvent,
    Background,
    Notice,
    Question,
    QuestionClosed,
    Rejected,
    Settled,
    Text,
    TurnEnded,
)
from lastout.changes import Changes, either
from lastout.host import sentences
from lastout.host.claims import Claims
from lastout.host.errors import HostError, NotStarted
from lastout.host.events import AgentEnded, AgentStarted, Moved, State, StateChanged
from lastout.host.ledger import Kept, Ledger, LedgerFailed, MessageState
from lastout.host.live import Live
from lastout.host.message import Message
from lastout.host.operation import Operation
from lastout.host.readers import Readers
from lastout.outcome import Outcome
from lastout.reason import Reason

__all__ = ["Worker"]


class Worker:
    """The state of one conversation, and the task that moves it."""

    def __init__(
        self,
        kept: Kept,
        adapter: Adapter,
        ledger: Ledger,
        claims: Claims,
        tasks: TaskGroup,
        idle: float,
    ) -> None:
        self.kept = kept
        self.adapter = adapter
        self.ledger = ledger
        self.claims = claims
        self.state: State = "resting"
        self.closed = False
        self.umask: int | None = None
        self.live: Live | None = None
        self.last_outcome: Outcome | None = None
        self.current: Message | None = None
        self.questions: dict[str, Question] = {}
        self.readers = Readers()
        self._tasks = tasks
        self._idle = idle
        self._queue: deque[Message | Operation] = deque()
        self.background: tuple[str, ...] = ()
        self._answers: dict[int, tuple[anyio.Event, list[Settled]]] = {}
        self._messages: dict[str, Message] = {}
        self._changes = Changes()

    # For the conversation.

    def message(self, identity: str) -> Message | None:
        """A message that is still under way."""
        return self._messages.get(identity)

    def queue(self, job: Message | Operation) -> None:
        """Do this when its turn has come."""
        self._queue.append(job)
        if isinstance(job, Message):
            self._messages[job.id] = job
            self.say(Moved(id=job.id, state="queued"))
        self.wake()

    def return_queue(self, reason: str) -> None:
        """Whatever waits does not wait any more."""
        queue, self._queue = self._queue, deque()
        for job in queue:
            self._fail(job, NotStarted(reason))

    def keep(self, **changes: Any) -> None:
        """Change what is stored of the conversation."""
        self.kept = kept = replace(self.kept, **changes)
        self._write(lambda: self.ledger.keep(kept))

    def say(self, event: AgentEvent) -> None:
        """Tell the readers."""
        self.readers.publish(event)

    def wake(self) -> None:
        """Something has changed: the task looks again."""
        self._changes.announce()

    def set_state(self, state: State) -> None:
        """What the conversation does now; nothing comes after `closed`."""
        if self.state not in (state, "closed"):
            self.state = state
            self.say(StateChanged(state=state))

    async def ask(self, live: Live, action: Callable[[Any], int]) -> str | None:
        """Ask the agent for something; gives the reason when it refuses, or is gone."""
        session = live.session
        assert session is not None
        answered, answers = anyio.Event(), list[Settled]()

        def register(dialogue: Any) -> None:
            # Registered before anything can be heard: some requests settle at once.
            self._answers[action(dialogue)] = (answered, answers)

        session.tell(register)
        # Its end alone answers what was asked when it had just gone.
        await either(answered, live.ended)
        return answers[0].error if answers else sentences.GONE

    async def end(
        self,
        reason: Reason,
        *,
        by: str | None = None,
        grace: float | None = None,
        deadline: float | None = None,
    ) -> str | None:
        """End the agent; gives the verdict, None when there was no agent."""
        live = self.live
        if live is None:
            return None
        self.set_state("stopping")
        live.end(reason, by=by, grace=grace, deadline=deadline)
        self.wake()
        await live.ended.wait()
        self.bury(live)
        return live.outcome.verdict if live.outcome is not None else None

    # The one task.

    async def work(self) -> None:
        """Deliver messages until the conversation is closed."""
        while not self.closed:
            if self._queue:
                await self._next(self._queue[0])
            elif self.live is not None and not self._owed():
                await self._rest_when_idle()
            else:
                await self._changes.next()
        live = self.live
        if live is not None:
            await live.ended.wait()
            self.bury(live)

    async def _next(self, job: Message | Operation) -> None:
        try:
            live = await self._ready()
        except HostError as refusal:
            if self._queue and self._queue[0] is job:
                self._queue.popleft()
                self._fail(job, refusal)
            return
        if not self._queue or self._queue[0] is not job or live.wanted is not None:
            return  # a stop has returned it meanwhile, or the agent is on its way out again
        self._queue.popleft()
        if isinstance(job, Operation):
            await self._operate(job, live)
        else:
            await self._deliver(job, live)

    async def _ready(self) -> Live:
        """The agent that is live, or a new one. Raises NotStarted."""
        live = self.live
        if live is not None and live.wanted is None and not live.ended.is_set():
            return live
        if live is not None:
            await live.ended.wait()
            self.bury(live)
        start = Start(
            cwd=self.kept.cwd,
            options=self.kept.options,
            resume=self.kept.native,
            rewind_to=self.kept.rewind_to,
        )
        live = Live(self.kept.key, self.adapter, start, self.claims, self._heard, self.umask)
        self.live, self.last_outcome = live, None
        self.set_state("starting")
        self._tasks.start_soon(live.run)
        await live.settled.wait()
        if live.ready is None:
            self.live, self.last_outcome = None, live.outcome
            self.set_state("unproven" if live.unproven else "resting")
            raise NotStarted(live.failure or "the agent was not started")
        assert live.session is not None
        assert live.grant is not None
        assert live.program is not None
        if self.kept.opened != live.ready.conversation:
            self.keep(opened=live.ready.conversation)
        self.say(
            AgentStarted(
                run=live.grant.run,
                pid=live.session.process.root.pid,
                epoch=live.grant.epoch,
                notice=live.program.notice,
            )
        )
        self.set_state("ready")
        return live

    async def _deliver(self, message: Message, live: Live) -> None:
        session = live.session
        assert session is not None
        writer = self._foreign_writer(live)
        if writer is not None:
            self._move(message, "returned", reason=writer)
            return
        self.current = message
        if not self._move(message, "delivering", run=live.grant.run if live.grant else None):
            # What is not on disk is not delivered: after a crash nobody would know of it.
            self.current = None
            self._move(message, "returned", reason=sentences.NOT_KEPT)
            return
        self.set_state("running")
        session.tell(lambda dialogue: dialogue.send(message.id, message.text))
        while not message.settled and not live.ended.is_set():
            await self._changes.next(live.ended)
        if not message.settled:
            self._settle_lost(message, live)
        self.current = None
        if live.ended.is_set() or self.adapter.one_turn:
            await live.ended.wait()
            self.bury(live)
        elif live.wanted is None:
            self.set_state("ready")

    async def _operate(self, operation: Operation, live: Live) -> None:
        try:
            await operation.do(live)
        except HostError as error:
            operation.error = error
        operation.done.set()

    async def _rest_when_idle(self) -> None:
        live = self.live
        assert live is not None
        if live.ended.is_set():
            self.bury(live)
            return
        # What an agent says while it idles is no work, and does not begin the time anew.
        with anyio.move_on_after(self._idle) as waited:
            while True:
                await self._changes.next(live.ended)
                if live.ended.is_set() or live.wanted or self._owed() or self._queue or self.closed:
                    return
        if waited.cancelled_caught and not self._owed() and not self._queue:
            await self.end("idle")

    def _owed(self) -> bool:
        """Work that keeps an idle agent alive."""
        return self.current is not None or bool(self.questions) or bool(self.background)

    # What the agent says.

    def _heard(self, event: AgentEvent) -> None:
        self.say(event)
        match event:
            case Accepted():
                self._accepted(event)
            case Rejected():
                message = self._messages.get(event.message)
                if message is not None and message is self.current:
                    self._move(message, "returned", reason=sentences.rejected(event.reason))
            case Text() if self.current is not None:
                self.current._hear(event.text)
            case TurnEnded() if event.message is not None:
                message = self._messages.get(event.message)
                if message is not None and message is self.current:
                    self._move(message, event.status, reason=event.error)
            case Question():
                self.questions[event.id] = event
            case QuestionClosed():
                self.questions.pop(event.id, None)
            case Background():
                self.background = event.tasks
            case Settled():
                waiting = self._answers.pop(event.request, None)
                if waiting is not None:
                    waiting[1].append(event)
                    waiting[0].set()
            case _:
                pass
        if not isinstance(event, Text):
            self.wake()

    def _accepted(self, event: Accepted) -> None:
        message = self._messages.get(event.message)
        live = self.live
        if message is None or message is not self.current or live is None or live.ready is None:
            return
        # Only now has the agent something to resume: a conversation without a message is unknown
        # to it at its next start.
        if self.kept.native != live.ready.conversation or self.kept.rewind_to is not None:
            self.keep(native=live.ready.conversation, rewind_to=None)
        self._move(message, "delivered", turn=event.turn)

    # Ends.

    def bury(self, live: Live) -> None:
        """Once for each agent: whoever comes first after its end."""
        if self.live is not live:
            return
        self.live = None
        self.questions.clear()
        self.background = ()
        for event, answers in self._answers.values():
            answers.append(Settled(request=0, error=sentences.GONE))
            event.set()
        self._answers.clear()
        self.last_outcome = None if live.left else live.outcome
        if self.current is not None and not self.current.settled:
            self._settle_lost(self.current, live)
        if live.outcome is not None and live.grant is not None:
            self.say(
                AgentEnded(
                    run=live.grant.run,
                    verdict=live.outcome.verdict,
                    returncode=live.outcome.returncode,
                    why=sentences.ended(live),
                )
            )
        self.set_state("unproven" if live.unproven else "resting")

    def _settle_lost(self, message: Message, live: Live) -> None:
        """The agent is gone, and has not said how this message ended."""
        why = sentences.lost(live)
        if message.state == "delivering":
            native = live.ready.conversation if live.ready is not None else None
            taken = self.adapter.knows(native, message.id) if native is not None else None
            if taken:
                self.keep(native=native)
            else:
                known = sentences.NOT_TAKEN if taken is False else sentences.PERHAPS_TAKEN
                self._move(message, "returned", reason=f"{why}; {known}")
                return
        self._move(message, "interrupted" if live.wanted is not None else "failed", reason=why)

    def _fail(self, job: Message | Operation, error: HostError) -> None:
        if isinstance(job, Message):
            self._move(job, "returned", reason=str(error))
        else:
            job.error = error
            job.done.set()

    def _foreign_writer(self, live: Live) -> str | None:
        if self.adapter.has_lock or self.kept.native is None or live.session is None:
            return None
        own = frozenset({live.session.process.root.pid})
        writer = self.adapter.writer(self.kept.native, own)
        return sentences.foreign(writer) if writer is not None else None

    def _move(self, message: Message, state: MessageState, **fields: str | None) -> bool:
        message.state = state
        message.reason = fields.get("reason")
        message.turn = fields.get("turn", message.turn)
        message.run = fields.get("run", message.run)
        ended = state in ("completed", "interrupted", "failed")
        kept = {**fields, "answer": message.answer} if ended else fields
        written = self._write(lambda: self.ledger.move(self.kept.key, message.id, state, **kept))
        if ended or state == "returned":
            self._messages.pop(message.id, None)
            message._end()
        self.say(Moved(id=message.id, state=state, reason=message.reason))
        self.wake()
        return written

    def _write(self, change: Callable[[], None]) -> bool:
        """A disk that is full takes nothing from the conversation that is under way."""
        try:
            change()
        except LedgerFailed as error:
            self.say(Notice(text=str(error)))
            return False
        return True
