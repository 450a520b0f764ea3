"""A front, as its owner holds it: its pidfd and the control socket. Lines in, commands out.

Nothing here waits on an event loop: `control.Control` does that for asyncio and trio, `popen.Popen`
for threads.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import resource
import select
import signal
import socket
from collections.abc import Iterator
from typing import Any

from lastout.errors import LimitReached
from lastout.evidence.events import Event
from lastout.evidence.journal import Follower, Problem

__all__ = ["Link", "front_pidfd", "limit_named", "pair"]

_MOST_AT_ONCE = 1 << 16


class Link:
    """A front, by its pidfd, and the socket to it. Owns both descriptors."""

    def __init__(self, sock: socket.socket, pidfd: int) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._pidfd = pidfd
        self._follower = Follower()
        self.ended = False
        """The supervisors, or we, have closed the socket: no more lines will come."""
        self.front_gone = False
        self.front_status: int | None = None
        """The front's exit code, or minus its signal, where nobody has taken it away."""
        self.problems: list[Problem] = []

    def wait_blocking(self, seconds: float | None, also: tuple[int, int] | None = None) -> bool:
        """Wait, in this thread, until `read` has something new or the time is over; or until
        `also`, a descriptor with its poll(2) events, is ready. False when that is all."""
        poll = select.poll()
        if also is not None:
            poll.register(*also)
        for fd, over in ((self._socket.fileno(), self.ended), (self._pidfd, self.front_gone)):
            if not over:
                poll.register(fd, select.POLLIN)
        ready = poll.poll(None if seconds is None else max(0.0, seconds * 1000))
        return also is None or any(fd != also[0] for fd, _ in ready)

    def read(self) -> list[Event]:
        """The events that have come, without waiting; none after `close`."""
        events: list[Event] = []
        if self._pidfd < 0:
            return events
        # Asked first: what the front wrote before its end is in the socket by then, and is read
        # below. The other way round a last line could come in between and be missed.
        if not self.front_gone and self._front_ended():
            self._reap()
        while not self.ended:
            try:
                data = self._socket.recv(_MOST_AT_ONCE)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                data = b""
            found = self._follower.feed(data) if data else self._follower.finish()
            events += (entry for entry in found if isinstance(entry, Event))
            self.problems += (entry for entry in found if isinstance(entry, Problem))
            if not data:
                self.ended = True
                self._forget(self._socket.fileno())
        return events

    def send(self, command: dict[str, Any]) -> bool:
        """Send a command; False when the supervisor is gone or does not read."""
        line = json.dumps({name: value for name, value in command.items() if value is not None})
        data = line.encode("ascii") + b"\n"
        try:
            return self._socket.send(data, socket.MSG_NOSIGNAL) == len(data)
        except OSError:
            return False

    def request_stop(self, reason: str, by: str | None, grace: float | None) -> None:
        """Ask for the stop, with a grace in seconds."""
        milliseconds = None if grace is None else round(grace * 1000)
        told = self.send({"cmd": "stop", "reason": reason, "by": by, "grace_ms": milliseconds})
        if not told:  # it does not read: somebody has stopped it, or its socket is full
            self.signal_front(signal.SIGTERM, signal.SIGCONT)

    def signal_front(self, *numbers: int) -> None:
        """Signal the front; nothing when it is gone. The pidfd cannot mean a stranger."""
        for number in numbers:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._pidfd, number)

    def close(self) -> None:
        """Close everything: to the supervisor that is its owner's hang-up."""
        self.ended = True
        self._socket.close()
        pidfd, self._pidfd = self._pidfd, -1
        if pidfd >= 0:
            os.close(pidfd)

    def close_after_fork(self) -> None:
        """Close the copies in a forked child; the run is its parent's."""
        self.close()

    def _forget(self, fd: int) -> None:
        """A descriptor that would be readable for ever from now on."""

    def _front_ended(self) -> bool:
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(0))

    def _reap(self) -> None:
        self.front_gone = True
        self._forget(self._pidfd)
        try:
            found = os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOHANG)
        except OSError:
            return  # somebody's waitpid(-1), or SIGCHLD is ignored: the lines have the outcome
        if found is not None:
            ended_by_itself = found.si_code == os.CLD_EXITED
            self.front_status = found.si_status if ended_by_itself else -found.si_status


def front_pidfd(pid: int) -> int:
    """A pidfd of the front that was just started, as `pid`; OSError when there is no descriptor.

    With SIGCHLD ignored, or a stray waitpid(-1) in another thread, it can have ended and left its
    number by now: then a descriptor that is readable at once, as the pidfd of a dead one would be.
    """
    try:
        # The number may be somebody else's already; `started` names the front, and is compared.
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return os.eventfd(1)


def pair() -> tuple[socket.socket, socket.socket]:
    """The two ends of a control socket, neither of them 0, 1 or 2.

    In a program whose own stdio is closed the lowest numbers are free, and would be overwritten
    on the way to the supervisor.
    """
    with contextlib.ExitStack() as failed:
        ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        for end in ends:
            failed.callback(end.close)
        high = (_above_stdio(ends[0]), _above_stdio(ends[1]))
        failed.pop_all()
        return high


@contextlib.contextmanager
def limit_named(needed: int) -> Iterator[None]:
    """Turn "too many open files" into an error that names the limit and what a run needs."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        whose = "this process may have" if error.errno == errno.EMFILE else "the system may have"
        raise LimitReached(
            error.errno,
            f"no descriptors for another run: it takes {needed} of those that {whose} "
            f"(RLIMIT_NOFILE is {soft}, at most {hard}); nothing was started. Raise the soft limit "
            "with `ulimit -n` or resource.setrlimit, or end runs first",
        ) from error


def _above_stdio(end: socket.socket) -> socket.socket:
    if end.fileno() > 2:
        return end
    moved = socket.socket(fileno=fcntl.fcntl(end.fileno(), fcntl.F_DUPFD_CLOEXEC, 3))
    end.close()
    return moved
