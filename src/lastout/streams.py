"""The pipes of a process as anyio byte streams: non-blocking, bounded memory, no thread.

Nothing is read ahead: what nobody asks for stays in the kernel's pipe, and the writer waits.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator

import anyio
from anyio import (
    BrokenResourceError,
    BusyResourceError,
    ClosedResourceError,
    EndOfStream,
)
from anyio.abc import ByteReceiveStream, ByteSendStream
from anyio.lowlevel import checkpoint

__all__ = ["PipeReceiveStream", "PipeSendStream"]


class _Pipe:
    """Our end of a pipe. `busy` is true while a task uses it."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)  # our end's own file description: the child's end stays as it is
        self._fd = fd
        self.busy = False

    def fileno(self) -> int:
        """The descriptor, or -1 when the stream is closed."""
        return self._fd

    async def aclose(self) -> None:
        """Close our end. A task that is using it gets ClosedResourceError."""
        self.close()
        await checkpoint()

    def close(self) -> None:
        """`aclose` without the checkpoint."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            anyio.notify_closing(fd)
            os.close(fd)

    def close_after_fork(self) -> None:
        """Close the copy that a forked child got; the event loop there is not ours to talk to."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _begin(self, action: str) -> None:
        if self._fd < 0:
            raise ClosedResourceError
        if self.busy:
            raise BusyResourceError(action)
        self.busy = True


class PipeReceiveStream(_Pipe, ByteReceiveStream):
    """The process's stdout or stderr."""

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """At most `max_bytes` bytes, at least one.

        Raises EndOfStream when every writer has closed it, ClosedResourceError when we have.
        """
        if max_bytes < 1:
            raise ValueError(f"max_bytes must be at least 1, not {max_bytes!r}")
        # The checkpoint comes first: a cancellation after the read would lose what was read.
        await checkpoint()
        self._begin("reading from")
        try:
            while True:
                try:
                    data = os.read(self._fd, max_bytes)
                except BlockingIOError:
                    await anyio.wait_readable(self._fd)
                    if self._fd < 0:
                        raise ClosedResourceError from None
                except OSError as error:
                    raise BrokenResourceError from error
                else:
                    if not data:
                        raise EndOfStream
                    return data
        finally:
            self.busy = False

    def rest(self) -> Iterator[bytes]:
        """What is in the pipe now, without waiting: at most what a pipe can hold."""
        self._begin("reading from")
        try:
            left = fcntl.fcntl(self._fd, fcntl.F_GETPIPE_SZ)
            while left > 0 and (data := os.read(self._fd, left)):
                left -= len(data)
                yield data
        except BlockingIOError:
            pass
        finally:
            self.busy = False


class PipeSendStream(_Pipe, ByteSendStream):
    """The process's stdin."""

    async def send(self, item: bytes | bytearray | memoryview) -> None:
        """Write all of `item`. Cancelled in the middle, a part of it may have been written.

        Raises BrokenResourceError when nobody can read it any more, ClosedResourceError when we
        have closed it.
        """
        await checkpoint()
        self._begin("writing to")
        try:
            rest = memoryview(item).cast("B")
            while rest:
                try:
                    written = os.write(self._fd, rest)
                except BlockingIOError:
                    await anyio.wait_writable(self._fd)
                    if self._fd < 0:
                        raise ClosedResourceError from None
                except OSError as error:
                    raise BrokenResourceError from error
                else:
                    rest = rest[written:]
        finally:
            self.busy = False
