"""The owner's end of the control socket: the supervisor's lines in, commands out.

One descriptor to wait on stands for both the socket and the front's end (an epoll of the two), so
that one wait, without a thread and without polling, hears whichever comes first.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
from typing import Any

import anyio

from lastout.evidence.events import Event
from lastout.evidence.journal import Follower, Problem

__all__ = ["Control"]

_MOST_AT_ONCE = 1 << 16


class Control:
    """A front, by its pidfd, and the socket to it. Owns both descriptors."""

    def __init__(self, sock: socket.socket, pidfd: int) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._pidfd = pidfd
        self._epoll = select.epoll()
        self._epoll.register(sock.fileno(), select.EPOLLIN)
        self._epoll.register(pidfd, select.EPOLLIN)
        self._follower = Follower()
        self.ended = False
        """The supervisors have closed the socket: no more lines will come."""
        self.front_gone = False
        self.front_status: int | None = None
        """The front's exit code, or minus its signal, where nobody has taken it away."""
        self.problems: list[Problem] = []

    async def wait(self) -> None:
        """Wait until `read` has something new. Only one task at a time."""
        if not (self.ended and self.front_gone):
            await anyio.wait_readable(self._epoll.fileno())

    def read(self) -> list[Event]:
        """The events that have come, without waiting."""
        events: list[Event] = []
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
                self._epoll.unregister(self._socket.fileno())
        return events

    def send(self, command: dict[str, Any]) -> bool:
        """Send a command; False when the supervisor is gone or does not read."""
        line = json.dumps({name: value for name, value in command.items() if value is not None})
        data = line.encode("ascii") + b"\n"
        try:
            return self._socket.send(data, socket.MSG_NOSIGNAL) == len(data)
        except OSError:
            return False

    def signal_front(self, *numbers: int) -> None:
        """Signal the front; nothing when it is gone. The pidfd cannot mean a stranger."""
        for number in numbers:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._pidfd, number)

    def close(self) -> None:
        """Close everything: to the supervisor that is its owner's hang-up."""
        anyio.notify_closing(self._epoll.fileno())
        self.close_after_fork()

    def close_after_fork(self) -> None:
        """Close the copies in a forked child. The epoll is shared with the parent: left as it
        is."""
        self._epoll.close()
        self._socket.close()
        pidfd, self._pidfd = self._pidfd, -1
        if pidfd >= 0:
            os.close(pidfd)

    def _front_ended(self) -> bool:
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(0))

    def _reap(self) -> None:
        self.front_gone = True
        self._epoll.unregister(self._pidfd)
        try:
            found = os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOHANG)
        except ChildProcessError:
            return  # somebody's waitpid(-1), or SIGCHLD is ignored: the lines have the outcome
        if found is not None:
            ended_by_itself = found.si_code == os.CLD_EXITED
            self.front_status = found.si_status if ended_by_itself else -found.si_status
