"""What a supervisor has told its owner so far: pure, whoever reads the lines."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

from lastout.errors import ExecutionFailed, Refused
from lastout.evidence import events as lines

__all__ = ["Told"]


class Told:
    """The lines of one run that matter to its owner.

    `max_stop` is the bound in seconds until `started` tells it.
    """

    def __init__(self, max_stop: float) -> None:
        self.max_stop = max_stop
        self.started: lines.Started | None = None
        self.nothing: lines.Refused | lines.Failed | None = None
        """Why nothing was started."""
        self.facts: list[lines.Event] = []
        """The lines that decide the outcome."""
        self.stopping = False
        """A stop has begun."""
        self.final = False
        """The supervisor's last word has come."""
        self.looked = False
        """The look at the exited root is over."""
        self.watch: Callable[[lines.Event], None] | None = None
        """Hears every line."""
        self.passed_on: Counter[str] = Counter()
        """How many signals of a name were passed on to the root."""

    def take(self, event: lines.Event) -> None:
        """One more line."""
        match event:
            case lines.Started():
                self.started = event
                self.max_stop = event.max_stop_ms / 1000
                self.facts.append(event)
            case lines.Refused() | lines.Failed():
                self.nothing = event
                self.final = True
            case lines.Signalled(forwarded=True):
                self.passed_on[event.signal] += 1
            case lines.Observed():
                self.looked = True
            case lines.StopBegan():
                self.facts.append(event)
                self.stopping = True
            case lines.RootExited() | lines.Reaped(who="root") | lines.Signalled(target="tree"):
                self.facts.append(event)
            case lines.TreeGone() | lines.TreeUnproven():
                self.facts.append(event)
                self.final = True
            case _:
                pass
        if self.watch is not None:
            self.watch(event)

    @property
    def root_told(self) -> bool:
        """The root's end is known, and the look at it, where there is one, is over."""
        held = self.started is not None and self.started.observe_bound_ms and not self.looked
        ends = (lines.RootExited, lines.Reaped)
        return not held and any(isinstance(event, ends) for event in self.facts)

    def check_started(self, program: str, cwd: str | None, status: int | None) -> None:
        """Raise what subprocess would when nothing was started; `status` is the front's.

        OSError with the name of what could not be executed or entered; Refused when a rule forbids
        the run, ExecutionFailed when the supervisor ended without a word.
        """
        match self.nothing:
            case lines.Refused() as refused:
                raise Refused(refused.reason, refused.message)
            case lines.Failed() as failed if failed.errno:
                # OSError makes itself the subclass of its errno.
                named = {"exec": program, "chdir": cwd}.get(failed.step or failed.reason)
                text = os.strerror(failed.errno) if named else failed.message
                raise OSError(failed.errno, text, named)
            case lines.Failed() as failed:
                raise OSError(failed.message)
            case _:
                pass
        if self.started is None:
            raise ExecutionFailed(
                f"the supervisor ended (status {status}) before it started {program!r}; "
                "what it said is on stderr",
                status,
            )
