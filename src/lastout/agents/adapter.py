"""What the rest needs to know of an agent: how it is started, spoken to, and recognised.

One adapter is one kind of agent, configured once; it holds no process. Everything that differs
between agents is behind this protocol, so that the host knows none of them by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from lastout.agents.dialogue import Dialogue, Start
from lastout.errors import LastoutError
from lastout.graces import Graces

__all__ = ["LOCK_WAITS", "Adapter", "AgentMissing", "AgentTooOld", "Plan", "Program", "Writer"]

LOCK_WAITS: Final = (0.1, 0.4, 1.0)
"""Seconds: how long a resume waits, each time, for the agent's own lock to come free."""


class AgentMissing(LastoutError):
    """The agent is not installed, or cannot be executed.

    The message says what is needed and how to get it.
    """


class AgentTooOld(LastoutError):
    """The agent that was found is older than this library can speak to.

    The message says which version is needed.
    """


@dataclass(frozen=True, slots=True)
class Program:
    """The executable that was found.

    `notice` is for the user: that only a wrapper of the agent was found. With `wrapper` the agent
    itself is a member of the tree, below its root.
    """

    path: str
    version: str | None = None
    notice: str | None = None
    wrapper: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """One start, ready to be executed. `env` None inherits ours."""

    argv: tuple[str, ...]
    env: dict[str, str] | None
    dialogue: Dialogue
    conversation: str | None
    """The agent's name of the conversation where we choose it ourselves, else None until
    `Ready`."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Another live process that may write to the conversation, outside our leases.

    `start` is in clock ticks.
    """

    pid: int
    start: int
    name: str

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid}, start {self.start})"


class Adapter(Protocol):
    """One kind of agent."""

    name: str
    graces: Graces
    offers: frozenset[str]
    one_turn: bool
    """The process ends with each turn: a plain command."""
    rewinds_at_start: bool
    """A rewind needs a new start."""
    restarts_servers: bool
    """An MCP server of its that was stopped is started again by the call that needs it."""
    follows_up: bool
    """Told of the end of a task behind its turns, it begins a turn of its own."""
    has_lock: bool
    """The agent itself refuses a second writer, so that it can be asked by a resume."""

    async def find(self) -> Program:
        """The program to execute. Raises AgentMissing and AgentTooOld."""

    def plan(self, program: Program, start: Start) -> Plan:
        """How to start it for this conversation."""

    def writer(self, conversation: str, own: frozenset[int]) -> Writer | None:
        """Another live process that writes to this conversation, by the agent's own traces.

        `own` are our pids.
        """

    def knows(self, conversation: str, message: str) -> bool | None:
        """Whether the agent's transcript has this message; None where that cannot be told."""

    def rewind_mark(self, conversation: str, turn: str) -> str | None:
        """For agents that rewind at a start: the mark before this turn; None when it is the first.

        Raises LookupError when the transcript does not have the turn.
        """
