"""The commands that an agent ran, from its own protocol: what it reported, and nothing more.

    log = CommandLog(journal)          # or any function that takes an event type and fields
    for message in agent's messages:   # decoded JSON objects, in order
        log.feed(message)
    log.close()                        # whatever was started and never completed is said so

Whose protocol it is, is seen from the message; every line it leads to has grade `reported`.
"""

from __future__ import annotations

from lastout.evidence.commands.log import OUTPUT_KEPT, CommandLog
from lastout.evidence.commands.report import Finished, Report, Started, TurnBegan, TurnOver
from lastout.evidence.commands.sources import reports

__all__ = [
    "OUTPUT_KEPT",
    "CommandLog",
    "Finished",
    "Report",
    "Started",
    "TurnBegan",
    "TurnOver",
    "reports",
]
