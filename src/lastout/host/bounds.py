"""The host's waits, in one table, in seconds, and the proof that a quit fits into its bound."""

from __future__ import annotations

from typing import Final

from lastout.agents.session import DRAIN
from lastout.graces import MARGIN, Graces

__all__ = ["DRAIN", "IDLE", "QUIT", "SLACK", "START", "check_budget", "quit_need"]

QUIT: Final = 8.0
"""The longest that a quit takes, whatever the agents do."""

SLACK: Final = 0.5
"""What a quit keeps for itself: settling leases and messages after the last agent."""

IDLE: Final = 1800.0
"""After this long without work the agent is closed; the conversation stays."""

START: Final = 60.0
"""How long an agent may take from its start to its answer for the conversation."""


def quit_need(graces: Graces) -> float:
    """The longest that the end of one agent can take within a quit: all of them end in parallel."""
    return DRAIN + graces.max_stop + MARGIN + SLACK


def check_budget(graces: Graces, quit_bound: float) -> None:
    """Raise ValueError when an agent with these graces could not be ended within the quit."""
    need = quit_need(graces)
    if need > quit_bound:
        raise ValueError(
            f"this agent may take {need:g} s to end ({DRAIN:g} s drain, {graces.max_stop:g} s for "
            f"its stop, {MARGIN + SLACK:g} s margins), but the host quits within {quit_bound:g} s: "
            "shorten its graces, or give the host a longer quit"
        )
