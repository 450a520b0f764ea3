"""Waiting for a job: inotify on its directory, pidfds of whoever has to do with it. No polling."""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Iterable
from typing import Self

from lastout.evidence.watch import Watch
from lastout.identity import IdentityUnknown, open_pidfd
from lastout.jobs.result import Process

__all__ = ["Waiting"]

_LONGEST = 86400.0
"""Seconds of one sleep: what is longer, or has no end, is slept in several."""


class Waiting:
    """Wakes up when something in these directories changes, or one of these processes ends."""

    def __init__(self, *directories: str) -> None:
        self._watch = Watch()
        self._epoll = select.epoll()
        self._pidfds: dict[Process, int] = {}
        self.gone: set[Process] = set()
        """Of those that were to be watched, who has ended."""
        for directory in directories:
            with contextlib.suppress(FileNotFoundError):
                self._watch.add(directory)
        if self._watch.descriptor >= 0:
            self._epoll.register(self._watch.descriptor, select.EPOLLIN)

    def fileno(self) -> int:
        """Readable when it is time to look."""
        return self._epoll.fileno()

    def watch(self, processes: Iterable[Process | None]) -> None:
        """From now on watch these, and no others. Look at the state after this, then wait."""
        wanted = {one for one in processes if one is not None}
        for one in set(self._pidfds) - wanted:
            self._forget(one)
        self.gone &= wanted
        for one in wanted - set(self._pidfds) - self.gone:
            try:
                fd = open_pidfd(one.identity)
            except ProcessLookupError:
                self.gone.add(one)
            except (IdentityUnknown, OSError):
                continue  # nobody can say from here: inotify is what remains
            else:
                self._pidfds[one] = fd
                self._epoll.register(fd, select.EPOLLIN)

    def wait_blocking(self, seconds: float | None) -> None:
        """Wait for news, at most so long."""
        self._epoll.poll(-1 if seconds is None else min(max(0.0, seconds), _LONGEST))
        self._look()

    async def wait(self) -> None:
        """Wait for news, on asyncio's or trio's loop."""
        import anyio

        await anyio.wait_readable(self._epoll.fileno())
        self._look()

    def close(self) -> None:
        """Watch nothing any more."""
        for one in list(self._pidfds):
            self._forget(one)
        self._watch.close()
        self._epoll.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _look(self) -> None:
        self._watch.changed()
        for one, fd in list(self._pidfds.items()):
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            if poll.poll(0):
                self.gone.add(one)
                self._forget(one)

    def _forget(self, one: Process) -> None:
        fd = self._pidfds.pop(one)
        with contextlib.suppress(OSError):
            self._epoll.unregister(fd)
        os.close(fd)
