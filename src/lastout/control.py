"""The owner's end of the control socket on an event loop: asyncio's or trio's.

One descriptor to wait on stands for both the socket and the front's end (an epoll of the two), so
that one wait, without a thread and without polling, hears whichever comes first.
"""

from __future__ import annotations

import select
import socket

import anyio

from lastout.link import Link

__all__ = ["Control"]


class Control(Link):
    """A link that a task can wait on. Owns one descriptor more, the epoll."""

    def __init__(self, sock: socket.socket, pidfd: int) -> None:
        super().__init__(sock, pidfd)
        self._epoll = select.epoll()
        self._epoll.register(sock.fileno(), select.EPOLLIN)
        self._epoll.register(pidfd, select.EPOLLIN)

    async def wait(self) -> None:
        """Wait until `read` has something new. Only one task at a time."""
        if not (self.ended and self.front_gone):
            await anyio.wait_readable(self._epoll.fileno())

    def close(self) -> None:
        """Close everything: to the supervisor that is its owner's hang-up."""
        if not self._epoll.closed:
            anyio.notify_closing(self._epoll.fileno())
        self.close_after_fork()

    def close_after_fork(self) -> None:
        """Close the copies in a forked child. The epoll is shared with the parent: left as it
        is."""
        self._epoll.close()
        super().close()

    def _forget(self, fd: int) -> None:
        self._epoll.unregister(fd)
