"""What an agent can say about a command, in one shape for all. None means: it did not say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Finished", "Report", "Started", "TurnBegan", "TurnOver"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Anything that an agent reported; `agent` is the protocol, not the program's version."""

    agent: str
    thread: str | None = None
    turn: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnBegan(Report):
    """A turn began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnOver(Report):
    """A turn ended, with the agent's own word for how."""

    status: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Started(Report):
    """A command was started, or more became known of one that was."""

    item: str
    command: str | None = None
    cwd: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished(Report):
    """A command completed; with `background` the agent only went on without it.

    `failed` is what the agent itself calls it. `output` is whole; None means: none was reported.
    """

    item: str
    command: str | None = None
    cwd: str | None = None
    status: str | None = None
    failed: bool | None = None
    exit_code: int | None = None
    exit_code_from: str | None = None
    duration_ms: int | None = None
    output: str | None = None
    native_timeout: dict[str, Any] | None = None
    background: bool = False
    detail: dict[str, Any] = field(default_factory=dict)
