"""A supervised command on a terminal of its own (a PTY), on an event loop or for threads."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import struct
import termios
import time
import tty
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, NamedTuple, Self

import anyio
from anyio import BrokenResourceError, ClosedResourceError, EndOfStream
from anyio.lowlevel import checkpoint

from lastout.handle import Process
from lastout.outcome import Outcome
from lastout.popen import Popen
from lastout.process import open_process
from lastout.reason import Reason, check_stop
from lastout.spawn import Spawned
from lastout.streams import PipeReceiveStream, PipeSendStream
from lastout.supervisor import Argument

__all__ = ["Size", "Terminal", "TerminalPopen", "open_terminal"]

_CHUNK: Final = 65536
_READ: Final = 8192
"""One read(2) of a terminal gives at most 4,095 bytes; asking for much more only costs memory."""
_TURNS: Final = 8
"""How often to look again before going to sleep: a terminal holds little, and one that is written to
fast has more in a moment. Going to sleep and waking up takes longer than that."""


class Size(NamedTuple):
    """A terminal's size in characters."""

    rows: int = 24
    columns: int = 80


_USUAL: Final = Size()


@asynccontextmanager
async def open_terminal(
    argv: Sequence[Argument],
    *,
    size: tuple[int, int] = _USUAL,
    raw: bool = False,
    **options: Any,
) -> AsyncIterator[Terminal]:
    """Run `argv` on a terminal of its own for the length of the block, as `open_process` does.

    It gets a session of its own, with this terminal as the controlling one, and 0-2 on it. `size`
    is rows and columns; `raw` switches echo and line editing off before it starts. `options` are
    `open_process`'s, but for the redirections. Raises as `open_process` does.
    """
    _only_known(options)
    with _Pair(size, raw) as pair:
        block = open_process(
            argv,
            stdin=pair.slave,
            stdout=pair.slave,
            stderr=pair.slave,
            stdin_end="ignore",  # a hang-up is told by ourselves, and no copy of ours hides it
            start_new_session=True,
            ctty=True,
            _handle=partial(Terminal, master=pair.master),
            **options,
        )
        options.clear()  # an observer among them is its owner's to drop
        async with block as process:
            pair.close()
            assert isinstance(process, Terminal)
            yield process


class Terminal(Process):
    """A run on a terminal. What it writes comes from `receive`, both of its outputs in one.

    Its output ends when the last process has closed the terminal, and no later than `wait` returns:
    what `receive` then still gives is all there is. `stdin` and `stdout` are the same as streams.
    """

    stdin: PipeSendStream
    stdout: PipeReceiveStream

    def __init__(
        self, spawned: Spawned, run: str, record: str | None, max_stop: float, *, master: int
    ) -> None:
        super().__init__(spawned, run, record, max_stop)
        self.stdout = _Output(os.dup(master), self)
        self.stdin = PipeSendStream(os.dup(master))

    async def receive(self, max_bytes: int = _CHUNK) -> bytes:
        """At least one byte and at most `max_bytes`, as they come. Raises EndOfStream at the end,
        ClosedResourceError after a hang-up by ourselves."""
        return await self.stdout.receive(max_bytes)

    async def send(self, data: bytes) -> None:
        """Type `data`. Raises BrokenResourceError when nobody has the terminal any more."""
        await self.stdin.send(data)

    @property
    def size(self) -> Size:
        """The terminal's size. Setting it tells the foreground group by SIGWINCH."""
        return _size(self._fd())

    def resize(self, rows: int, columns: int) -> None:
        """Set the size; the foreground group hears of it by SIGWINCH."""
        _resize(self._fd(), (rows, columns))

    def hang_up(self, reason: Reason = "user", *, by: str | None = None) -> None:
        """Take the terminal away, as when a window is closed; `wait` tells how it ended.

        The kernel sends SIGHUP to the root and to the foreground group. That stops nobody who
        ignores it, so the ladder follows at once.
        """
        check_stop(reason)
        self.stdin.close()
        self.stdout.close()
        self.request_stop(reason, by=by)

    async def wait(self) -> Outcome:
        """As `Process.wait`. Whoever waits in `receive` then has the end of the output."""
        outcome = await super().wait()
        if isinstance(self.stdout, _Output):
            self.stdout.wake()
        return outcome

    def _fd(self) -> int:
        self._check()
        if self.stdout.fileno() < 0:
            raise ClosedResourceError
        return self.stdout.fileno()


class _Output(PipeReceiveStream):
    """The master's side as a stream: EIO is the end."""

    def __init__(self, fd: int, process: Process) -> None:
        super().__init__(fd)
        self._process = process

    async def receive(self, max_bytes: int = _CHUNK) -> bytes:
        if max_bytes < 1:
            raise ValueError(f"max_bytes must be at least 1, not {max_bytes!r}")
        await checkpoint()
        self._begin("reading from")
        turns = _TURNS
        try:
            while True:
                over = self._process.outcome is not None  # what is not there then will not come
                data = _read_some(self._fd, max_bytes)
                if data:
                    return data
                if data is not None or over:
                    raise EndOfStream
                if turns:
                    turns -= 1
                    await checkpoint()
                    if self._fd < 0:
                        raise ClosedResourceError
                    continue
                try:
                    await anyio.wait_readable(self._fd)
                except ClosedResourceError:
                    if self._fd < 0 or not self._process.outcome:
                        raise
                if self._fd < 0:
                    raise ClosedResourceError
        finally:
            self.busy = False

    def wake(self) -> None:
        """The run is over: somebody outside it who still has the terminal is not waited for."""
        if self._fd >= 0 and self.busy:
            anyio.notify_closing(self._fd)

    def rest(self) -> Iterator[bytes]:
        self._begin("reading from")
        try:
            while data := _read_some(self._fd, _CHUNK):
                yield data
        finally:
            self.busy = False


class TerminalPopen(Popen[bytes]):
    """As `open_terminal`, for threads: `Popen` whose 0-2 are a terminal of its own.

    Leaving its block stops the run. In `options`, those of `Popen` but for the redirections.
    """

    def __init__(
        self,
        args: Sequence[Argument],
        *,
        size: tuple[int, int] = _USUAL,
        raw: bool = False,
        **options: Any,
    ) -> None:
        self._master = -1
        _only_known(options)
        with _Pair(size, raw) as pair:
            super().__init__(
                args,
                stdin=pair.slave,
                stdout=pair.slave,
                stderr=pair.slave,
                stdin_end="ignore",
                start_new_session=True,
                ctty=True,
                **options,
            )
            self._master = os.dup(pair.master)
            os.set_blocking(self._master, False)

    def read(self, max_bytes: int = _CHUNK, timeout: float | None = None) -> bytes:
        """What the run writes, at least one byte; empty at the end of its output.

        Raises TimeoutError after `timeout` seconds. The end comes when the last process has closed
        the terminal, and no later than a `wait` or `poll` that says how the run ended.
        """
        if max_bytes < 1:
            raise ValueError(f"max_bytes must be at least 1, not {max_bytes!r}")
        ends = None if timeout is None else time.monotonic() + timeout
        while True:
            over = self.returncode is not None
            data = _read_once(self._open_master(), min(max_bytes, _READ))
            if data is not None:
                return data
            if over:
                return b""
            self._await(select.POLLIN, ends)

    def write(self, data: bytes, timeout: float | None = None) -> None:
        """Type all of `data`. Raises BrokenPipeError when nobody has the terminal any more,
        TimeoutError after `timeout` seconds."""
        ends = None if timeout is None else time.monotonic() + timeout
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._open_master(), rest) :]
            except BlockingIOError:
                self._await(select.POLLOUT, ends)
            except OSError as error:
                raise BrokenPipeError(errno.EPIPE, "nobody has the terminal any more") from error

    @property
    def size(self) -> Size:
        """The terminal's size."""
        return _size(self._open_master())

    def resize(self, rows: int, columns: int) -> None:
        """Set the size; the foreground group hears of it by SIGWINCH."""
        _resize(self._open_master(), (rows, columns))

    def hang_up(self) -> None:
        """Take the terminal away, as when a window is closed, and begin the stop."""
        self._close_master()
        if self.poll() is None:
            self.terminate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            if self.poll() is None:
                self.terminate()
                self._drain_until_over()
            self.wait()
        finally:
            self._close_master()

    def _drain_until_over(self) -> None:
        """A root that is cleaning up may write more than the kernel holds."""
        with contextlib.suppress(OSError):
            while self._master >= 0 and self.read():
                pass

    def _await(self, event: int, ends: float | None) -> None:
        """Sleep until the terminal is ready, or a line of the run has come."""
        left = None if ends is None else ends - time.monotonic()
        if left is not None and left <= 0:
            raise TimeoutError("the terminal was not ready in time")
        told = True
        with self._waitpid_lock:
            self._waiters += 1  # while there are any the descriptors stay open
        try:
            if self.returncode is None and self._link is not None:
                told = self._link.wait_blocking(left, (self._open_master(), event))
        finally:
            with self._waitpid_lock:
                if told:
                    self._look()
                self._waiters -= 1
                self._close_when_over()

    def _open_master(self) -> int:
        if self._master < 0:
            raise ValueError("the terminal has been hung up")
        return self._master

    def _close_master(self) -> None:
        master, self._master = self._master, -1
        if master >= 0:
            os.close(master)

    def _after_fork(self) -> None:
        self._close_master()
        super()._after_fork()

    def __del__(self) -> None:
        self._close_master()
        super().__del__()


def _only_known(options: dict[str, Any]) -> None:
    ours = {"stdin", "stdout", "stderr", "stdin_end", "start_new_session", "ctty", "_handle"}
    if wrong := sorted(ours & options.keys()):
        raise TypeError(f"on a terminal of its own a run has no {', '.join(wrong)}")


class _Pair:
    """A new terminal. Handles take copies of its master; both ends here are closed at the end."""

    def __init__(self, size: tuple[int, int], raw: bool) -> None:
        self.master, self.slave = os.openpty()
        try:
            _resize(self.slave, size)
            if raw:
                tty.setraw(self.slave)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close what is still open: the command has its own."""
        ends, self.master, self.slave = (self.master, self.slave), -1, -1
        for fd in ends:
            if fd >= 0:
                os.close(fd)


def _read_once(fd: int, max_bytes: int) -> bytes | None:
    """As `_read_some` with one read(2): a thread that asks again loses nothing by it."""
    try:
        return os.read(fd, max_bytes)
    except BlockingIOError:
        return None
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return b""


def _read_some(fd: int, max_bytes: int) -> bytes | None:
    """What is there now; None when that is nothing, empty at the end."""
    chunks: list[bytes] = []
    left = max_bytes
    try:
        while left and (data := os.read(fd, min(left, _READ))):
            chunks.append(data)
            left -= len(data)
    except BlockingIOError:
        return b"".join(chunks) if chunks else None
    except OSError as error:
        if error.errno != errno.EIO:
            raise BrokenResourceError from error
    return b"".join(chunks)


def _size(fd: int) -> Size:
    rows, columns, _, _ = struct.unpack("4H", fcntl.ioctl(fd, termios.TIOCGWINSZ, bytes(8)))
    return Size(rows, columns)


def _resize(fd: int, size: tuple[int, int]) -> None:
    rows, columns = size
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))
