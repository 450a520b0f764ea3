"""Agents behind one protocol: how each is started, spoken to, interrupted and closed.

    adapter = agents.agent("codex")        # claude, acp:COMMAND, command:COMMAND, scripted

The names load when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lastout.lazy import lazy

if TYPE_CHECKING:
    from lastout.agents.acp import Acp
    from lastout.agents.adapter import Adapter, AgentMissing, AgentTooOld
    from lastout.agents.claude import Claude
    from lastout.agents.codex import Codex
    from lastout.agents.command import Command
    from lastout.agents.dialogue import Options
    from lastout.agents.registry import agent
    from lastout.agents.scripted_agent import Scripted

__all__ = [
    "Acp",
    "Adapter",
    "AgentMissing",
    "AgentTooOld",
    "Claude",
    "Codex",
    "Command",
    "Options",
    "Scripted",
    "agent",
]

_HOMES = {
    "Acp": "acp",
    "Adapter": "adapter",
    "AgentMissing": "adapter",
    "AgentTooOld": "adapter",
    "Claude": "claude",
    "Codex": "codex",
    "Command": "command",
    "Options": "dialogue",
    "Scripted": "scripted_agent",
    "agent": "registry",
}

__getattr__, __dir__ = lazy("lastout.agents", _HOMES)
