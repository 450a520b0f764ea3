"""What a job is to do: written once by who submits it, and never changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

__all__ = ["KEEP", "VERSION", "AgentTurn", "Command", "Kind", "Spec"]

VERSION: Final = 1
"""The version of every file of a job. A reader leaves a job of a later one alone."""

KEEP: Final = 300.0
"""Seconds: how long an agent is kept for another message after its turn."""


class Command(msgspec.Struct, frozen=True, tag="command", omit_defaults=True):
    """A plain command: `Command(["make", "test"], timeout=600)`.

    `cwd` and `env` are the caller's where they are None. `timeout` is in seconds. With `capture`
    the first and the last megabyte of stdout and of stderr are kept; without, both go to the file
    `output` (appended, 0600) or to nowhere, and no Python waits with the command. `graces` names a
    preset, `contain` the tier. `by` is who asks (jobs of different askers take turns), `labels`
    whatever the caller wants to find again.
    """

    argv: Sequence[str]
    cwd: str | None = None
    env: dict[str, str] | None = None
    timeout: float | None = None
    capture: bool = True
    output: str | None = None
    graces: str | None = None
    contain: str = "subreaper"
    name: str | None = None
    by: str | None = None
    labels: dict[str, str] = {}


class AgentTurn(msgspec.Struct, frozen=True, kw_only=True, tag="agent", omit_defaults=True):
    """A turn of an agent, and the turns that messages ask for afterwards.

    `agent` is a name of `lastout.agents.registry`, `options` are the adapter's (model, approval,
    ...). `timeout` (seconds) is for each turn, `keep` how long the agent waits for another message.
    `continues` is the id of a job whose conversation goes on, `conversation` the agent's own id of
    one. The rest is as in `Command`.
    """

    agent: str
    prompt: str
    cwd: str | None = None
    env: dict[str, str] | None = None
    options: dict[str, Any] = {}
    program: str | None = None
    timeout: float | None = None
    keep: float = KEEP
    continues: str | None = None
    conversation: str | None = None
    name: str | None = None
    by: str | None = None
    labels: dict[str, str] = {}


Kind = Command | AgentTurn


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """`spec.json`. `work` has its `cwd`, `env` and `by` filled in."""

    version: int
    id: str
    queued_at: str
    queued_ns: int
    umask: int | None = None
    """The submitter's, for what the job starts."""
    work: Kind

    @property
    def name(self) -> str | None:
        """The name that the caller gave to the job."""
        return self.work.name

    @property
    def by(self) -> str:
        """Who asked for it."""
        return self.work.by or ""
