"""The protocol of one agent process without any I/O: bytes in, events out, bytes to send.

A dialogue decides nothing about processes, leases or time. Whoever runs it writes what is in
`outgoing` to the agent's stdin in order, gives it each line of the agent's stdout, and ends stdin
when `ended_input` is set.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import msgspec

from lastout.agents.events import AgentEvent, Noise, Settled

__all__ = ["Ability", "Dialogue", "Options", "Speaker", "Start"]


class Ability:
    """What an agent's protocol may or may not offer.

    The names are used in `Adapter.offers` and in errors.
    """

    RESUME = "resume"
    INTERRUPT = "interrupt"
    CONFIGURE = "configure"
    REWIND = "rewind"
    GOAL = "goal"
    STOP_TASK = "stop-task"


@dataclass(frozen=True, slots=True)
class Options:
    """How the agent is to work.

    None leaves it as the user configured it. The values are the agent's own words.
    """

    model: str | None = None
    effort: str | None = None
    approval: str | None = None
    sandbox: str | None = None

    def updated(self, changes: dict[str, str | None]) -> Options:
        """These options with some of them changed. Raises ValueError for a name that is none."""
        unknown = sorted(set(changes) - set(self.__slots__))
        if unknown:
            raise ValueError(
                f"no such option: {', '.join(unknown)}; there are {', '.join(self.__slots__)}"
            )
        return replace(self, **changes)

    def given(self) -> dict[str, str]:
        """Only those that are not None."""
        pairs = ((name, getattr(self, name)) for name in self.__slots__)
        return {name: value for name, value in pairs if value is not None}


@dataclass(frozen=True, slots=True)
class Start:
    """What a process is started for.

    `resume` is the agent's name of the conversation, None for a new one.
    """

    cwd: str
    options: Options = field(default_factory=Options)
    resume: str | None = None
    rewind_to: str | None = None
    """With `resume`: the agent's mark of the last thing that is kept (Claude rewinds at a
    start)."""


class Dialogue(Protocol):
    """What the session needs of a protocol.

    Requests return a number; its answer is a `Settled` with that number.
    """

    outgoing: deque[bytes]
    ended_input: bool
    busy: bool
    """A turn is running."""
    heard: Callable[[Mapping[str, Any]], object] | None
    """Told of every message of the agent, decoded, before it is taken.

    The record of commands feeds on it.
    """

    def pending(self) -> list[AgentEvent]:
        """Events that a request of ours caused by itself."""

    def open(self) -> None:
        """Say hello and open or resume the conversation: `Ready` or `StartRefused` follows."""

    def reopen(self) -> None:
        """Ask again for the conversation, after `StartRefused` with `locked`."""

    def receive(self, line: bytes) -> list[AgentEvent]:
        """Take one line of the agent's output."""

    def ended(self, code: int | None, rest: str) -> list[AgentEvent]:
        """The agent's output is over.

        `code` is its exit code where it is known, `rest` its last output.
        """

    def send(self, message: str, text: str) -> None:
        """Give the agent a message: `Accepted` or `Rejected`, and later `TurnEnded` follow."""

    def interrupt(self) -> int: ...
    def configure(self, options: Options) -> int: ...
    def answer(self, question: str, choice: str, text: dict[str, str]) -> None:
        """Answer a pending question.

        Raises KeyError when it does not wait, ValueError for no choice of it.
        """

    def rewind(self, turn: str) -> int: ...
    def goal(self, objective: str | None) -> int: ...
    def stop_task(self, task: str) -> int: ...
    def farewell(self) -> None:
        """The agent's own first step of an end, before its stdin is ended."""


class Speaker:
    """What all dialogues over JSON lines share: the outgoing queue, request numbers, and noise."""

    HEAD: ClassVar = 200

    def __init__(self) -> None:
        self.outgoing: deque[bytes] = deque()
        self.ended_input = False
        self.busy = False
        self.heard: Callable[[Mapping[str, Any]], object] | None = None
        """Told of every message of the agent, decoded, before it is taken.

        The record of commands feeds on it.
        """
        self._events: list[AgentEvent] = []
        self._requests = 0

    def receive(self, line: bytes) -> list[AgentEvent]:
        """Take one line of the agent's output."""
        try:
            message = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._emit(self._noise(line, "not-json"))
        else:
            if self.heard is not None and isinstance(message, dict):
                self.heard(message)
            # An agent that sends the right words in the wrong shape must not take the host down
            # with it.
            try:
                known = self._take(message)
            except (KeyError, TypeError, AttributeError, IndexError, ValueError):
                known = False
            if not known:
                self._emit(self._noise(line, "not-a-message"))
        return self._drain()

    def ended(self, code: int | None, rest: str) -> list[AgentEvent]:
        """The agent's output is over; a turn that was running is the session's to settle."""
        self.busy = False
        return self._drain()

    def _take(self, message: Any) -> bool:
        """One message of the agent; false when it is none of its protocol, as all are without one."""
        return False

    def _emit(self, *events: AgentEvent) -> None:
        self._events += events

    def _drain(self) -> list[AgentEvent]:
        events, self._events = self._events, []
        return events

    def _number(self) -> int:
        self._requests += 1
        return self._requests

    def _settled_at_once(self, error: str | None = None) -> int:
        """A request that needs no word to the agent, or that it does not offer.

        The event comes with the next ones.
        """
        number = self._number()
        self._emit(Settled(request=number, error=error))
        return number

    def pending(self) -> list[AgentEvent]:
        """Events that a request caused by itself."""
        return self._drain()

    def _noise(self, line: bytes, why: Any) -> Noise:
        return Noise(head=line[: self.HEAD].decode("utf-8", "replace"), length=len(line), why=why)
