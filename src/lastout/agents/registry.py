"""Agents by name, for the command line and for hosts that get the name from elsewhere."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from lastout.agents.adapter import Adapter

__all__ = ["NAMES", "agent"]

NAMES = ("codex", "claude", "acp", "command", "scripted")
"""`acp` and `command` are followed by a command line: `acp:claude-agent-acp`."""


def agent(
    name: str,
    *,
    program: str | None = None,
    home: str | None = None,
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> Adapter:
    """The adapter for `codex`, `claude`, `scripted`, `acp:COMMAND LINE` or `command:COMMAND LINE`.

    `program` is the path of the agent where it is not on PATH; `home` is where the scripted agent
    keeps its files; `args` are more arguments for the agent, `codex:ARGUMENTS` is another way to
    say them. Raises ValueError for a name that is none.
    """
    kind, _, line = name.partition(":")
    words = [*shlex.split(line), *args]
    if kind == "codex":
        from lastout.agents.codex import Codex

        return Codex(program, args=words, env=env)
    if kind == "claude":
        from lastout.agents.claude import Claude

        return Claude(program, args=words, env=env)
    if kind == "scripted":
        from lastout.agents.scripted_agent import Scripted

        if home is None:
            raise ValueError("the scripted agent needs a directory for its transcripts (home)")
        return Scripted(home, args=words, env=env)
    if program and not line:
        words = [program, *args]
    if kind == "acp" and words:
        from lastout.agents.acp import Acp

        return Acp(words, env=env)
    if kind == "command" and words:
        from lastout.agents.command import Command

        return Command(words, env=env)
    if kind in ("acp", "command"):
        raise ValueError(f"{kind} needs a command line: {kind}:COMMAND")
    raise ValueError(f"no agent is named {name!r}; there are {', '.join(NAMES)}")
