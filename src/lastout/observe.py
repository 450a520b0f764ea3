"""A look at an exited root before it is reaped: its pid, group and session are still its own.

An observer is registered before the spawn, so that no exit is too fast. It gets one opportunity;
when that is acknowledged, dropped, or over, the root is reaped and its leftovers are stopped.
"""

from __future__ import annotations

import os
import select
import sys
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from lastout.errors import LastoutError
from lastout.evidence.events import Event, Listed, Member, Observed, OpportunityBegan
from lastout.graces import MAXIMA

if TYPE_CHECKING:
    from lastout.handle import Process
    from lastout.identity import ProcessIdentity
    from lastout.popen import Popen

__all__ = [
    "Completed",
    "ExitObserver",
    "Failed",
    "Observation",
    "ObservationUnsupported",
    "Opportunity",
    "OpportunityExpired",
    "ThreadExitObserver",
    "ThreadOpportunity",
    "TimedOut",
    "Unavailable",
]


@dataclass(frozen=True, slots=True)
class Completed:
    """The look was acknowledged in time. `held` is how long the root was kept, in seconds."""

    held: float


@dataclass(frozen=True, slots=True)
class TimedOut:
    """Nobody acknowledged the look within its bound."""

    held: float


@dataclass(frozen=True, slots=True)
class Failed:
    """Opportunity or observer were dropped, or owner or keeper are lost. `why` says which."""

    why: str
    held: float


@dataclass(frozen=True, slots=True)
class Unavailable:
    """No exit could be seen before the reap."""

    why: str


Observation = Completed | TimedOut | Failed | Unavailable


class OpportunityExpired(LastoutError):
    """The look is over, or there was none; `observation` says how it ended."""

    def __init__(self, observation: Observation) -> None:
        super().__init__(observation)
        self.observation = observation

    def __str__(self) -> str:
        return f"the exited process is no longer held for a look: {self.observation}"


class ObservationUnsupported(LastoutError):
    """This platform cannot show an exit before the reap; nothing was started."""


class Look:
    """What the supervisor has told of one look, and the way to answer it. For both flavours."""

    def __init__(self, bound: float) -> None:
        if isinstance(bound, bool) or not 0 < bound <= MAXIMA["observe"]:
            raise ValueError(
                f"the bound is more than 0 and at most {MAXIMA['observe']:g} s, not {bound!r}"
            )
        if sys.platform != "linux":
            raise ObservationUnsupported(
                f"an exit cannot be seen before the reap on {sys.platform}; leave the observer out"
            )
        self.bound = bound
        self.opened: OpportunityBegan | None = None
        self.ended: Observed | None = None
        self.answers = 0  # to `list`, while the root was held
        self.listed: tuple[Member, ...] = ()
        self.waiting = 0  # tasks that wait for the opportunity
        self.handed_out: weakref.ref[Any] | None = None
        self.bells: set[int] = set()  # eventfds of threads that sleep until something changes
        self._send: Callable[[dict[str, Any]], bool] | None = None
        self._dropped = False

    def connect(self, send: Callable[[dict[str, Any]], bool]) -> None:
        """The run has been spawned: `send` takes commands."""
        self._send = send
        if self._dropped:
            self.drop()

    def take(self, event: Event) -> None:
        """One line of the run."""
        match event:
            case OpportunityBegan():
                self.opened = event
            case Observed():
                self.ended = event
            case Listed() if self.ended is None:
                self.answers += 1
                self.listed = event.members
            case _:
                return
        for bell in self.bells:
            os.eventfd_write(bell, 1)

    @property
    def come(self) -> bool:
        """There is an opportunity, or there will be none."""
        return self.opened is not None or self.ended is not None

    def send(self, command: str) -> bool:
        """Send a command, unless the look is over; False when it was not taken."""
        return self.ended is None and self._send is not None and self._send({"cmd": command})

    def drop(self) -> None:
        """There will be no look, or no more of it: the supervisor need not wait."""
        self._dropped = True
        self.send("drop")

    def leave(self) -> None:
        """The run's block ends: keep the root only for somebody who still looks."""
        handed_out = self.handed_out is not None and self.handed_out() is not None
        if not self.waiting and not handed_out:
            self.drop()

    def observation(self) -> Observation:
        """How it ended; asked when it has, or when the run is over."""
        if self.ended is None:
            return Unavailable("not told")
        held = self.ended.held_us / 1e6
        match self.ended.outcome:
            case "completed":
                return Completed(held)
            case "timed-out":
                return TimedOut(held)
            case "failed":
                return Failed(self.ended.why or "", held)
            case _:
                return Unavailable(self.ended.why or "")


class _Observer:
    def __init__(self, bound: float = 1.0) -> None:
        self._look = Look(bound)
        self._run: Any = None
        self._registered = False
        weakref.finalize(self, self._look.drop).atexit = False

    @property
    def bound(self) -> float:
        """How long the root is held at most, in seconds."""
        return self._look.bound

    def _register(self) -> Look:
        if self._registered:
            raise ValueError("an observer is for one run; make another")
        self._registered = True
        return self._look

    def _attach(self, run: Any) -> None:
        self._run = run

    def _handed_out(self) -> Any:
        """The opportunity that was given out before. Raises OpportunityExpired when it is over."""
        look = self._look
        if look.ended is not None or look.opened is None:
            raise OpportunityExpired(look.observation())
        return look.handed_out and look.handed_out()


class _Opportunity:
    """The exited root is held: look at it, and acknowledge."""

    def __init__(self, run: Any, look: Look) -> None:
        assert look.opened is not None
        self._run, self._look = run, look
        self._opened = look.opened
        look.handed_out = weakref.ref(self)
        weakref.finalize(self, look.drop).atexit = False

    @property
    def root(self) -> ProcessIdentity:
        """The exited root; while it is held its pid can belong to nobody else."""
        identity: ProcessIdentity = self._run.root
        return identity

    @property
    def pgid(self) -> int:
        """The group that the root ended in."""
        return self._opened.pgid

    @property
    def session(self) -> int:
        """The session that the root ended in."""
        return self._opened.session

    @property
    def seconds_left(self) -> float:
        """How long the root is still held; below 0 when that is over."""
        now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        return (self._opened.until_boottime_ns - now) / 1e9

    def drop(self) -> None:
        """Give the look up: the run goes on at once, and the observation is `Failed`."""
        self._look.drop()

    def _check_completed(self) -> None:
        observation = self._look.observation()
        if not isinstance(observation, Completed):
            raise OpportunityExpired(observation)

    def _tree(self, answers_before: int) -> list[Member]:
        if self._look.answers == answers_before:
            raise OpportunityExpired(self._look.observation())
        return list(self._look.listed)


class Opportunity(_Opportunity):
    """The exited root is held: look at it, and acknowledge.

    As a block it acknowledges at the end, and is dropped by an exception. Forgotten, it is dropped.
    """

    @property
    def process(self) -> Process:
        """The run's handle; signals and stops work as ever."""
        process: Process = self._run
        return process

    async def tree(self) -> list[Member]:
        """Who is alive of the tree (at most 256 are named). Raises OpportunityExpired."""
        before = self._look.answers
        if self._look.ended is None:
            await self.process.members()
        return self._tree(before)

    async def group(self) -> list[Member]:
        """Who is alive in the root's group. Raises OpportunityExpired."""
        return [member for member in await self.tree() if member.pgid == self.pgid]

    async def acknowledge(self) -> None:
        """The look is done. Raises OpportunityExpired when it was over before that was heard."""
        telling = self.process._telling
        self._look.send("acknowledge")
        await telling.until(lambda: telling.finished or self._look.ended is not None)
        self._check_completed()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, value: object, traceback: object) -> None:
        if kind is None:
            await self.acknowledge()
        else:
            self.drop()


class ExitObserver(_Observer):
    """For `open_process(observer=...)` and `open_terminal`: one look at the exited root.

    `bound` is in seconds, at most 2; it is part of the run's bound. Raises ValueError for another,
    ObservationUnsupported where an exit cannot be seen before the reap.
    """

    async def opportunity(self) -> Opportunity:
        """Wait for the root's exit. Raises OpportunityExpired when there is nothing to look at."""
        process: Process = self._run
        look, telling = self._look, process._telling
        look.waiting += 1
        try:
            await telling.until(lambda: telling.finished or look.come)
            return self._handed_out() or Opportunity(process, look)
        finally:
            look.waiting -= 1

    async def observation(self) -> Observation:
        """Wait until the look is over, and say how it ended."""
        telling = self._run._telling
        await telling.until(lambda: telling.finished or self._look.ended is not None)
        return self._look.observation()


class ThreadOpportunity(_Opportunity):
    """As `Opportunity`, for threads."""

    @property
    def process(self) -> Popen[Any]:
        """The run's handle; signals and stops work as ever."""
        popen: Popen[Any] = self._run
        return popen

    def tree(self) -> list[Member]:
        """Who is alive of the tree (at most 256 are named). Raises OpportunityExpired."""
        before = self._look.answers
        if self._look.send("list"):
            _sleep_until(
                self.process,
                self._look,
                lambda: self._look.answers > before or self._look.ended is not None,
            )
        return self._tree(before)

    def group(self) -> list[Member]:
        """Who is alive in the root's group. Raises OpportunityExpired."""
        return [member for member in self.tree() if member.pgid == self.pgid]

    def acknowledge(self) -> None:
        """The look is done. Raises OpportunityExpired when it was over before that was heard."""
        self._look.send("acknowledge")
        _sleep_until(self.process, self._look, lambda: self._look.ended is not None)
        self._check_completed()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, value: object, traceback: object) -> None:
        if kind is None:
            self.acknowledge()
        else:
            self.drop()


class ThreadExitObserver(_Observer):
    """As `ExitObserver`, for `Popen(observer=...)` and `TerminalPopen`."""

    def opportunity(self, timeout: float | None = None) -> ThreadOpportunity:
        """Wait for the root's exit. Raises OpportunityExpired when there is nothing to look at,
        TimeoutError after `timeout` seconds."""
        look = self._look
        look.waiting += 1
        try:
            _sleep_until(self._run, look, lambda: look.come, timeout)
            return self._handed_out() or ThreadOpportunity(self._run, look)
        finally:
            look.waiting -= 1

    def observation(self, timeout: float | None = None) -> Observation:
        """Wait until the look is over, and say how it ended. Raises TimeoutError."""
        _sleep_until(self._run, self._look, lambda: self._look.ended is not None, timeout)
        return self._look.observation()


def _sleep_until(
    popen: Popen[Any], look: Look, done: Callable[[], bool], timeout: float | None = None
) -> None:
    """Wait in this thread for `done`, or the run's end. Raises TimeoutError.

    Whichever thread reads a line takes it from the socket that all sleep on; so each has a bell.
    """
    ends = None if timeout is None else time.monotonic() + timeout
    bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    with popen._waitpid_lock:
        popen._waiters += 1  # while there are any the descriptors stay open
        look.bells.add(bell)
    try:
        while True:
            with popen._waitpid_lock:
                popen._look()
            if done() or popen.returncode is not None:
                return
            link = popen._link
            assert link is not None
            due = min((at for at in (ends, popen._overdue_at) if at is not None), default=None)
            left = None if due is None else due - time.monotonic()
            if ends is not None and ends <= time.monotonic():
                raise TimeoutError("the exit was not seen in time")
            link.wait_blocking(left, (bell, select.POLLIN))
    finally:
        with popen._waitpid_lock:
            look.bells.discard(bell)
            os.close(bell)
            popen._waiters -= 1
            popen._close_when_over()
