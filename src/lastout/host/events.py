"""What the host says of a conversation, beside what its agent says (lastout.agents.events)."""

from __future__ import annotations

from typing import Literal

from lastout.agents.events import AgentEvent

__all__ = [
    "AgentEnded",
    "AgentStarted",
    "AgentStarting",
    "Missed",
    "Moved",
    "State",
    "StateChanged",
]

State = Literal["resting", "starting", "ready", "running", "stopping", "unproven", "closed"]
"""`resting`: no agent, the next message starts one. `unproven`: the earlier agent could not be
stopped; sending tries once more."""


class StateChanged(AgentEvent, frozen=True, kw_only=True, tag="state"):
    """The conversation is in another state."""

    state: State


class Moved(AgentEvent, frozen=True, kw_only=True, tag="message"):
    """A message went on: queued, delivering, delivered, then one of the four ends."""

    id: str
    state: str
    reason: str | None = None


class AgentStarting(AgentEvent, frozen=True, kw_only=True, tag="agent-starting"):
    """The key is ours for this run, and nothing of it has been started yet."""

    run: str
    record: str | None
    epoch: int


class AgentStarted(AgentEvent, frozen=True, kw_only=True, tag="agent-started"):
    """An agent runs for this conversation, at this epoch."""

    run: str
    pid: int
    epoch: int
    notice: str | None = None


class AgentEnded(AgentEvent, frozen=True, kw_only=True, tag="agent-ended"):
    """The agent is gone, as far as the verdict says. `why` is in words for people."""

    run: str
    verdict: str
    returncode: int | None
    why: str


class Missed(AgentEvent, frozen=True, kw_only=True, tag="missed"):
    """This reader was too slow: so many events were left out before this one."""

    count: int
