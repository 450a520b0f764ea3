"""The life of one agent in a conversation: find it, get the lease, start it, prove it, end it.

Everything that can fail on the way leaves by the same door: the lease is settled with what is known
of the process, and `failure` says in words why there is no agent.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

import anyio

from lastout.agents.adapter import LOCK_WAITS, Adapter, Program
from lastout.agents.dialogue import Start
from lastout.agents.events import AgentEvent, Ready, StartRefused
from lastout.agents.holders import is_below
from lastout.agents.session import Session, open_session, stopped
from lastout.changes import Changes
from lastout.errors import LastoutError
from lastout.graces import MARGIN
from lastout.host import sentences
from lastout.host.bounds import START
from lastout.host.claims import Claims, Grant
from lastout.host.errors import NotStarted
from lastout.host.events import AgentStarting
from lastout.leases.refusals import Held, LeaseUnproven
from lastout.outcome import Outcome
from lastout.reason import Reason

__all__ = ["Live"]


class Live:
    """One start and what came of it. `run` is its only task."""

    def __init__(
        self,
        key: str,
        adapter: Adapter,
        start: Start,
        claims: Claims,
        on_event: Callable[[AgentEvent], None],
        umask: int | None = None,
    ) -> None:
        self.key = key
        self.adapter = adapter
        self.start = start
        self.session: Session | None = None
        self.grant: Grant | None = None
        self.program: Program | None = None
        self.ready: Ready | None = None
        self.outcome: Outcome | None = None
        self.failure: str | None = None
        self.unproven = False
        """The lease is kept: the agent may still be running."""
        self.left = False
        """A quit had no time to see its end: it was left to its supervisor."""
        self.wanted: Reason | None = None
        """Why it is being ended; None while nobody has asked."""
        self.settled = anyio.Event()
        """It is ready, or will never be."""
        self.ended = anyio.Event()
        self._claims = claims
        self._umask = umask
        self._on_event = on_event
        self._answered: Ready | None = None
        self._refused: StartRefused | None = None
        self._changes = Changes()
        self._scope = anyio.CancelScope()
        self._grace: float | None = None
        self._by: str | None = None
        self._launched = False
        self._deadline: float | None = None

    async def run(self) -> None:
        """From nothing to nothing."""
        try:
            with self._scope:
                await self._with_lease()
            if self.ready is None and self.failure is None:
                self.failure = "it was stopped while it was starting"
        except Exception as error:
            expected = isinstance(error, LastoutError | OSError | ValueError)
            self.failure = str(error) if expected else f"{type(error).__name__}: {error}"
            if not expected:
                # A defect of ours costs this agent, never the other conversations.
                logging.getLogger("lastout.host").exception("the agent of %r", self.key)
            held = isinstance(error, Held) and error.lease.state == "unproven"
            self.unproven = self.unproven or held or isinstance(error, LeaseUnproven)
        finally:
            self.settled.set()
            self.ended.set()

    def end(
        self,
        reason: Reason,
        *,
        by: str | None = None,
        grace: float | None = None,
        deadline: float | None = None,
    ) -> None:
        """Ask for its end, and do not wait; asked again it changes nothing, or goes faster.

        `by` is for the record. `grace` (seconds) shortens each wait, 0 goes straight to SIGKILL.
        `deadline`, on the event loop's clock, is when a quit stops waiting and leaves the run to its
        supervisor.
        """
        self._deadline = deadline if self._deadline is None else self._deadline
        if grace is not None:
            self._grace = grace if self._grace is None else min(self._grace, grace)
        first = self.wanted is None
        if first:
            self.wanted, self._by = reason, by
            if self.session is None:
                self._scope.cancel()
            else:
                self.session.note(sentences.asked_to_end(reason))
        # The first one's own polite step comes before the ladder, unless there is no time for it.
        hurry = grace == 0 if first else grace is not None
        if hurry and self.session is not None and not self.session.over.is_set():
            self.session.process.request_stop(reason, by=by, grace=grace)
        self._changes.announce()

    async def _with_lease(self) -> None:
        self.program = await self.adapter.find()
        grant = self.grant = await self._claims.take(self.key)
        try:
            await self._with_agent(self.program, grant)
        finally:
            with anyio.CancelScope(shield=True):
                if self.outcome is None and self.session is not None:
                    self.outcome = self.session.process.outcome
                self.left = self._deadline is not None and not (
                    self.outcome is None or self.outcome.verdict == "exited"
                )
                # A quit that was not finished leaves the lease as it is, marked owned: the next
                # start recovers it, and takes the time that this one did not have.
                if not self.left:
                    verdict = await self._claims.settle(
                        grant, self.outcome, launched=self._launched
                    )
                    self.unproven = not verdict.settled

    async def _with_agent(self, program: Program, grant: Grant) -> None:
        resume = self.start.resume
        if resume is not None and not self.adapter.has_lock:
            writer = self.adapter.writer(resume, frozenset())
            if writer is not None:
                raise NotStarted(sentences.foreign(writer))
        plan = self.adapter.plan(program, self.start)
        # Who cannot note the run (a full disk) raises, and then nothing is started.
        self._on_event(AgentStarting(run=grant.run, record=grant.record, epoch=grant.epoch))
        self._launched = True
        async with open_session(
            plan,
            self._heard,
            cwd=self.start.cwd,
            graces=self.adapter.graces,
            key=self.key,
            lock=grant.lock,
            epoch=grant.epoch,
            run=grant.run,
            record=grant.record,
            umask=self._umask,
            stdin_end="ignore" if self.adapter.one_turn else "stop",
        ) as session:
            self.session = session
            await self._claims.commit(grant, session.process)
            ready = await self._answer(session)
            if ready is not None:
                await self._claims.prove(grant, self._own_writer(session, ready.conversation))
                self.ready = ready
                self.settled.set()
            self.outcome = await self._until_ended(session)

    async def _answer(self, session: Session) -> Ready | None:
        """Wait until the agent has the conversation; waits out its own lock, and only that.

        None when its end is asked for meanwhile.
        """
        waits = iter(LOCK_WAITS)
        with anyio.move_on_after(START):
            while self.wanted is None:
                if self._answered is not None:
                    return self._answered
                refused, self._refused = self._refused, None
                if refused is None:
                    if session.over.is_set():
                        raise NotStarted(await self._died(session))
                    await self._changes.next(session.over)
                    continue
                pause = next(waits, None) if refused.why == "locked" else None
                if pause is None:
                    raise NotStarted(self._why_not(refused, session))
                with anyio.move_on_after(pause):
                    while self.wanted is None and not session.over.is_set():
                        await self._changes.next(session.over)
                session.tell(lambda dialogue: dialogue.reopen())
            return None
        raise NotStarted(
            f"{self.adapter.name} did not answer within {START:g} s; its last output: "
            f"{session.tail.text() or 'none'}"
        )

    async def _until_ended(self, session: Session) -> Outcome:
        while self.wanted is None and not session.over.is_set():
            await self._changes.next(session.over)
        process = session.process
        reason = self.wanted or "completion"
        if self._deadline is not None:
            # A quit: nobody takes the forced step, that is for the next start to do.
            with anyio.CancelScope(deadline=self._deadline):
                await session.close()
                with anyio.move_on_after(process.started.stdin_grace_ms / 1000 + MARGIN):
                    await session.over.wait()
                process.request_stop(reason)
                await session.over.wait()
            return process.leave()
        if self.wanted is not None:
            return await stopped(session, reason, by=self._by, grace=self._grace)
        return await process.wait()

    def _heard(self, event: AgentEvent) -> None:
        if isinstance(event, Ready):
            self._answered = event
        elif isinstance(event, StartRefused):
            self._refused = event
        self._on_event(event)
        if isinstance(event, Ready | StartRefused):
            self._changes.announce()

    def _own_writer(self, session: Session, conversation: str) -> int:
        """The process of this run that writes, where the agent tells it; else the root."""
        root = session.process.root.pid
        writer = self.adapter.writer(conversation, frozenset())
        return writer.pid if writer is not None and is_below(writer.pid, root) else root

    async def _died(self, session: Session) -> str:
        outcome = await session.process.wait()
        return f"{self.adapter.name} {sentences.how_it_ended(outcome)} before it answered" + _shown(
            session
        )

    def _why_not(self, refused: StartRefused, session: Session) -> str:
        if refused.why == "locked" and self.start.resume is not None:
            own = frozenset({session.process.root.pid, os.getpid()})
            writer = self.adapter.writer(self.start.resume, own)
            who = str(writer) if writer else "another process"
            return f"{who} is in this conversation; close it there, and send again"
        if refused.why == "unknown":
            return f"{self.adapter.name} does not know this conversation: {refused.message}"
        return f"{self.adapter.name} refused to open the conversation: {refused.message}"


def _shown(session: Session) -> str:
    tail = session.tail.text()
    return f"; its last output: {tail}" if tail else "; it printed nothing"
