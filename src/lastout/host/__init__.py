"""Conversations with agents: one live agent each, never two writers, nothing lost, nobody left.

    async with open_host() as host:
        chat = await host.open("my-project", "codex")
        message = await chat.send("hello")
        print((await message.done()).answer)

The names load when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lastout.lazy import lazy

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
    "IDLE": "bounds",
    "QUIT": "bounds",
    "Conversation": "conversation",
    "Found": "recovered",
    "Host": "host",
    "HostError": "errors",
    "Message": "message",
    "NoQuestion": "errors",
    "NotOffered": "errors",
    "NotStarted": "errors",
    "Options": "lastout.agents.dialogue",
    "OtherAgent": "errors",
    "StillRunning": "errors",
    "open_host": "host",
}

__getattr__, __dir__ = lazy("lastout.host", _HOMES)
