"""A job's output and feed on a terminal, as they come."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from typing import TYPE_CHECKING

import click

from lastout.cli._job_words import event_line
from lastout.cli._plain import said
from lastout.errors import LastoutError
from lastout.jobs import capture, feed, reading
from lastout.jobs.awaited import Awaited
from lastout.jobs.spec import Command

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lastout.jobs.job import Job
    from lastout.jobs.result import Result

__all__ = ["cancelled_by_ctrl_c", "copy", "follow_output", "watch"]


@contextlib.contextmanager
def cancelled_by_ctrl_c(job: Job) -> Iterator[threading.Event]:
    """The first Ctrl-C cancels the job and is told by the event; the second is a KeyboardInterrupt.

    A thread cancels: whoever watches goes on, and also one that waits for its reader (a pager that
    shows no more) does not hold the cancel up.
    """
    interrupted = threading.Event()

    def cancel() -> None:
        click.echo(f"cancelling {job.id}; again leaves it to itself", err=True)
        try:
            job.cancel(by="Ctrl-C")
        except (OSError, LastoutError) as error:
            click.echo(f"Error: {said(error)}", err=True)

    def interrupt(number: int, frame: object) -> None:
        signal.signal(number, signal.default_int_handler)
        interrupted.set()
        threading.Thread(target=cancel, daemon=True).start()

    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        yield interrupted
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def watch(job: Job, *, quiet: bool) -> Result:
    """Show what happens until the result is there; of a command its output, of an agent what it
    says and runs."""
    if quiet:
        return job.wait()
    if isinstance(job.spec.work, Command):
        follow_output(job, ("stdout", "stderr"))
        return job.wait()
    with Awaited(job.state, job.id, None) as awaited:
        told = reading.Feed(job.state, job.id)
        while True:
            found = awaited.result(None)
            for event in told.more():
                if not isinstance(event, feed.Started | feed.TurnBegan):
                    click.echo(event_line(event), err=not isinstance(event, feed.Text))
            if found is not None:
                return found
            awaited.wait_blocking()


def follow_output(job: Job, streams: Iterable[str]) -> None:
    """Copy a command's streams to ours until it has ended."""
    readers = [(name, capture.Reader(job.directory, name)) for name in streams]
    with Awaited(job.state, job.id, None) as awaited:
        while True:
            over = reading.final(job.state, job.id) is not None
            for name, reader in readers:
                for part in reader.more():
                    copy(name, part)
            if over:
                return
            awaited.arm()
            awaited.wait_blocking()


def copy(stream: str, part: bytes | int) -> None:
    """Bytes as they are; what was dropped is said on stderr."""
    if isinstance(part, int):
        click.echo(f"[{part} bytes of {stream} were dropped]", err=True)
        return
    out = sys.stderr.buffer if stream == "stderr" else sys.stdout.buffer
    out.write(part)
    out.flush()
