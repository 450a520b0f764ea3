"""What an agent says, in one vocabulary for all of them.

Everything here is *reported* by the agent's own protocol; what the supervisor observed is in the
record. The structs encode to JSON with their name in `event`, which is what `lastout host` prints.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

__all__ = [
    "Accepted",
    "AgentEvent",
    "Background",
    "Choice",
    "CommandEnded",
    "CommandOutput",
    "CommandStarted",
    "Noise",
    "Notice",
    "Question",
    "QuestionClosed",
    "Ready",
    "Rejected",
    "Settled",
    "StartRefused",
    "Text",
    "Thinking",
    "TurnEnded",
    "TurnStatus",
]

TurnStatus = Literal["completed", "interrupted", "failed"]


class AgentEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """Anything that an agent said."""


class Ready(AgentEvent, frozen=True, kw_only=True, tag="ready"):
    """The agent answered for this conversation: from here on it may write to it."""

    conversation: str
    resumed: bool
    model: str | None = None
    version: str | None = None


class StartRefused(AgentEvent, frozen=True, kw_only=True, tag="start-refused"):
    """The agent would not open the conversation.

    `locked`: another process holds the agent's own lock.
    """

    why: Literal["locked", "unknown", "cannot-resume", "failed"]
    message: str


class Accepted(AgentEvent, frozen=True, kw_only=True, tag="accepted"):
    """The agent has taken the message; `turn` is its own name for the turn, where it has one."""

    message: str
    turn: str | None = None


class Rejected(AgentEvent, frozen=True, kw_only=True, tag="rejected"):
    """The agent refused the message: it did not enter the conversation."""

    message: str
    reason: str


class Text(AgentEvent, frozen=True, kw_only=True, tag="text"):
    """A piece of the answer, in order."""

    text: str
    item: str | None = None


class Thinking(AgentEvent, frozen=True, kw_only=True, tag="thinking"):
    """A piece of what the agent shows of its reasoning."""

    text: str


class CommandStarted(AgentEvent, frozen=True, kw_only=True, tag="command-started"):
    """The agent runs a command, or calls a tool (`command` is then the tool's name)."""

    item: str
    command: str
    cwd: str | None = None


class CommandOutput(AgentEvent, frozen=True, kw_only=True, tag="command-output"):
    """A piece of a command's output."""

    item: str
    text: str


class CommandEnded(AgentEvent, frozen=True, kw_only=True, tag="command-ended"):
    """A command is over, as the agent reported it; what it did not report is None.

    Claude Code reports an exit code only in the text of a failure, and is read there.
    """

    item: str
    status: str
    exit_code: int | None = None
    duration_ms: int | None = None
    output: str | None = None


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One way to answer. `meaning` is the same for all agents; `id` is the agent's own."""

    id: str
    meaning: Literal["allow", "allow-always", "deny", "cancel", "other"]
    label: str


class Question(AgentEvent, frozen=True, kw_only=True, tag="question"):
    """The agent waits for an answer.

    An approval of something that it wants to do, or a question to the user.
    """

    id: str
    kind: Literal["approval", "input"]
    prompt: str
    choices: tuple[Choice, ...] = ()
    fields: tuple[str, ...] = ()
    detail: Any = None


class QuestionClosed(AgentEvent, frozen=True, kw_only=True, tag="question-closed"):
    """A question no longer waits: it was answered, or the agent took it back."""

    id: str


class TurnEnded(AgentEvent, frozen=True, kw_only=True, tag="turn-ended"):
    """A turn is over. `message` is the message that it answered, None for a turn of the agent's own
    making."""

    message: str | None
    status: TurnStatus
    error: str | None = None
    turn: str | None = None


class Background(AgentEvent, frozen=True, kw_only=True, tag="background"):
    """The tasks that go on behind the turns; empty when there are none."""

    tasks: tuple[str, ...]


class Settled(AgentEvent, frozen=True, kw_only=True, tag="settled"):
    """A request of ours was answered; `error` is the agent's refusal, None when it was done."""

    request: int
    error: str | None = None
    result: Any = None


class Notice(AgentEvent, frozen=True, kw_only=True, tag="notice"):
    """Something worth knowing that changes nothing.

    A retry, a warning, a wrapper in place of the native agent.
    """

    text: str


class Noise(AgentEvent, frozen=True, kw_only=True, tag="noise"):
    """The agent printed what its protocol does not know.

    Dropped, and shown here by its beginning.
    """

    head: str
    length: int
    why: Literal["not-json", "not-a-message", "too-long", "unfinished"]
