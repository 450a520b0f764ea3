"""`Popen`: subprocess's own, with the supervisor in front of the command. For threads, and for code
that must not change.

Pipes, text, `communicate` and every check of arguments are the standard library's own code. What is
ours is the command line, and who says how the run ended: its lines, not the front's status.
docs/reference/popen-differences.md lists every difference.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, AnyStr, Final, Literal

from lastout.errors import HandleInert
from lastout.forked import cut_off, register, unregister
from lastout.graces import HEARD, MARGIN, Graces, resolve
from lastout.handed import Handed
from lastout.link import Link, limit_named, pair
from lastout.outcome import Outcome, decide, identity_of
from lastout.state import new_run, record_path
from lastout.told import Told

if TYPE_CHECKING:
    from lastout.evidence.events import Started
    from lastout.handle import Reason
    from lastout.identity import ProcessIdentity
    from lastout.observe import Look, ThreadExitObserver

__all__ = ["DESCRIPTORS", "Popen"]

DESCRIPTORS: Final = 2
"""What a run takes of this process besides its pipes: the control socket and the front's pidfd."""

_AT_START: Final = 12
"""What a start takes for a moment: those, both ends of three pipes, and the standard library's."""


class Popen(subprocess.Popen[AnyStr]):
    """subprocess.Popen, under the supervisor: nobody is left behind, and the end is on record.

    `terminate` begins the stop (SIGTERM, and SIGKILL to all that is left when the grace is over),
    `kill` stops now, `pid` is the front's, `returncode` the root's. Beside subprocess's arguments
    those of `open_process`; `stdin_end` is "ignore" here. In a forked child the handle is inert.
    Raises as subprocess does, and Refused or LimitReached.
    """

    _waitpid_lock: threading.Lock  # the standard library's

    def __init__(
        self,
        *args: Any,
        graces: Graces | str | None = None,
        run: str | None = None,
        record: bool | str | os.PathLike[str] | None = True,
        state: str | os.PathLike[str] | None = None,
        owner: Literal["self", "parent"] | ProcessIdentity | None = "self",
        leftovers: Literal["stop", "wait"] = "stop",
        contain: Literal["subreaper", "cgroup", "pidns"] = "subreaper",
        stdin_end: Literal["stop", "ignore"] = "ignore",
        forward: Iterable[str | int] = (),
        rlimits: Mapping[str, tuple[int, int]] | None = None,
        mask: Iterable[int] = (),
        ctty: bool = False,
        observer: ThreadExitObserver | None = None,
        **kwargs: Any,
    ) -> None:
        self.run = run or new_run()
        path = record_path(self.run, state) if record is True else record or None
        self.record = None if path is None else os.path.abspath(os.fspath(path))
        self._told = Told(resolve(graces).max_stop)
        self._link: Link | None = None
        self._waiters = 0
        self._inert = False
        self._ending_since: float | None = None
        self._unheard_at: float | None = None
        self._outcome: Outcome | None = None
        self._ours: dict[str, Any] = {
            "run": self.run,
            "record": self.record,
            "graces": graces,
            "owner": owner,
            "leftovers": leftovers,
            "contain": contain,
            "stdin_end": stdin_end,
            "forward": forward,
            "rlimits": rlimits,
            "mask": mask,
            "ctty": ctty,
        }
        self._look_at_exit: Look | None = None
        if observer is not None:
            self._look_at_exit = observer._register()
            self._ours["observe"] = observer.bound
            self._told.watch = self._look_at_exit.take
            self._told.max_stop += observer.bound
            observer._attach(self)
        super().__init__(*args, **kwargs)

    # --- what subprocess.Popen has no place for --------------------------------------------------

    @property
    def started(self) -> Started:
        """The supervisor's first line: identities, graces, where and as whom it runs."""
        assert self._told.started is not None  # the constructor does not return before it
        return self._told.started

    @property
    def root(self) -> ProcessIdentity:
        """The executed command."""
        return identity_of(self.started.root, self.started)

    @property
    def front(self) -> ProcessIdentity:
        """The supervisor's first process, our child; `pid` is its pid."""
        return identity_of(self.started.front, self.started)

    @property
    def keeper(self) -> ProcessIdentity:
        """The supervisor's second process, the root's parent."""
        return identity_of(self.started.keeper, self.started)

    @property
    def outcome(self) -> Outcome | None:
        """How the run ended; None while that has not been waited for."""
        return self._outcome

    def stop(
        self, reason: Reason = "user", *, by: str | None = None, grace: float | None = None
    ) -> Outcome:
        """Stop the run and wait for its outcome, at most its bound and `MARGIN`.

        `by` is for the record; `grace` (seconds) shortens what is left of the graces.
        """
        if grace is not None and not grace >= 0:
            raise ValueError(f"the grace must be a number of seconds from 0, not {grace!r}")
        if self.poll() is None:
            self._request(reason, by, grace)
        self.wait()
        assert self._outcome is not None
        return self._outcome

    # --- what is another's in subprocess.Popen ---------------------------------------------------

    def send_signal(self, sig: int) -> None:
        """Send a signal to the root, and to its group where it has one of its own.

        SIGTERM begins the stop, SIGKILL is a stop without grace; nothing when the run is over.
        """
        if self.poll() is not None:
            return
        if sig == signal.SIGTERM:
            self._request("user", None, None)
        elif sig == signal.SIGKILL:
            self._request("user", None, 0)
        else:
            self._signal_root(sig)

    def _execute_child(self, *values: Any) -> None:
        """The standard library's start, with another command. Returns when the root runs."""
        handed = Handed(values)
        with limit_named(_AT_START):
            ours, theirs = pair()
        try:
            with theirs:
                call = handed.with_supervisor(theirs.fileno(), **self._ours)
                if handed.inherits_all:
                    theirs.set_inheritable(True)
                # What the standard library has given back by then is enough for the pidfd.
                with limit_named(_AT_START):
                    super()._execute_child(*call)  # type: ignore[misc]
            with limit_named(_AT_START):
                self._link = Link(ours, os.pidfd_open(self.pid))
        except BaseException:
            # A front that did start hears its owner hang up, and stops.
            ours.close()
            raise
        register(self)
        if self._look_at_exit is not None:
            self._look_at_exit.connect(self._link.send)
        try:
            self._wait_for_start(handed.program, handed.cwd)
        except BaseException:
            self._abandon()
            raise

    def _internal_poll(self, _deadstate: int | None = None) -> int | None:
        """Called by `poll`, and at the end of a forgotten handle, which must not hear an error."""
        if self.returncode is not None:
            return self.returncode
        if _deadstate is None:
            self._check()
        elif self._inert or self._link is None:
            self.returncode = _deadstate
            return _deadstate
        if not self._waitpid_lock.acquire(False):
            return None  # another thread is looking; we know nothing yet
        try:
            self._look()
        except Exception:
            if _deadstate is None:
                raise
        finally:
            self._waitpid_lock.release()
        return self.returncode

    def _wait(self, timeout: float | None) -> int | None:
        """Called by `wait`. Sleeps on the front's pidfd and the control socket, not in between."""
        if self.returncode is not None:
            return self.returncode
        self._check()
        ends = None if timeout is None else time.monotonic() + timeout
        with self._waitpid_lock:
            self._waiters += 1  # while there are any the descriptors stay open
        try:
            while True:
                with self._waitpid_lock:
                    self._look()
                if self.returncode is not None:
                    return self.returncode
                now = time.monotonic()
                if ends is not None and now >= ends:
                    raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
                dues = (ends, self._overdue_at, self._unheard_at)
                due = min((at for at in dues if at is not None), default=None)
                self._sleep(None if due is None else due - now)
        finally:
            with self._waitpid_lock:
                self._waiters -= 1
                self._close_when_over()

    # --- reading the lines; the lock is held -----------------------------------------------------

    def _look(self) -> None:
        """Take what has come, and conclude when that is all or the bound is over."""
        link = self._link
        if self.returncode is not None or link is None:
            return
        for event in link.read():
            self._told.take(event)
        if link.front_gone or self._told.stopping or self._told.final:
            self._begin_bound()
            self._unheard_at = None
        elif self._unheard_at is not None and time.monotonic() >= self._unheard_at:
            # Somebody has stopped the front. Not sooner: it passes SIGCONT on to the root.
            link.signal_front(signal.SIGCONT)
            self._unheard_at = None
        if link.front_gone and (self._told.final or self._told.started is None):
            self._outcome = self._decide()
        elif self._overdue_at is not None and (
            time.monotonic() >= self._overdue_at or (link.front_gone and self._keeper_gone())
        ):
            self._outcome = self._conclude()
        if self._outcome is not None:
            self.returncode = self._returncode(self._outcome, link.front_status)
            self._close_when_over()

    def _decide(self) -> Outcome:
        return decide(self._told.facts, run=self.run, record=self.record)

    def _conclude(self) -> Outcome:
        """The supervisor's last word did not come: look elsewhere, then force. At most 3 s."""
        if self._told.final:
            outcome = self._decide()
        else:
            from lastout.overdue import settle

            outcome = settle(self._told.facts, run=self.run, record=self.record)
        assert self._link is not None
        if not self._link.front_gone and outcome.verdict != "unproven":
            # The run is over; a front that still hangs has nothing left to do.
            self._link.signal_front(signal.SIGKILL)
            ends = time.monotonic() + MARGIN
            while not self._link.front_gone and (left := ends - time.monotonic()) > 0:
                self._link.wait_blocking(left)
                self._link.read()
        return outcome

    @staticmethod
    def _returncode(outcome: Outcome, front_status: int | None) -> int:
        # subprocess knows no "not known", and whoever compares with 0 must not read a success.
        if outcome.returncode is not None:
            return outcome.returncode
        return front_status if front_status is not None else sys.maxsize

    def _sleep(self, seconds: float | None) -> None:
        link = self._link
        assert link is not None
        if not link.front_gone:
            link.wait_blocking(seconds)
            return
        # The front was killed: the keeper goes on, and what it has done is in the record.
        from lastout.identity import wait_dead

        wait_dead(self.keeper, seconds)

    def _keeper_gone(self) -> bool:
        from lastout.identity import Alive, still_alive

        return self._told.started is None or still_alive(self.keeper) is Alive.NO

    @property
    def _overdue_at(self) -> float | None:
        if self._ending_since is None:
            return None
        return self._ending_since + self._told.max_stop + MARGIN

    def _begin_bound(self) -> None:
        if self._ending_since is None:
            self._ending_since = time.monotonic()

    def _close_when_over(self) -> None:
        if self.returncode is not None and not self._waiters and self._link is not None:
            unregister(self)
            self._link.close()

    # --- starting, stopping ----------------------------------------------------------------------

    def _wait_for_start(self, program: str, cwd: str | None) -> None:
        link = self._link
        assert link is not None
        while self._told.started is None:
            for event in link.read():
                self._told.take(event)
            if self._told.started is not None:
                return
            if link.front_gone:
                self._told.check_started(program, cwd, link.front_status)
            link.wait_blocking(None)

    def _abandon(self) -> None:
        """The constructor was interrupted, or nothing was started: leave nobody behind."""
        assert self._link is not None
        self._link.request_stop("abort", None, 0)
        self._begin_bound()
        try:
            self._wait(self._told.max_stop + 2 * MARGIN)
        except subprocess.TimeoutExpired:
            pass  # the hang-up that comes with the closing is what remains to be said
        self._link.close()

    def _request(self, reason: str, by: str | None, grace: float | None) -> None:
        assert self._link is not None
        self._link.request_stop(reason, by, grace)
        self._begin_bound()
        self._unheard_at = time.monotonic() + HEARD

    def _signal_root(self, sig: int) -> None:
        """Through the supervisor, so that it is on record; what that does not pass on, directly."""
        try:
            name = signal.Signals(sig).name.removeprefix("SIG")
        except ValueError:
            name = "STOP"  # no signal (0) or a real-time one: the supervisor has no name for it
        if name != "STOP" and self._pass_on(name):
            return
        from lastout import identity

        try:
            identity.signal(self.root, sig)
        except ProcessLookupError:
            pass  # it ended meanwhile, as in subprocess

    def _pass_on(self, name: str) -> bool:
        """As in subprocess, it has been delivered when this returns. False when nobody does it."""
        link = self._link
        assert link is not None
        with self._waitpid_lock:
            self._look()
            before = self._told.passed_on[name]
            if self.returncode is not None or not link.send({"cmd": "signal", "name": name}):
                return self.returncode is not None
            ends = time.monotonic() + MARGIN
            while self._told.passed_on[name] == before and self.returncode is None:
                if (left := ends - time.monotonic()) <= 0 or link.front_gone:
                    return not link.front_gone  # it is under way
                link.wait_blocking(left)
                self._look()
        return True

    # --- forked children -------------------------------------------------------------------------

    def _check(self) -> None:
        if self._inert:
            raise HandleInert(
                "this handle was inherited through a fork; the run belongs to the parent process"
            )

    def _after_fork(self) -> None:
        self._inert = True
        self._child_created = False  # nothing of it is to be waited for or warned of here
        if self._link is not None:
            self._link.close_after_fork()
        for stream in (self.stdin, self.stdout, self.stderr):
            cut_off(stream)
