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
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, AnyStr, Final, Literal

from lastout.forked import cut_off, register
from lastout.graces import MARGIN, Graces, resolve
from lastout.handed import Handed
from lastout.link import Link, front_pidfd, limit_named, pair
from lastout.outcome import Outcome
from lastout.reason import Reason, check_stop
from lastout.state import new_run, record_path
from lastout.threaded import Threaded
from lastout.told import Told

if TYPE_CHECKING:
    from lastout.identity import ProcessIdentity
    from lastout.observe import Look, ThreadExitObserver

__all__ = ["DESCRIPTORS", "Popen"]

DESCRIPTORS: Final = 2
"""What a run takes of this process besides its pipes: the control socket and the front's pidfd."""

_AT_START: Final = 12
"""What a start takes for a moment: those, both ends of three pipes, and the standard library's."""


class Popen(Threaded, subprocess.Popen[AnyStr]):
    """subprocess.Popen, under the supervisor: nobody is left behind, and the end is on record.

    `terminate` begins the stop (SIGTERM, and SIGKILL to all that is left when the grace is over),
    `kill` stops now, `pid` is the front's, `returncode` the root's. Beside subprocess's arguments
    those of `open_process`; `stdin_end` is "ignore" here. In a forked child the handle is inert.
    Raises as subprocess does, and Refused or LimitReached.
    """

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
        self._begin()
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

    def stop(
        self, reason: Reason = "user", *, by: str | None = None, grace: float | None = None
    ) -> Outcome:
        """Stop the run and wait for its outcome, at most its bound and `MARGIN`.

        `by` is for the record; `grace` (seconds) shortens what is left of the graces.
        Raises ValueError for another reason, or a grace below 0.
        """
        check_stop(reason, grace)
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
                self._link = Link(ours, front_pidfd(self.pid))
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

    def _internal_poll(self, _deadstate: int | None = None) -> Any:
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

    # --- forked children -------------------------------------------------------------------------

    def _after_fork(self) -> None:
        self._inert = True
        self._child_created = False  # nothing of it is to be waited for or warned of here
        if self._link is not None:
            self._link.close_after_fork()
        for stream in (self.stdin, self.stdout, self.stderr):
            cut_off(stream)
