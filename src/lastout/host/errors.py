"""Why the host refuses something, each with what to do next."""

from __future__ import annotations

from lastout.errors import LastoutError

__all__ = ["HostError", "NoQuestion", "NotOffered", "NotStarted", "OtherAgent", "StillRunning"]


class HostError(LastoutError):
    """The base of what a host refuses."""


class NotStarted(HostError):
    """No agent was started, or it did not answer; the message that asked for it was returned."""


class StillRunning(HostError):
    """Not done: an earlier agent of this conversation may still be running here, or elsewhere."""


class NotOffered(HostError):
    """This kind of agent cannot do that, or it refused; nothing has changed."""


class NoQuestion(HostError):
    """No question with this id waits for an answer."""


class OtherAgent(HostError):
    """The conversation belongs to another kind of agent than the one that was named."""
