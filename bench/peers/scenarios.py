"""The eleven ways in which a run comes to its end."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Scenario:
    """One column of the table.

    `mode` is what R does (see payload.py). `act` is what happens once all three are there: a signal
    to the wrapper, R's own exit, the owner's death by SIGKILL, or the end of stdin. `stdin_held`
    says that another process than the owner holds the write end of R's stdin. `polite` says that a
    wrapper which lives can be expected to send R a SIGTERM.
    """

    name: str
    title: str
    mode: Literal["obey", "ignore", "read"]
    act: signal.Signals | Literal["exit", "kill-owner", "end-stdin"]
    stdin_held: bool = True
    polite: bool = True


SCENARIOS = (
    Scenario("1", "TERM, R obeys", "obey", signal.SIGTERM),
    Scenario("2", "TERM, all ignore", "ignore", signal.SIGTERM),
    Scenario("3", "R exits 7 by itself", "obey", "exit", polite=False),
    Scenario("4", "owner SIGKILL, stdin held elsewhere, all ignore", "ignore", "kill-owner"),
    Scenario("4b", "same, R obeys", "obey", "kill-owner"),
    Scenario("5", "owner SIGKILL = stdin EOF", "ignore", "kill-owner", stdin_held=False),
    Scenario("6", "stdin EOF, R exits", "read", "end-stdin", stdin_held=False, polite=False),
    Scenario("6b", "stdin EOF, all ignore", "ignore", "end-stdin", stdin_held=False),
    Scenario("7", "wrapper SIGKILL", "obey", signal.SIGKILL, polite=False),
    Scenario("8", "HUP", "obey", signal.SIGHUP),
    Scenario("9", "INT", "obey", signal.SIGINT),
)

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
