"""What the tools answer. The output schemas are made from these structs; what is not known, or has
nothing in it, is left out."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = [
    "Activation",
    "Choice",
    "CommandFailure",
    "Event",
    "JobList",
    "JobSeen",
    "Lock",
    "Process",
    "Question",
    "TurnResult",
]


class Answer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A part of an answer."""


class Process(Answer, kw_only=True, omit_defaults=True):
    """A process by its identity."""

    pid: int
    start: int
    name: str = ""


class Lock(Answer, kw_only=True, omit_defaults=True):
    """A kernel lock that a process held when it was killed."""

    pid: int
    name: str = ""
    path: str | None = None
    kind: str = ""


class CommandFailure(Answer, kw_only=True, omit_defaults=True):
    """A command of the agent that failed, as the agent reported it; `output` is its end."""

    command: str
    status: str | None = None
    exit_code: int | None = None
    output: str = ""


class Choice(Answer, kw_only=True, omit_defaults=True):
    """A way to answer a question."""

    id: str
    meaning: str
    label: str = ""


class Question(Answer, kw_only=True, omit_defaults=True):
    """What the agent waits for."""

    id: str
    kind: str
    prompt: str
    choices: list[Choice] = []
    fields: list[str] = []


class Event(Answer, kw_only=True, omit_defaults=True):
    """One event of the job's feed."""

    seq: int
    event: str
    at: str = ""
    turn: int = 0
    detail: dict[str, Any] = {}


class TurnResult(Answer, kw_only=True, omit_defaults=True):
    """What came of a turn, when nothing of it but the agent itself was alive."""

    turn: int
    failed: bool
    why: str
    reason: str | None = None
    ended_by: str | None = None
    status: str | None = None
    answer: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    stdout: str | None = None
    stderr: str | None = None
    bytes_left_out: int = 0
    failed_commands: list[CommandFailure] = []
    stopped: list[Process] = []
    stopped_count: int = 0
    remaining: list[Process] = []
    remaining_count: int | None = None
    locks: list[Lock] = []
    undelivered_messages: list[str] = []
    runs: list[str] = []
    omitted: str | None = None


class JobSeen(Answer, kw_only=True, omit_defaults=True):
    """A job at this moment. `next` says what can be done now."""

    job: str
    state: str
    kind: str
    yours: bool
    asked_by: str = ""
    name: str | None = None
    title: str = ""
    agent: str | None = None
    cwd: str | None = None
    place_in_queue: int | None = None
    turn: int = 0
    progress: str | None = None
    questions: list[Question] = []
    result: TurnResult | None = None
    events: list[Event] = []
    failed_commands: list[CommandFailure] = []
    failed: bool | None = None
    why: str | None = None
    reason: str | None = None
    problem: str | None = None
    next: str = ""


class JobList(Answer, kw_only=True, omit_defaults=True):
    """Jobs, the newest first."""

    jobs: list[JobSeen]
    left_out: int = 0


class Activation(Answer, kw_only=True, omit_defaults=True):
    """A service that was started; its owner's definition says what it does."""

    service: str
    activation: str
    state: str
    joined: bool = False
    failed: bool | None = None
    exit_code: int | None = None
    signal: str | None = None
    why: str | None = None
    ended_by: str | None = None
    stopped_count: int = 0
    remaining_count: int | None = None
    output: str | None = None
    next: str = ""
