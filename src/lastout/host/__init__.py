"""Conversations with agents: one live agent each, never two writers, nothing lost, nobody left.

    async with open_host() as host:
        chat = await host.open("my-project", "codex")
        message = await chat.send("hello")
        print((await message.done()).answer)

The names load when they are used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lastout.agents.dialogue import Options
    from lastout.host.bounds import IDLE, QUIT
    from lastout.host.conversation import Conversation
    from lastout.host.errors import (
        HostError,
        NoQuestion,
        NotOffered,
        NotStarted,
        OtherAgent,
        StillRunning,
    )
    from lastout.host.host import Host, open_host
    from lastout.host.message import Message
    from lastout.host.recovered import Found

__all__ = [
    "IDLE",
    "QUIT",
    "Conversation",
    "Found",
    "Host",
    "HostError",
    "Message",
    "NoQuestion",
    "NotOffered",
    "NotStarted",
    "Options",
    "OtherAgent",
    "StillRunning",
    "open_host",
]

_HOMES = {
    "IDLE": "host.bounds",
    "QUIT": "host.bounds",
    "Conversation": "host.conversation",
    "Found": "host.recovered",
    "Host": "host.host",
    "HostError": "host.errors",
    "Message": "host.message",
    "NoQuestion": "host.errors",
    "NotOffered": "host.errors",
    "NotStarted": "host.errors",
    "Options": "agents.dialogue",
    "OtherAgent": "host.errors",
    "StillRunning": "host.errors",
    "open_host": "host.host",
}


def __getattr__(name: str) -> Any:
    """Import the module that a public name lives in, the first time that it is asked for (PEP
    562)."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'lastout.host' has no attribute {name!r}")
    return getattr(import_module("lastout." + home), name)
