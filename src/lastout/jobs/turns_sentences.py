"""What the turns of an agent's job tell people, in one place."""

from __future__ import annotations

from typing import Final

from lastout.jobs import sentences

__all__ = [
    "ENDED_TOO",
    "STARTED_BY_ITSELF",
    "answer_refused",
    "gone",
    "late",
    "needs_choice",
    "no_conversation",
    "not_ended",
    "one_conversation",
    "other_agent",
    "other_text",
    "running",
    "starting",
    "text_left_out",
    "turn_failed",
    "unread",
    "who",
]

ENDED_TOO: Final = (
    "the agent was ended with what it had started, without which it cannot go on: a message starts "
    "a fresh one, which resumes"
)
STARTED_BY_ITSELF: Final = (
    "the agent began to work although no message was under way, and was ended"
)


def starting(agent: str) -> str:
    """The current line until the agent says something."""
    return f"starting {agent}"


def running(command: str) -> str:
    """The current line while a command runs."""
    return f"runs: {command}"


def who(by: str | None) -> str:
    """Who answered."""
    return by or "somebody"


def answer_refused(question: str, by: str | None, why: object) -> str:
    """An answer that came too late, or was none."""
    return f"the answer of {who(by)} to {question!r} was not given to the agent: {why}"


def text_left_out(most: int) -> str:
    """The feed has enough of this turn."""
    return f"the feed keeps {most >> 20} MiB of a turn; the rest is in the agent's own transcript"


def turn_failed(status: str, reason: str | None) -> str:
    """What the agent said of its turn, when it was no success."""
    words = {
        "failed": "the turn failed",
        "interrupted": "the turn was interrupted",
        "returned": "no agent took it",
    }
    return f"{words.get(status, status)}: {reason}" if reason else words.get(status, status)


def no_conversation(job: str) -> str:
    """A command cannot be continued."""
    return f"job {job} is a plain command: it has no conversation to continue"


def other_agent(job: str, kind: str, wanted: str) -> str:
    """A conversation belongs to one kind of agent."""
    return f"job {job} is a conversation with {kind}, not with {wanted}"


def not_ended(job: str) -> str:
    """A conversation that a job still has."""
    return f"job {job} has not ended: send it a message, or cancel it and wait for its end"


def one_conversation() -> str:
    """Two ways to say which conversation goes on."""
    return "a job continues another job or a conversation of the agent's, not both"


def gone(job: str) -> str:
    """A job that was continued, and removed before it had opened its conversation."""
    return f"job {job} is gone, and with it the way to its conversation"


def late(seconds: float | None) -> str:
    """A turn that was over its time, and came to its end while it was being ended."""
    return f"{sentences.timed_out(seconds)}; it came to its end while it was being ended"


def other_text(message: str) -> str:
    """One id for two messages."""
    return f"message id {message!r} was used for another text"


def needs_choice() -> str:
    """A text where yes or no was asked."""
    return "an approval is answered by one of its choices"


def unread(option: str, value: object) -> str:
    """An option of the wrong kind."""
    return f"the option {option} is a word, not {value!r}"
