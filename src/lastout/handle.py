"""The handle of a run: its identities, its streams, and how it ends. asyncio and trio alike.

What became of a run is read from its lines on the control socket, never from a status alone: a
stray `waitpid(-1)` elsewhere in the program cannot falsify it.
"""

from __future__ import annotations

import signal as signals
from collections.abc import AsyncIterator

import anyio
import anyio.to_thread  # with `overdue`: nothing can be imported when there are no descriptors left
from anyio import BrokenResourceError, BusyResourceError, ClosedResourceError, EndOfStream

from lastout.control import Control
from lastout.errors import HandleInert
from lastout.evidence import events as lines
from lastout.forked import register, unregister
from lastout.graces import HEARD, MARGIN
from lastout.identity import ProcessIdentity
from lastout.outcome import Outcome, decide, identity_of
from lastout.overdue import conclude
from lastout.reason import Reason, check_stop
from lastout.spawn import Spawned
from lastout.streams import PipeReceiveStream, PipeSendStream
from lastout.telling import Telling

__all__ = ["Process"]


class Process:
    """A run that `open_process` started: its identities, its streams, and how it ends.

    Every method belongs to the event loop that started the run. In a forked child the handle is
    inert: its descriptors are closed, and its methods raise HandleInert.
    """

    def __init__(self, spawned: Spawned, run: str, record: str | None, max_stop: float) -> None:
        self.pid = spawned.pid
        """The front's pid: what stands for the run in a process list."""
        self.run = run
        self.record = record
        self.stdin = PipeSendStream(spawned.stdin) if spawned.stdin is not None else None
        self.stdout = PipeReceiveStream(spawned.stdout) if spawned.stdout is not None else None
        self.stderr = PipeReceiveStream(spawned.stderr) if spawned.stderr is not None else None
        self._control = Control(spawned.control, spawned.pidfd)
        self._telling = Telling(self._control, max_stop)
        self._inert = False
        self._settling = anyio.Lock(fast_acquire=True)
        self._stopping_others = anyio.Lock(fast_acquire=True)
        self._asked = 0  # for the members
        self._outcome: Outcome | None = None
        register(self)

    @property
    def started(self) -> lines.Started:
        """The supervisor's first line: identities, graces, where and as whom it runs."""
        started = self._telling.started
        assert started is not None  # open_process hands nothing out before it
        return started

    @property
    def root(self) -> ProcessIdentity:
        """The executed command."""
        return identity_of(self.started.root, self.started)

    @property
    def front(self) -> ProcessIdentity:
        """The supervisor's first process, our child."""
        return identity_of(self.started.front, self.started)

    @property
    def keeper(self) -> ProcessIdentity:
        """The supervisor's second process, the root's parent."""
        return identity_of(self.started.keeper, self.started)

    @property
    def outcome(self) -> Outcome | None:
        """What `wait` returned, or None before."""
        return self._outcome

    async def wait(self) -> Outcome:
        """Wait until the root has ended and nothing of its tree is left.

        Not bounded while the run goes on. Once a stop has begun, or the front is gone, it is: then
        it takes the bound of this run and `MARGIN`, and at most the forced step besides.
        """
        self._check()
        if self._outcome is None:
            await self._telling.until(lambda: self._telling.finished or self._telling.ending)
            await self._settle()
        assert self._outcome is not None
        return self._outcome

    async def wait_root(self) -> int | None:
        """Wait for the root alone: its status as in subprocess, None when nobody could see it.

        Its leftovers may still be running, and its output may not be read yet. With an observer it
        comes after the look.
        """
        self._check()
        telling = self._telling
        await telling.until(lambda: telling.finished or telling.root_told)
        return self._decide().returncode

    async def stop(
        self,
        reason: Reason = "user",
        *,
        by: str | None = None,
        grace: float | None = None,
    ) -> Outcome:
        """Stop the run and wait for its outcome. Again, or during a stop, it changes nothing.

        `by` is for the record. `grace` (seconds) shortens what is left of the graces; with 0 the
        tree gets SIGKILL at once. Raises ValueError for another reason, or a grace below 0.
        """
        self.request_stop(reason, by=by, grace=grace)
        return await self.wait()

    def request_stop(
        self, reason: Reason = "user", *, by: str | None = None, grace: float | None = None
    ) -> None:
        """Ask for the stop and do not wait; `wait` tells how it ended. Raises as `stop`."""
        self._check()
        check_stop(reason, grace)
        self._request(reason, by, grace)

    def leave(self) -> Outcome:
        """Wait no longer: the outcome is what is known now, and leaving the block does not wait.

        For a caller whose own time is over. The run stays in its supervisor's hands, and nobody
        takes the forced step.
        """
        self._check()
        self._outcome = self._outcome or self._decide()
        self._telling.over = True
        return self._outcome

    def send_signal(self, number: int) -> None:
        """Send a signal to the root, and to its group where it has one of its own.

        Raises ValueError for TERM, KILL and STOP (those are `stop`'s), ProcessLookupError when the
        supervisor is gone.
        """
        self._check()
        name = signals.Signals(number).name.removeprefix("SIG")
        if name in ("TERM", "KILL", "STOP"):
            raise ValueError(f"SIG{name} is not sent to a root alone; use stop(), or stop(grace=0)")
        if not self._control.send({"cmd": "signal", "name": name}):
            raise ProcessLookupError(3, "the supervisor is gone, or does not read")

    async def members(self) -> list[lines.Member]:
        """The processes of the tree as the supervisor sees them now (at most 256 are named)."""
        self._check()
        telling = self._telling
        self._asked += 1
        wanted = self._asked
        if not self._control.send({"cmd": "list"}):
            self._asked -= 1
            return []
        await telling.until(lambda: telling.finished or telling.answers >= wanted)
        listed = telling.listed if telling.answers >= wanted else None
        return list(listed.members) if listed is not None else []

    async def stop_others(
        self, reason: Reason = "completion", *, by: str | None = None, grace: float | None = None
    ) -> lines.OthersStopped | None:
        """Stop every member of the tree but the root, and wait for it: SIGTERM, then SIGKILL.

        Gives who was stopped and who remains. None when the supervisor does not do it: the run is
        ending, or it did not answer within the graces and `MARGIN`. `grace` (seconds) shortens the
        wait between the two signals. Raises ValueError as `stop`.
        """
        self._check()
        check_stop(reason, grace)
        telling = self._telling
        async with self._stopping_others:
            telling.read()
            telling.others, errors = None, telling.errors
            milliseconds = None if grace is None else round(grace * 1000)
            command = {"cmd": "stop-others", "reason": reason, "by": by, "grace_ms": milliseconds}
            if telling.finished or not self._control.send(command):
                return None
            bound = (self.started.term_grace_ms + self.started.reap_bound_ms) / 1000
            with anyio.move_on_after(bound + MARGIN):
                await telling.until(
                    lambda: (
                        telling.finished or telling.others is not None or telling.errors > errors
                    )
                )
            return telling.others

    def events(self) -> AsyncIterator[lines.Event]:
        """Every line of the run, from its first, as it comes, until the run is over.

        Who falls more than 1,024 events behind misses the oldest; the record has them all.
        """
        return aiter(self._telling)

    # --- ending ----------------------------------------------------------------------------------

    def _request(self, reason: str, by: str | None, grace: float | None) -> None:
        self._telling.read()
        if self._telling.finished:
            return
        self._control.request_stop(reason, by, grace)
        self._telling.ends_now()

    async def _settle(self) -> None:
        """The stop is under way: wait out its bound, then take the forced step."""
        async with self._settling:
            telling = self._telling
            with anyio.CancelScope(deadline=telling.overdue_at):
                if not (telling.finished or telling.stopping):
                    with anyio.move_on_after(HEARD):
                        await telling.until(lambda: telling.finished or telling.stopping)
                if not (telling.finished or telling.stopping):
                    # Somebody has stopped the front. Not sooner: it passes SIGCONT on to the root.
                    self._control.signal_front(signals.SIGCONT)
                await telling.until(lambda: telling.finished)
            if self._outcome is None:
                # Shielded: half a forced step is worse than none.
                with anyio.CancelScope(shield=True):
                    self._outcome = await self._conclude()
                    telling.over = True

    async def _conclude(self) -> Outcome:
        telling = self._telling
        if telling.final:
            outcome = self._decide()
        else:
            outcome = await conclude(
                telling.facts, run=self.run, record=self.record, deadline=telling.overdue_at
            )
        if not telling.finished and outcome.verdict != "unproven":
            # The run is over; a front that still hangs (somebody has stopped it) has nothing left
            # to do, and is our own child.
            self._control.signal_front(signals.SIGKILL)
            with anyio.move_on_after(MARGIN):
                await telling.until(lambda: self._control.front_gone)
        return outcome

    def _decide(self) -> Outcome:
        return decide(self._telling.facts, run=self.run, record=self.record)

    async def _start(self, program: str, cwd: str | None) -> None:
        """Wait for the first line. Raises what subprocess would, when nothing was started."""
        telling = self._telling
        await telling.until(lambda: telling.started is not None or telling.finished)
        telling.check_started(program, cwd, self._control.front_status)

    async def _close(self, reason: Reason) -> None:
        """Leave nobody behind: the end of the block, however it ends."""
        if self._inert:
            return
        try:
            if self._outcome is None and self._telling.nothing is None:
                self._request(reason, None, None)
                await self._wait_and_discard()
        finally:
            self._release()

    async def _wait_and_discard(self) -> None:
        """Wait for the outcome while a root that is cleaning up can still write."""
        async with anyio.create_task_group() as tasks:
            for stream in (self.stdout, self.stderr):
                if stream is not None and stream.fileno() >= 0 and not stream.busy:
                    tasks.start_soon(_discard, stream)
            await self.wait()
            tasks.cancel_scope.cancel()

    def _release(self) -> None:
        unregister(self)
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self._control.close()

    def _check(self) -> None:
        if self._inert:
            raise HandleInert(
                "this handle was inherited through a fork; the run belongs to the parent process"
            )

    def _after_fork(self) -> None:
        self._inert = True
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close_after_fork()
        self._control.close_after_fork()


async def _discard(stream: PipeReceiveStream) -> None:
    try:
        while True:
            await stream.receive()
    except (EndOfStream, ClosedResourceError, BusyResourceError, BrokenResourceError):
        pass
