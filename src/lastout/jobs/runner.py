"""A runner: takes what is queued, one job after the other, and ends when nothing waits.

It is a process in a session of its own, started by way of `route`; it holds a slot, and of each job
that it has the lock. Its descriptors are the only proof that it lives.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import threading
import time
import traceback
from types import FrameType
from typing import Final

from lastout import state as states
from lastout.errors import in_words
from lastout.evidence.watch import Watch
from lastout.identity import take
from lastout.jobs import bare, door, layout, queue, reading, recovered, route, sentences
from lastout.jobs.desk import Desk
from lastout.jobs.errors import JobsError
from lastout.jobs.queue import Entry
from lastout.jobs.result import Process, Result, nothing_ran
from lastout.jobs.spec import Command, Spec

__all__ = ["main"]

_NO_ROOM_WAIT: Final = 5.0
"""Seconds between two attempts to write a result for which there is no room at all."""


def main(arguments: list[str]) -> None:
    """`run STATE SLOT FD`, or `wake STATE SLOT FD LOCK JOB LINE` after `bare.rest`, or `attached`
    and what its own `main` takes."""
    if arguments[0] == "attached":
        from lastout.jobs.attached import main as attached

        attached(arguments[1:])
        return
    mode, state, number, slot, *more = arguments
    with contextlib.suppress(PermissionError):
        os.setsid()
    runner = Runner(state, int(number), int(slot))
    if mode == "wake":
        lock, job, line = more
        runner.go_on(int(lock), job, line)
    runner.loop()


class Runner:
    """One process, one slot, one job at a time."""

    def __init__(self, state: str, number: int, slot: int) -> None:
        self.state = state
        self._number = number
        self._slot = slot
        self._desk: Desk | None = None
        self._watch = Watch()
        self._asked_to_end: str | None = None
        self._me = Process.of(take(os.getpid()))
        os.set_inheritable(slot, False)
        for ignored in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
            signal.signal(ignored, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, self._shut_down)

    def loop(self) -> None:
        """Until nothing is left to do."""
        # A thread that starts runners for those who cannot, when something is queued meanwhile.
        threading.Thread(target=self._hear_bell, name="bell", daemon=True).start()
        while self._asked_to_end is None:
            recovered.recover_active(self.state)
            claimed = self._claim()
            if claimed is None:
                recovered.sweep(self.state, recovered.HALF_AGE)
                return
            spec, entry, lock = claimed
            try:
                self._begin(spec, entry, lock)
            finally:
                os.close(lock)

    def go_on(self, lock: int, job: str, line: str) -> None:
        """The second half of a job that a shell has waited for."""
        os.set_inheritable(lock, False)
        try:
            spec, stored = reading.spec(self.state, job), reading.stored(self.state, job)
            desk = self._desk = Desk(self.state, spec, stored)
            try:
                found = bare.wake(desk, line)
                if line == bare.ASKED:
                    self._shut_down(signal.SIGTERM, None)
                self._guarded(desk, lock, found)
            finally:
                self._desk = None
                desk.close()
        finally:
            os.close(lock)

    # --- taking a job ----------------------------------------------------------------------------

    def _claim(self) -> tuple[Spec, Entry, int] | None:
        """The next job with its lock, or None: then the slot has been given back."""
        with door.door(self.state):
            if self._number <= door.limit(self.state):
                for entry in list(queue.serve_next(self.state, queue.entries(self.state))):
                    if (found := self._try(entry)) is not None:
                        spec, lock = found
                        resident = not isinstance(spec.work, Command) or spec.work.capture
                        door.note_slot(
                            self._slot, runner=self._me, job=entry.job, resident=resident
                        )
                        queue.note_served(self.state, entry)
                        return spec, entry, lock
            # Behind the door nobody can queue a job and still count on us.
            os.close(self._slot)
            return None

    def _try(self, entry: Entry) -> tuple[Spec, int] | None:
        directory = layout.job_directory(self.state, entry.job)
        try:
            lock = os.open(os.path.join(directory, layout.LOCK), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            queue.discard(self.state, entry)  # its submitter died before the job was there
            return None
        except OSError:
            return None  # told where somebody looks (`job list`): the others go on
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if reading.stored(self.state, entry.job) is None:
                if reading.final(self.state, entry.job) is None:
                    return reading.spec(self.state, entry.job), lock
                queue.discard(self.state, entry)
        except (BlockingIOError, JobsError):
            pass  # another has it, or it is not for this version
        os.close(lock)
        return None

    # --- doing it --------------------------------------------------------------------------------

    def _begin(self, spec: Spec, entry: Entry, lock: int) -> None:
        desk = self._desk = Desk(self.state, spec, watch=self._watch)
        try:
            plain = isinstance(spec.work, Command)
            try:
                queue.begin(self.state, entry)
                desk.claim(states.new_run() if plain else None)
            except OSError as error:
                self._publish(
                    desk, nothing_ran("not-started", sentences.not_started(in_words(error)))
                )
                return
            if self._asked_to_end is not None:
                desk.shut_down(self._asked_to_end)
            self._guarded(desk, lock, None)
        finally:
            self._desk = None
            desk.close()

    def _guarded(self, desk: Desk, lock: int, found: bare.TakenUp | None) -> None:
        """Run it; whatever goes wrong, its end is published, and nothing of it is left."""
        try:
            self._work(desk, lock, found)
        except Exception as error:
            traceback.print_exc()
            if not desk.ended:
                self._give_up(desk, sentences.turn_raised(error))
            return
        if not desk.ended:
            self._give_up(desk, "its turns ended without a final result")

    def _work(self, desk: Desk, lock: int, found: bare.TakenUp | None) -> None:
        kept = bare.Kept(lock, self._slot, self._number)
        if isinstance(desk.spec.work, Command):
            from lastout.jobs import commands

            if found is None and desk.stored.front is not None:
                self._give_up(desk, None)  # its supervisor has been reaped: the record tells
            else:
                commands.run(desk, kept, found)
        else:
            from lastout.jobs import turns

            turns.run(desk)

    def _give_up(self, desk: Desk, reason: str | None) -> None:
        """End what is left of the job's runs, and say what is known."""
        self._publish(desk, recovered.conclude_runs(desk, reason))

    def _publish(self, desk: Desk, result: Result) -> None:
        while True:
            try:
                if result.turn == 0 and desk.has_result():
                    desk.end(result)
                else:
                    desk.publish(result)
                return
            except OSError:
                traceback.print_exc()
                if not os.path.isdir(desk.directory):
                    return  # somebody has deleted the job: nobody can be told
                # Not even the room that was set aside: nobody is told before it is durable.
                time.sleep(_NO_ROOM_WAIT)

    def _hear_bell(self) -> None:
        with Watch() as watch:
            watch.add(os.path.join(layout.jobs_directory(self.state), "queue"))
            while watch.wait(None):
                with contextlib.suppress(OSError):
                    route.start_runners(self.state)

    def _shut_down(self, number: int, frame: FrameType | None) -> None:
        by = f"SIG{signal.Signals(number).name.removeprefix('SIG')} to its runner"
        self._asked_to_end = by
        if self._desk is not None:
            self._desk.shut_down(by)
        else:
            sys.exit(0)  # between two jobs; the kernel gives the slot back
