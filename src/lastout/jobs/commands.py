"""A plain command as a job: start it, keep its output, hear its callers, say what came of it."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from typing import Final

from lastout.errors import LastoutError, in_words
from lastout.evidence.events import Event, StopBegan
from lastout.graces import resolve
from lastout.jobs import bare, conclude, feed, held, layout, sentences
from lastout.jobs.capture import Capture
from lastout.jobs.desk import Desk
from lastout.jobs.result import HeldLock, Result, nothing_ran
from lastout.jobs.spec import Command
from lastout.jobs.supervised import Supervised, closed_quietly
from lastout.jobs.work import Cancel
from lastout.leases import locks
from lastout.outcome import Outcome
from lastout.spawn import Spawned, spawn
from lastout.supervisor import command

__all__ = ["run"]

PROGRESS_EVERY: Final = 0.5
"""Seconds: how often the current line may change."""

_BEFORE_KILL: Final = 0.15
"""Seconds: how long before SIGKILL the locks are looked at for the last time."""

_LAST_OUTPUT: Final = 1.0
"""Seconds: how long output is read on after the tree has gone: its pipes have an end then, unless
somebody outside the tree holds them."""

_MOST_LINES: Final = 4096
_CHUNK: Final = 1 << 16


def run(desk: Desk, kept: bare.Kept, taken_up: bare.TakenUp | None = None) -> None:
    """Run the desk's command to its end and publish the result. Does not return when the command
    has no output to be kept and takes long: then a shell waits in this process's place."""
    work = desk.spec.work
    assert isinstance(work, Command)
    if taken_up is None and (cancel := _cancelled(desk)) is not None:
        desk.publish(nothing_ran(cancel.reason, sentences.never_started(cancel.by), cancel.by))
        return
    watched = _Watched(desk, work, kept)
    try:
        if taken_up is None:
            watched.start()
        else:
            watched.take_up(taken_up)
    except (LastoutError, OSError, ValueError) as error:
        watched.close()
        desk.publish(nothing_ran("not-started", sentences.not_started(in_words(error))))
        return
    try:
        result = watched.until_over()
    finally:
        watched.close()
    desk.publish(result)


class _Watched:
    """The run, its pipes, and the inbox: one loop over all of them."""

    def __init__(self, desk: Desk, work: Command, kept: bare.Kept) -> None:
        self._desk = desk
        self._work = work
        self._kept = kept
        self._selector = selectors.DefaultSelector()
        self._captures: dict[int, tuple[str, Capture]] = {}
        self._done: dict[str, Capture] = {}
        self._lines: list[Event] = []
        self._names: dict[int, str] = {}
        self._cancel: Cancel | None = None
        self._look_at: float | None = None
        self._kill_at: float | None = None
        self._progress_at = 0.0
        self._begun = False
        self._supervised: Supervised | None = None

    # --- starting --------------------------------------------------------------------------------

    def start(self) -> None:
        """Raises what could not be; then nothing runs."""
        desk, work = self._desk, self._work
        run, record = desk.stored.run, desk.stored.record
        assert run is not None
        assert record is not None
        # By this lock recovery can tell whether anything was executed.
        folder = os.path.join(desk.directory, layout.RUN)
        lock = locks.create(folder, 1, {"run": run, "record": record})
        output: int = subprocess.PIPE if work.capture else subprocess.DEVNULL
        if not work.capture and work.output is not None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY
            output = os.open(os.path.join(work.cwd or "/", work.output), flags, 0o600)
        try:
            spawned = spawn(
                command(
                    work.argv,
                    owner="self",
                    graces=work.graces,
                    run=run,
                    record=record,
                    lock=lock,
                    epoch=1,
                    stdin_end="ignore",
                    contain=work.contain,  # type: ignore[arg-type] # checked when it was submitted
                    timeout=work.timeout,
                    close_fds=True,
                    cwd=work.cwd,
                    umask=desk.spec.umask,
                ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=work.env,
                pass_fds=(),
            )
        finally:
            if output >= 0:
                os.close(output)
        self._attach(spawned)
        self._until_started()

    def take_up(self, found: bare.TakenUp) -> None:
        """Go on with a run that a shell has waited for."""
        spawned = Spawned(found.front.pid, found.pidfd, found.control, None, None, None)
        self._begun = True
        self._attach(spawned)
        assert self._supervised is not None
        self._supervised.take(found.lines)

    def _attach(self, spawned: Spawned) -> None:
        desk = self._desk
        assert desk.stored.run is not None
        assert desk.stored.record is not None
        self._supervised = Supervised(
            spawned.control,
            spawned.pidfd,
            run=desk.stored.run,
            record=desk.stored.record,
            max_stop=resolve(self._work.graces).max_stop,
            hear=self._hear,
        )
        for stream, fd in (("stdout", spawned.stdout), ("stderr", spawned.stderr)):
            if fd is not None:
                os.set_blocking(fd, False)
                self._captures[fd] = (stream, Capture(desk.directory, stream))
                self._selector.register(fd, selectors.EVENT_READ)

    def _until_started(self) -> None:
        """Raises what the supervisor says of a start that was none."""
        assert self._supervised is not None
        told, link = self._supervised.told, self._supervised.link
        while told.started is None:
            self._supervised.take(link.read())
            if told.started is None:
                if link.front_gone:
                    told.check_started(self._work.argv[0], self._work.cwd, link.front_status)
                link.wait_blocking(None)

    # --- the loop --------------------------------------------------------------------------------

    def until_over(self) -> Result:
        """The result, when the tree is empty or the bound is over."""
        supervised, desk = self._supervised, self._desk
        assert supervised is not None
        if not self._begun:
            desk.turn_began(None)
            desk.emit(feed.Started(runner=desk.me, run=desk.stored.run, record=desk.stored.record))
        self._selector.register(desk.fileno(), selectors.EVENT_READ)
        watched: list[int] = []
        quiet_since = time.monotonic()
        while True:
            outcome = supervised.step()
            if outcome is not None:
                return self._result(outcome)
            self._hear_callers()
            for fd in set(watched) - set(supervised.descriptors):
                self._selector.unregister(fd)
            for fd in set(supervised.descriptors) - set(watched):
                self._selector.register(fd, selectors.EVENT_READ)
            watched = supervised.descriptors
            self._look_at_locks()
            due = [supervised.due, self._look_at]
            if self._may_rest():
                rest_at = quiet_since + bare.QUIET
                if time.monotonic() >= rest_at:
                    bare.rest(desk, self._kept, supervised)  # does not return when it can be done
                    quiet_since = time.monotonic() + 3600.0
                due.append(rest_at)
            self._listen(min((at for at in due if at is not None), default=None))

    def _listen(self, until: float | None) -> None:
        seconds = None if until is None else max(0.0, until - time.monotonic())
        for key, _ in self._selector.select(seconds):
            if isinstance(key.fd, int) and key.fd in self._captures:
                self._read(key.fd)

    def _read(self, fd: int) -> bool:
        stream, capture = self._captures[fd]
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return False
        if data:
            capture.write(data)
            if stream == "stdout" and time.monotonic() >= self._progress_at:
                self._tell_progress(capture)
            return True
        self._selector.unregister(fd)
        os.close(fd)
        self._done[stream] = capture
        del self._captures[fd]
        return False

    def _tell_progress(self, capture: Capture) -> None:
        self._progress_at = time.monotonic() + PROGRESS_EVERY
        lines = capture.end.decode("utf-8", "replace").split("\n")
        said = next((line.strip() for line in reversed(lines) if line.strip()), None)
        if said and said != self._desk.stored.progress:
            self._desk.describe(progress=said[:400])

    def _hear(self, event: Event) -> None:
        if len(self._lines) < _MOST_LINES:
            self._lines.append(event)
        if isinstance(event, StopBegan):
            began = time.monotonic()
            self._kill_at = began + (event.term_grace_ms or 0) / 1000
            self._look_at = began
            self._desk.describe(why=event.trigger)

    def _hear_callers(self) -> None:
        assert self._supervised is not None
        for request in self._desk.requests():
            if isinstance(request, Cancel):
                if request.grace == 0:
                    self._found(self._look_below())
                self._cancel = self._cancel or request
                self._supervised.stop(request.reason, request.by, request.grace)

    def _look_at_locks(self) -> None:
        """At the stop's begin, and again right before SIGKILL: who is killed cannot be asked."""
        now = time.monotonic()
        if self._look_at is None or now < self._look_at:
            return
        assert self._supervised is not None
        assert self._kill_at is not None
        found = self._look_below()
        if time.monotonic() <= self._kill_at or not self._desk.locks:
            self._found(found)
        again = self._kill_at - _BEFORE_KILL
        self._look_at = again if now < again else None

    def _look_below(self) -> list[HeldLock]:
        assert self._supervised is not None
        below = held.members(self._supervised.supervisors)
        self._names |= dict(below)
        return held.of_processes(below)

    def _found(self, found: list[HeldLock]) -> None:
        self._desk.locks = dict.fromkeys(found)

    def _may_rest(self) -> bool:
        supervised = self._supervised
        assert supervised is not None
        return not (
            self._work.capture
            or self._cancel is not None
            or supervised.told.stopping
            or supervised.link.front_gone
        )

    # --- the end ---------------------------------------------------------------------------------

    def _result(self, outcome: Outcome) -> Result:
        ends = time.monotonic() + _LAST_OUTPUT
        while self._captures and (left := ends - time.monotonic()) > 0:
            for key, _ in self._selector.select(left):
                if isinstance(key.fd, int) and key.fd in self._captures:
                    while key.fd in self._captures and self._read(key.fd):
                        pass
        found = tuple(self._desk.locks)
        self._desk.locks = {}
        result = conclude.of_command(
            outcome,
            self._lines,
            cancel=self._cancel or _cancelled(self._desk),
            timeout=self._work.timeout,
            locks=found,
            names=self._names,
        )
        captures = {**dict(self._captures.values()), **self._done}
        kept = {stream: capture.close() for stream, capture in captures.items()}
        import msgspec

        return msgspec.structs.replace(result, stdout=kept.get("stdout"), stderr=kept.get("stderr"))

    def close(self) -> None:
        """Every descriptor; a supervisor that still lives hears its owner hang up."""
        for fd in list(self._captures):
            closed_quietly(fd)
        self._captures.clear()
        self._selector.close()
        if self._supervised is not None:
            self._supervised.close()


def _cancelled(desk: Desk) -> Cancel | None:
    return next((one for one in desk.requests() if isinstance(one, Cancel)), None)
