"""Last one out: run coding agents and other long-lived commands so that nobody is left behind.

The names load when they are used: `import lastout` imports neither anyio nor msgspec.
"""

from __future__ import annotations

from lastout._version import __version__
from lastout.lazy import lazy

TYPE_CHECKING = False  # typing's own costs more to import than all of this
if TYPE_CHECKING:
    from lastout.completed import CompletedRun, run_process
    from lastout.errors import (
        ExecutionFailed,
        HandleInert,
        LastoutError,
        LimitReached,
        Refused,
        RunFailed,
        SupervisorMissing,
    )
    from lastout.graces import MARGIN, MAXIMA, PRESETS, Graces
    from lastout.handle import Process
    from lastout.identity import Alive, ProcessIdentity
    from lastout.leases.refusals import Held, LeaseUnproven
    from lastout.observe import ExitObserver, OpportunityExpired, ThreadExitObserver
    from lastout.outcome import Outcome, Stop
    from lastout.popen import Popen
    from lastout.process import DEVNULL, PIPE, STDOUT, open_process
    from lastout.sole_writer import Grant, acquire
    from lastout.supervisor import command
    from lastout.terminal import Terminal, TerminalPopen, open_terminal

__all__ = [
    "DEVNULL",
    "MARGIN",
    "MAXIMA",
    "PIPE",
    "PRESETS",
    "STDOUT",
    "Alive",
    "CompletedRun",
    "ExecutionFailed",
    "ExitObserver",
    "Graces",
    "Grant",
    "HandleInert",
    "Held",
    "LastoutError",
    "LeaseUnproven",
    "LimitReached",
    "OpportunityExpired",
    "Outcome",
    "Popen",
    "Process",
    "ProcessIdentity",
    "Refused",
    "RunFailed",
    "Stop",
    "SupervisorMissing",
    "Terminal",
    "TerminalPopen",
    "ThreadExitObserver",
    "__version__",
    "acquire",
    "command",
    "open_process",
    "open_terminal",
    "run_process",
]

_HOMES = {
    "DEVNULL": "process",
    "MARGIN": "graces",
    "MAXIMA": "graces",
    "PIPE": "process",
    "PRESETS": "graces",
    "STDOUT": "process",
    "Alive": "identity",
    "CompletedRun": "completed",
    "ExecutionFailed": "errors",
    "ExitObserver": "observe",
    "Graces": "graces",
    "Grant": "sole_writer",
    "HandleInert": "errors",
    "Held": "leases.refusals",
    "LastoutError": "errors",
    "LeaseUnproven": "leases.refusals",
    "LimitReached": "errors",
    "OpportunityExpired": "observe",
    "Outcome": "outcome",
    "Popen": "popen",
    "Process": "handle",
    "ProcessIdentity": "identity",
    "Refused": "errors",
    "RunFailed": "errors",
    "Stop": "outcome",
    "SupervisorMissing": "errors",
    "Terminal": "terminal",
    "TerminalPopen": "terminal",
    "ThreadExitObserver": "observe",
    "acquire": "sole_writer",
    "command": "supervisor",
    "open_process": "process",
    "open_terminal": "terminal",
    "run_process": "completed",
}

__getattr__, __dir__ = lazy("lastout", _HOMES)
