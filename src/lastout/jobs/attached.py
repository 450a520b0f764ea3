"""A job that ends with whoever asked for it: its runner is the asker's child.

For somebody who waits for the result, and for whom nobody else should have to. Such a job takes no
slot and waits in no queue: askers that are jobs themselves, and wait for it, hold the slots. It is
a member of the asker's run, where there is one, and is stopped with it. The kernel tells the runner
of the asker's death (PR_SET_PDEATHSIG, prctl(2)), so that nothing has to be arranged before it;
should the runner be killed too, its supervisor sees its owner die.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
from types import FrameType
from typing import NamedTuple

from lastout import state as states
from lastout.durable import sync_directory
from lastout.jobs import door, layout, queue, reading, route, sentences, submitting
from lastout.jobs.desk import Desk
from lastout.jobs.job import Job
from lastout.jobs.runner import Runner
from lastout.jobs.spec import Command, Kind

__all__ = ["Prepared", "main", "prepare", "start"]

_PR_SET_PDEATHSIG = 1
_DEATH = signal.SIGUSR1

_WITHIN = 0.5
"""Seconds: each of the waits below a run, which is perhaps ending as a whole. Its own ladder leaves
its members 1.5 s at least: what is to be published must be proven before that is over."""


class Prepared(NamedTuple):
    """A job that is written down and has no runner yet; `lock` is the descriptor of its lock."""

    job: Job
    lock: int


def prepare(state: str, work: Kind) -> Prepared:
    """Write the job down, durably, as one that this process has; it is not queued.

    Raises NameTaken, ValueError or OSError; then nothing was written. Should this process end
    before `start`, the job is one that has begun and lost its runner.
    """
    spec = submitting.new_spec(work)
    layout.make(state)
    top = layout.jobs_directory(state)
    half = os.path.join(top, layout.HALF + spec.id)
    whole = layout.job_directory(state, spec.id)
    by = layout.by_digest(spec.by)
    try:
        lock = submitting.made(half, spec)
        try:
            with door.door(state):
                submitting.check_name(state, spec)
                queue.activate(state, by, spec.id)
                try:
                    submitting.take_name(state, spec)
                    os.rename(half, whole)
                except BaseException:
                    queue.deactivate(state, by, spec.id)
                    raise
            try:
                sync_directory(top)
            except BaseException:
                with door.door(state):
                    queue.deactivate(state, by, spec.id)
                    os.rename(whole, half)
                raise
        except BaseException:
            os.close(lock)
            raise
    except BaseException:
        shutil.rmtree(half, ignore_errors=True)
        raise
    return Prepared(Job(state, spec.id), lock)


def start(prepared: Prepared) -> subprocess.Popen[bytes]:
    """Start the runner, which has the lock from here on. The caller waits for it in the end.

    Call it in the main thread: the kernel tells of the death of the thread that has called it.
    """
    job, lock = prepared
    log = os.path.join(layout.jobs_directory(job.state), "runners.log")
    try:
        with open(log, "ab") as file:
            return subprocess.Popen(
                route.runner_argv("attached", job.state, job.id, str(lock), str(os.getpid())),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=file,
                cwd=job.state,
                pass_fds=(lock,),
                # So that a kill of the asker's group leaves it the time to end the job.
                start_new_session=True,
                umask=0o077,
            )
    finally:
        os.close(lock)


def main(arguments: list[str]) -> None:
    """`STATE JOB LOCK ASKER`: the runner, for this one job."""
    state, job, lock, asker = arguments
    _Attached(state, int(lock), int(asker)).only(job)


class _Attached(Runner):
    """A runner without a slot."""

    def __init__(self, state: str, lock: int, asker: int) -> None:
        self._grace = _WITHIN if route.inside_run() else None
        super().__init__(state, 0, lock)
        # A signal of its own: while its threads die one by one, the asker is still our parent.
        signal.signal(_DEATH, self._asker_gone)
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, _DEATH, 0, 0, 0)
        if os.getppid() != asker:  # it had died before we could be told
            os.kill(os.getpid(), _DEATH)

    def only(self, job: str) -> None:
        """Run it to its end."""
        spec = reading.spec(self.state, job)
        desk = self._desk = Desk(self.state, spec, reading.stored(self.state, job))
        try:
            try:
                desk.claim(states.new_run() if isinstance(spec.work, Command) else None)
            except OSError as error:
                self._give_up(desk, sentences.not_started(str(error)))
                return
            if self._asked_to_end is not None:
                desk.shut_down(self._asked_to_end, self._grace)
            self._guarded(desk, self._slot, None)
        finally:
            self._desk = None
            desk.close()

    def _asker_gone(self, number: int, frame: FrameType | None) -> None:
        self._end(sentences.ASKER_GONE)

    def _shut_down(self, number: int, frame: FrameType | None) -> None:
        self._end(f"{signal.Signals(number).name} to its runner")

    def _end(self, by: str) -> None:
        self._asked_to_end = by
        if self._desk is not None:
            self._desk.shut_down(by, self._grace)
