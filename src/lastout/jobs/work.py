"""The protocol between a job's runner and what does the work of an agent's job.

The runner owns the files of the job and holds its lock. For an agent's job it calls

    lastout.jobs.turns.run(work)

in its main thread, with nothing else of its own going on there (an event loop may be run inside).
`run` begins with `work.turn_began(None)` for the spec's prompt, publishes each turn's result with
`publish`, and returns after it has published a result with `final=True`, or called `end`. By then
nothing of the job may be alive that can be ended. If it raises, the runner ends what the runs that
were told to `will_start` have left, and publishes the failure. A SIGTERM of the runner comes as a
`Cancel` with reason `shutdown`.

All methods are short, synchronous and to be called from one thread; they raise OSError only where
that is said.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

import msgspec

from lastout.jobs.feed import FeedEvent
from lastout.jobs.result import Result
from lastout.jobs.spec import Spec
from lastout.jobs.status import Question

__all__ = ["Answer", "Cancel", "Message", "Request", "Work"]


class Message(msgspec.Struct, frozen=True, kw_only=True, tag="message", omit_defaults=True):
    """A caller's message for the next turn. The same `id` never comes twice."""

    id: str
    text: str
    by: str | None = None
    at_ns: int = 0


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag="answer", omit_defaults=True):
    """An answer to a question: the id of a choice, or text; `fields` for a form."""

    question: str
    choice: str | None = None
    text: str | None = None
    fields: dict[str, str] = {}
    by: str | None = None
    at_ns: int = 0


class Cancel(msgspec.Struct, frozen=True, kw_only=True, tag="cancel", omit_defaults=True):
    """The job is to end. `grace` (seconds) shortens the graces; 0 goes straight to SIGKILL."""

    reason: Literal["abort", "shutdown"] = "abort"
    by: str | None = None
    grace: float | None = None
    at_ns: int = 0


Request = Message | Answer | Cancel


class Work(Protocol):
    """The runner's side of one job."""

    spec: Spec
    state: str
    """The state directory (an absolute path)."""
    directory: str
    """The job's own directory."""

    @property
    def turn(self) -> int:
        """The number of the current turn."""
        ...

    def fileno(self) -> int:
        """A descriptor that is readable when `requests` may have something new."""
        ...

    def requests(self) -> list[Request]:
        """What callers have asked for since the last call, oldest first. Never waits."""
        ...

    def will_start(self, run: str, record: str, key: str | None = None) -> None:
        """Durably: this run is about to be started. Before anything exists, or it is nobody's.

        Raises OSError; then nothing may be started (`OwnershipFailed`).
        """
        ...

    def turn_began(self, message: str | None) -> int:
        """A turn begins; its number. `message` is the id of the message that it answers."""
        ...

    def emit(self, event: FeedEvent) -> int:
        """Append to the feed (`seq`, `at` and `turn` are filled in); its number.

        `Progress` also becomes the current line of the state; so do questions and their answers:
        `Questioned` adds one, `Answered` takes it away. A full disk costs events, never the job.
        """
        ...

    def describe(self, **fields: Any) -> None:
        """Change fields of `status.Stored` that are told to readers (`conversation`, `why`)."""
        ...

    def question(self, id: str) -> Question | None:  # noqa: A002 (it is one)
        """An open question."""
        ...

    def publish(self, result: Result) -> None:
        """Make a turn's result durable, then tell everybody. Never raises for a full disk: the
        room for it was set aside when the job was submitted.

        `version`, `job`, `turn`, `runs` and the times are filled in where they are empty.
        """
        ...

    def idle(self, seconds: float | None) -> None:
        """The agent waits for another message, so long; state `idle`."""
        ...

    def close_inbox(self) -> list[Request]:
        """From here on callers are told that the job has ended; what had come before that.

        Before a final result, or `end`. Messages in it go into `Result.undelivered`; or `reopen`.
        """
        ...

    def reopen_inbox(self) -> None:
        """There was a message in it after all: the job goes on."""
        ...

    def end(self, result: Result) -> None:
        """The job ends between two turns (turn 0): the rest is over, it was cancelled while idle.

        As `publish` with `final=True`.
        """
        ...

    def locks_of(self, run: str, record: str) -> None:
        """Look which kernel locks the members of a run hold now: right before a kill.

        What was found is in every result that is published later in the same turn, as far as its
        holder has been stopped.
        """
        ...
