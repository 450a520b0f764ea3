"""What a job is doing now: written by its runner alone, read by everybody."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from lastout.jobs.result import Process

__all__ = ["Choice", "Question", "State", "Status", "Stored"]

State = Literal["queued", "starting", "running", "idle", "ended"]


class Choice(msgspec.Struct, frozen=True, omit_defaults=True):
    """A way to answer. `meaning` is the same for all agents; `id` is the agent's own."""

    id: str
    label: str = ""
    meaning: str = "other"


class Question(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the agent waits for: an approval, or an answer of a user (`choices` may be empty)."""

    id: str
    kind: Literal["approval", "input"] = "approval"
    prompt: str
    choices: tuple[Choice, ...] = ()
    fields: tuple[str, ...] = ()
    detail: Any = None
    asked_at: str = ""


class Stored(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`state.json`: replaced as a whole by the job's runner, by nobody else."""

    version: int
    state: State
    turn: int = 0
    runner: Process | None = None
    resident: bool = True
    """A Python waits with the job. False: a command without capture, which a cancel reaches through
    its supervisor."""
    run: str | None = None
    record: str | None = None
    runs: tuple[str, ...] = ()
    """Every run that this job has begun, the newest last, each written before it was started."""
    front: Process | None = None
    progress: str | None = None
    questions: tuple[Question, ...] = ()
    messages: tuple[str, ...] = ()
    """The inbox files of messages that were delivered."""
    conversation: str | None = None
    heartbeat: str = ""
    started_at: str | None = None
    turn_began_at: str | None = None
    idle_until: str | None = None
    why: str | None = None
    """How a turn that ends is being ended, before there is a result."""


class Status(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job as it can be seen at this moment; times are RFC 3339, UTC."""

    id: str
    kind: Literal["command", "agent"]
    state: State
    by: str
    name: str | None = None
    title: str = ""
    """The command line, or the agent and the beginning of its prompt."""
    cwd: str = ""
    agent: str | None = None
    labels: dict[str, str] = {}
    queued_at: str = ""
    place: int | None = None
    """How many are before it in the queue."""
    started_at: str | None = None
    turn: int = 0
    turn_began_at: str | None = None
    results: tuple[int, ...] = ()
    """The turns whose result is there."""
    taken: tuple[int, ...] = ()
    progress: str | None = None
    questions: tuple[Question, ...] = ()
    waiting_messages: int = 0
    runner: Process | None = None
    runner_alive: bool | None = None
    """By identity and lock; None where nobody can say."""
    run: str | None = None
    record: str | None = None
    heartbeat: str | None = None
    """When its runner wrote last. Nothing follows from its age: `runner_alive` is what counts."""
    idle_until: str | None = None
    conversation: str | None = None
    ended_at: str | None = None
    failed: bool | None = None
    why: str | None = None
    reason: str | None = None
    problem: str | None = None
    """What is wrong with the job's files (a later version, a damaged one)."""

    @property
    def ended(self) -> bool:
        """Nothing of it will happen any more."""
        return self.state == "ended"
