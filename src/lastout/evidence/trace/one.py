"""The tracer of one run: made by `lastout run --trace` before it becomes the supervisor.

    python -m lastout.evidence.trace.one RUN RECORD FRONT_PID READY_FD

It is no child of the run and holds none of its descriptors. It ends when front and keeper have
ended; nobody has to stop it.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

from lastout.evidence.events import Identity
from lastout.evidence.trace import TracingUnavailable
from lastout.evidence.trace.join import RunTrace
from lastout.evidence.trace.source import Source

__all__ = ["main", "open_supervisor", "trace"]

_LOOK_EVERY_MS = 50
_UNTOLD_S = 60.0
_BREATH_MS = 5
"""How late a signal may be read on a machine where others send many."""


def trace(run: str, path: str, front: int, ready: int) -> int:
    """Trace until the run is over; the exit status. One line on `ready` says how it began."""
    try:
        source = Source()
    except TracingUnavailable as why:
        os.write(ready, f"no {why}\n".encode())
        return 1
    stopped, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    _end_on_signals(wake)
    try:
        front_fd = os.pidfd_open(front)
        own = RunTrace(
            run,
            path,
            how=source.how,
            senders=source.sees_senders,
            codes=source.sees_exit_codes,
            saved_name=source.saved_name,
        )
        own.adopt(front)
        source.follow([front])
        descriptors = source.start()
        own.begin("whole-run", front)
        os.write(ready, f"yes {source.how}\n".encode())
        os.close(ready)
        interrupted = _loop(source, own, descriptors, front_fd, stopped)
        _take(source, own)
        own.end("the tracer was stopped" if interrupted else "", source.lost())
    finally:
        source.close()
    return 0


def _loop(
    source: Source, own: RunTrace, descriptors: list[int], front_fd: int, stopped: int
) -> bool:
    """Take news until front and keeper are gone; whether we were told to stop before."""
    poll, calm = select.poll(), select.poll()
    for descriptor in (*descriptors, front_fd, stopped):
        poll.register(descriptor, select.POLLIN)
    for descriptor in (front_fd, stopped):
        calm.register(descriptor, select.POLLIN)
    waiting = {front_fd}
    keeper_known = False
    orphaned = 0.0
    while True:
        if not waiting:
            # The front was killed before anybody could write who the keeper is: it will, at the end.
            orphaned = orphaned or time.monotonic()
            if not own.untold or time.monotonic() - orphaned > _UNTOLD_S:
                return False
        ready = {fd for fd, _ in poll.poll(None if waiting else _LOOK_EVERY_MS)}
        if stopped in ready:
            return True
        if not _take(source, own) and not ready & waiting:
            # Somebody else's signals woke us: where there are many, not for each of them.
            calm.poll(_BREATH_MS)
        if own.started is not None and not keeper_known:
            keeper_known = True
            keeper_fd = open_supervisor(own.started.keeper)
            if keeper_fd >= 0:
                waiting.add(keeper_fd)
                poll.register(keeper_fd, select.POLLIN)
                calm.register(keeper_fd, select.POLLIN)
        for descriptor in ready & waiting:
            poll.unregister(descriptor)
            calm.unregister(descriptor)
            waiting.remove(descriptor)
            os.close(descriptor)


def _take(source: Source, own: RunTrace) -> bool:
    taken = [own.take(news) for news in source.drain(own.knows)]
    own.read_record()
    return any(taken)


def open_supervisor(process: Identity) -> int:
    """A descriptor of this very process; -1 when it is gone."""
    from lastout.proctable import read_stat

    try:
        fd = os.pidfd_open(process.pid)
    except OSError:
        return -1
    try:
        if read_stat(process.pid).start == process.start:
            return fd
    except OSError:
        pass
    os.close(fd)
    return -1


def _end_on_signals(wake: int) -> None:
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    signal.set_wakeup_fd(wake)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def main() -> None:
    """The entry point."""
    run, path, front, ready = sys.argv[1:5]
    os.chdir("/")  # it holds nobody's directory
    sys.exit(trace(run, path, int(front), int(ready)))


if __name__ == "__main__":
    main()
