"""One conversation, as its caller sees it: what can be asked, and what is refused."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from lastout.agents.dialogue import Ability, Dialogue, Options
from lastout.agents.events import AgentEvent, Question
from lastout.host import sentences
from lastout.host.errors import HostError, NoQuestion, NotOffered, StillRunning
from lastout.host.events import State
from lastout.host.ledger import ENDED, Kept
from lastout.host.live import Live
from lastout.host.message import Message
from lastout.host.operation import Operation
from lastout.host.quiet import Look, Quiet, finish, quieten
from lastout.host.readers import Reader
from lastout.host.recovered import settle_orphans
from lastout.host.worker import Worker
from lastout.identity import ProcessIdentity
from lastout.outcome import Outcome
from lastout.reason import Reason, check_stop

__all__ = ["Conversation"]


class Conversation:
    """A conversation that this host has opened. `Host.open` makes it.

    At most one live agent at a time, here or anywhere; it is started by the first message, ended
    when nothing is owed for a while, and started again by the next message.
    """

    def __init__(self, worker: Worker, me: ProcessIdentity) -> None:
        self._worker = worker
        self._me = me

    @property
    def key(self) -> str:
        """The name under which the conversation is leased, on this machine or on many."""
        return self._worker.kept.key

    @property
    def state(self) -> State:
        """What it is doing now."""
        return self._worker.state

    @property
    def kept(self) -> Kept:
        """What is stored of it: agent, directory, options, the agent's own name for it."""
        return self._worker.kept

    @property
    def options(self) -> Options:
        """How its agent works."""
        return self._worker.kept.options

    @property
    def questions(self) -> tuple[Question, ...]:
        """The questions that wait for an answer."""
        return tuple(self._worker.questions.values())

    @property
    def last_verdict(self) -> str | None:
        """The verdict on the agent that was ended last; None before, or when nobody saw its end."""
        outcome = self._worker.last_outcome
        return outcome.verdict if outcome is not None else None

    @property
    def last_outcome(self) -> Outcome | None:
        """How the agent that was ended last has ended; None as for `last_verdict`."""
        return self._worker.last_outcome

    @property
    def run(self) -> str | None:
        """The run of the agent that is live, or None."""
        live = self._worker.live
        return live.grant.run if live is not None and live.grant is not None else None

    @contextmanager
    def events(self, limit: int = 4096) -> Iterator[Reader]:
        """Everything that is said from now on; who falls `limit` events behind misses some."""
        with self._worker.readers.reader(limit) as reader:
            yield reader

    def listening(self, hear: Callable[[AgentEvent], None]) -> AbstractContextManager[None]:
        """Call `hear` at once with everything that is said within the block; it must not wait."""
        return self._worker.readers.listener(hear)

    def has_reader(self, reader: Reader) -> bool:
        """Whether this reader hears this conversation, and not one that was closed before it."""
        return self._worker.readers.has(reader)

    async def send(self, text: str, *, id: str | None = None) -> Message:  # noqa: A002
        """Take a message; it is kept before this returns, and delivered in its turn.

        `id` is the caller's own name for it: sent again under the same id it is recognised, and
        never delivered twice; only what was `returned` is taken again. Raises ValueError for an id
        that was used for another text, StillRunning for one that another live host has taken.
        """
        self._check_open()
        identity = id or str(uuid.uuid4())
        under_way = self._worker.message(identity)
        kept, fresh = self._worker.ledger.take(self.key, identity, text, self._me)
        if under_way is not None:
            return under_way
        if not fresh and kept.state not in ENDED:
            # Another host has taken it, perhaps one that has died since.
            settle_orphans(self._worker.ledger, self.key, lambda _: self._worker.adapter)
            kept, fresh = self._worker.ledger.take(self.key, identity, text, self._me)
            if not fresh and kept.state not in ENDED:
                raise StillRunning(sentences.other_host(identity, kept.host))
        message = Message(kept)
        if fresh:
            self._worker.queue(message)
        return message

    async def interrupt(self) -> None:
        """Interrupt the turn; without one, nothing happens. Raises NotOffered."""
        live = self._worker.live
        if live is not None and live.session is not None and self._worker.current is not None:
            self._offers(Ability.INTERRUPT)
            live.session.interrupt()

    async def stop(
        self, reason: Reason = "user", *, by: str | None = None, now: bool = False
    ) -> str | None:
        """End the agent, and return what is queued; gives the verdict, None without an agent.

        The turn reads `interrupted`, and the next message starts a fresh agent. A second stop joins
        the first; `now` goes straight to SIGKILL. `reason` and `by` are for the record. Raises
        ValueError for another reason.
        """
        check_stop(reason)
        self._worker.return_queue(sentences.STOPPED)
        return await self._worker.end(reason, by=by, grace=0 if now else None)

    async def finish(
        self,
        reason: Reason = "user",
        *,
        by: str | None = None,
        grace: float | None = None,
        look: Look | None = None,
    ) -> Quiet:
        """`stop`, in an order that gives tools their grace: the turn is interrupted, then all that
        the agent has started is stopped, then the agent is ended.

        `grace` (seconds) shortens each of the waits. `look` is shown the members before they are
        signalled. Raises ValueError as `stop`, and for a grace below 0.
        """
        check_stop(reason, grace)
        self._worker.return_queue(sentences.STOPPED)
        return await finish(self._worker, reason, by=by, grace=grace, look=look)

    async def quiet(self, *, by: str | None = None, look: Look | None = None) -> Quiet:
        """Stop everything that the agent has started, between two turns; see `Quiet`.

        `look` is shown the members before they are signalled. Raises StillRunning during a turn.
        """
        if self._worker.current is not None and not self._worker.current.settled:
            raise StillRunning(sentences.IN_A_TURN)
        return await quieten(self._worker, by=by, look=look)

    async def rest(self) -> str | None:
        """End the agent politely; the conversation stays, and so does what is queued."""
        return await self._worker.end("idle")

    async def configure(self, **changes: str | None) -> None:
        """Change options. Raises ValueError for one that there is not, StillRunning, NotOffered."""
        options = self._worker.kept.options.updated(changes)
        self._offers(Ability.CONFIGURE)
        live = await self._here()
        if live is not None:
            await self._ask(live, lambda dialogue: dialogue.configure(options))
        self._worker.keep(options=options)

    async def answer(self, question: str, choice: str, /, **text: str) -> None:
        """Answer a question by one of its choices, by the choice's id or by its meaning.

        `text` fills the question's fields. Raises NoQuestion, ValueError for no choice of it,
        StillRunning.
        """
        live = await self._here()
        asked = self._worker.questions.get(question)
        if live is None or live.session is None or asked is None:
            raise NoQuestion(f"no question {question!r} waits for an answer")
        meanings = {str(c.meaning): c.id for c in reversed(asked.choices)}
        ids = {c.id for c in asked.choices}
        chosen = choice if choice in ids else meanings.get(choice, choice)
        live.session.tell(lambda dialogue: dialogue.answer(question, chosen, text))

    async def rewind(self, message: str) -> None:
        """Forget this message and all after it, in the agent's own history; between two turns.

        Raises StillRunning, NotOffered, LookupError for a message that was never delivered.
        """
        self._offers(Ability.REWIND)
        await self._here()
        worker = self._worker
        kept = worker.ledger.message(self.key, message)
        if kept is None or kept.turn is None or worker.kept.native is None:
            raise LookupError(f"no message {message!r} was delivered in this conversation")
        turn = kept.turn
        if not worker.adapter.rewinds_at_start:
            await self._between(lambda dialogue: dialogue.rewind(turn))
            return
        await self.rest()
        mark = worker.adapter.rewind_mark(worker.kept.native, turn)
        # What is rewound to its beginning is a new conversation for the agent.
        worker.keep(rewind_to=mark, native=worker.kept.native if mark is not None else None)

    async def goal(self, objective: str | None) -> None:
        """Set or clear the agent's goal. Raises StillRunning, NotOffered, NotStarted."""
        self._offers(Ability.GOAL)
        await self._here()
        await self._between(lambda dialogue: dialogue.goal(objective))

    async def stop_task(self, task: str) -> None:
        """End a task in the background. Raises StillRunning, NotOffered."""
        self._offers(Ability.STOP_TASK)
        live = await self._here()
        if live is not None:
            await self._ask(live, lambda dialogue: dialogue.stop_task(task))

    async def close(self, *, deadline: float | None = None, reason: Reason = "shutdown") -> None:
        """Return what is queued, end the agent, and take nothing any more.

        `deadline`, on the event loop's clock, is when to leave the agent to its supervisor.
        """
        check_stop(reason)
        worker = self._worker
        if not worker.closed:
            worker.closed = True
            worker.return_queue(sentences.CLOSED)
        await worker.end(reason, deadline=deadline)
        worker.set_state("closed")
        worker.wake()

    async def _here(self) -> Live | None:
        """The live agent, or None where it rests. Raises StillRunning when another may be here."""
        live = self._worker.live
        if live is not None and live.wanted is None:
            await live.settled.wait()  # one that is starting is ours, in a moment
            live = self._worker.live
        if live is not None and live.ready is not None and live.wanted is None:
            return live
        held = self._worker.claims.held(self.key) if live is None else None
        if held is not None or live is not None or self.state == "unproven":
            raise StillRunning(sentences.still_running(self.key, held))
        return None

    async def _between(self, action: Callable[[Dialogue], int]) -> None:
        """Ask the agent between two turns; starts it where it rests."""
        self._check_open()
        operation = Operation(lambda live: self._ask(live, action))
        self._worker.queue(operation)
        await operation.done.wait()
        if operation.error is not None:
            raise operation.error

    async def _ask(self, live: Live, action: Callable[[Any], int]) -> None:
        error = await self._worker.ask(live, action)
        if error is not None:
            raise NotOffered(error)

    def _offers(self, ability: str) -> None:
        if ability not in self._worker.adapter.offers:
            raise NotOffered(f"{self._worker.adapter.name} cannot do that: {ability}")

    def _check_open(self) -> None:
        if self._worker.closed:
            raise HostError("this conversation was closed; open it again")
