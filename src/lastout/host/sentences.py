"""What the host tells people, in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lastout.agents.adapter import Writer
    from lastout.host.live import Live
    from lastout.identity import ProcessIdentity
    from lastout.leases.model import Lease
    from lastout.outcome import Outcome

__all__ = [
    "CLOSED",
    "GONE",
    "HOST_ENDED",
    "IN_A_TURN",
    "NOT_KEPT",
    "NOT_TAKEN",
    "PERHAPS_TAKEN",
    "STOPPED",
    "TURN_LOST",
    "asked_to_end",
    "ended",
    "foreign",
    "how_it_ended",
    "lost",
    "other_host",
    "rejected",
    "still_running",
]

STOPPED: Final = "the conversation was stopped before this message was delivered"
CLOSED: Final = "the conversation was closed before this message was delivered"
GONE: Final = "the agent ended before it answered this"
NOT_TAKEN: Final = "this message is not in its transcript: sending it again is safe"
PERHAPS_TAKEN: Final = (
    "nobody can tell whether it had taken this message: look at the conversation before you send "
    "it again"
)
NOT_KEPT: Final = "it could not be written down, so it was not delivered: is the disk full?"
IN_A_TURN: Final = "a turn is running: what it has started is its own until it ends"
HOST_ENDED: Final = "the host ended before this message was delivered"
TURN_LOST: Final = "the host ended during this turn"


def how_it_ended(outcome: Outcome) -> str:
    """The end of a root in words."""
    if outcome.returncode is None:
        return "ended in a way that nobody saw"
    if outcome.returncode < 0:
        return f"was ended by signal {-outcome.returncode}"
    return f"ended with status {outcome.returncode}"


_ASKED: Final = {
    "idle": "it rested",
    "user": "it was stopped",
    "shutdown": "the host quits",
    "completion": "the conversation was closed",
    "timeout": "the turn took too long",
    "abort": "it was cancelled",
}


def asked_to_end(reason: str) -> str:
    """For the record: why the host ends an agent, whose input is what ends first."""
    return f"The host asked for the end: {_ASKED.get(reason, reason)}."


def ended(live: Live) -> str:
    """Why an agent is gone."""
    assert live.outcome is not None
    how = how_it_ended(live.outcome)
    if live.wanted is not None:
        return f"{_ASKED.get(live.wanted, live.wanted)}; it {how}"
    stop = live.outcome.stop
    why = f" after {stop.trigger}" if stop is not None else " by itself"
    tail = live.session.tail.text() if live.session is not None else ""
    return f"it {how}{why}" + (f"; its last output: {tail}" if tail else "")


def lost(live: Live) -> str:
    """What to say of a message whose agent is gone."""
    if live.outcome is None:
        return live.failure or "the agent is gone"
    return f"the agent of this turn is gone: {ended(live)}"


def rejected(reason: str) -> str:
    """The agent itself did not take the message."""
    return f"the agent refused this message: {reason}"


def foreign(writer: Writer) -> str:
    """Somebody else writes to the conversation."""
    return f"{writer} is in this conversation too; close it there, and send again"


def still_running(key: str, held: Lease | None) -> str:
    """Why nothing is changed beside an agent that may live."""
    if held is not None and held.holder is not None and held.state != "unproven":
        owner = held.holder.owner
        who = f" (owner pid {owner.pid})" if owner is not None else ""
        return f"an agent of {key!r} is running elsewhere{who}: nothing was changed"
    return (
        f"an earlier agent of {key!r} may still be running here: nothing was changed; sending a "
        "message tries once more to stop it"
    )


def other_host(message: str, host: ProcessIdentity | None) -> str:
    """A message that another live host has taken."""
    who = f"pid {host.pid}" if host is not None else "another process"
    return f"message {message!r} is in the hands of {who}: only that host can say how it ends"
