"""An instance of tracefs that is ours alone: made, filtered, read, and taken away again.

The kernel has one set of trace buffers for everybody, and any number of instances beside it; what
we do in ours is seen by nobody. Where tracefs is not mounted it is mounted in a mount namespace of
our own, so that the machine stays as it was. An instance outlives its maker: a guard process
removes it when we are killed, and whoever traces next removes what even the guard could not.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import signal
from collections.abc import Iterable, Iterator

from lastout.evidence.trace import TracingUnavailable
from lastout.evidence.trace.formats import Format, parse_format
from lastout.evidence.trace.ringbuffer import Record, parse_page
from lastout.proctable import read_stat

__all__ = ["Instance", "Tracefs", "guard", "sweep"]

_PLACES = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
_PREFIX = "lastout."
_NEWNS, _REC, _PRIVATE = 0x20000, 0x4000, 0x40000
_INITIAL_PIDNS = 0xEFFFFFFC
_PAGE = 1 << 16


class Tracefs:
    """The mounted file system. Raises TracingUnavailable."""

    def __init__(self) -> None:
        if os.stat("/proc/self/ns/pid").st_ino != _INITIAL_PIDNS:
            raise TracingUnavailable(
                "the kernel traces in pids of the initial pid namespace, and this is another"
            )
        self.root = _mounted() or _mount()

    def format(self, system: str, event: str) -> Format:
        """The format of an event. Raises TracingUnavailable where the kernel does not have it."""
        try:
            with open(f"{self.root}/events/{system}/{event}/format", encoding="ascii") as file:
                return parse_format(file.read(), event)
        except (OSError, ValueError) as error:
            raise TracingUnavailable(f"no trace point {system}:{event}: {error}") from error

    def saved_name(self, task: int) -> str:
        """A task's name, as the kernel saved it when it wrote an event of it; "" when it did not.

        Thousands of lines are made for one: ask only for what goes into a record.
        """
        start = f"{task} "
        with contextlib.suppress(OSError):
            with open(f"{self.root}/saved_cmdlines", encoding="utf-8", errors="replace") as file:
                for line in file:
                    if line.startswith(start):
                        return line[len(start) :].rstrip("\n")
        return ""


class Instance:
    """One instance with its own buffers. `close` removes it."""

    def __init__(self, fs: Tracefs, label: str, *, kilobytes: int, wake_percent: int) -> None:
        """Makes it, empty and off. Raises TracingUnavailable."""
        self.name = f"{_PREFIX}{os.getpid()}.{read_stat('self').start}.{label}"
        self.path = f"{fs.root}/instances/{self.name}"
        self._fds: list[int] = []
        try:
            os.mkdir(self.path)
        except OSError as error:
            raise TracingUnavailable(f"no trace instance: {error}") from error
        try:
            self.write("tracing_on", "0")
            self.write("trace_clock", "boot")
            self.write("buffer_size_kb", str(kilobytes))
            with contextlib.suppress(OSError):
                self.write("buffer_percent", str(wake_percent))
        except OSError as error:
            self.close()
            raise TracingUnavailable(f"the trace instance cannot be set up: {error}") from error

    def write(self, name: str, value: str, *, append: bool = False) -> None:
        """Write to one of its files. Raises OSError."""
        flags = os.O_WRONLY | os.O_CLOEXEC | (os.O_APPEND if append else os.O_TRUNC)
        fd = os.open(f"{self.path}/{name}", flags)
        try:
            os.write(fd, value.encode())
        finally:
            os.close(fd)

    def enable(self, system: str, event: str, condition: str = "") -> None:
        """Switch an event on, with the kernel's own filter. Raises TracingUnavailable."""
        try:
            if condition:
                self.write(f"events/{system}/{event}/filter", condition)
            self.write(f"events/{system}/{event}/enable", "1")
        except OSError as error:
            raise TracingUnavailable(f"{system}:{event} cannot be traced: {error}") from error

    def follow(self, pids: Iterable[int]) -> None:
        """Trace these tasks too, and all that they fork from now on. One that ended is skipped."""
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                self.write("set_event_pid", str(pid), append=True)

    def start(self) -> list[int]:
        """Open the buffers and go; the descriptors to wait on. Raises OSError."""
        for cpu in sorted(os.listdir(f"{self.path}/per_cpu")):
            fd = os.open(
                f"{self.path}/per_cpu/{cpu}/trace_pipe_raw",
                os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC,
            )
            self._fds.append(fd)
        self.write("tracing_on", "1")
        return list(self._fds)

    def read(self) -> Iterator[Record]:
        """What is in the buffers now, by time within each processor only."""
        for fd in self._fds:
            while True:
                try:
                    page = os.read(fd, _PAGE)
                except BlockingIOError:
                    break
                if not page:
                    break
                yield from parse_page(page)

    def lost(self) -> int:
        """How many events the kernel says that it has lost."""
        total = 0
        for cpu in os.listdir(f"{self.path}/per_cpu"):
            with open(f"{self.path}/per_cpu/{cpu}/stats", encoding="ascii") as file:
                for line in file:
                    name, _, value = line.partition(":")
                    if name in ("overrun", "commit overrun", "dropped events"):
                        total += int(value)
        return total

    def close(self) -> None:
        """Switch it off and remove it."""
        with contextlib.suppress(OSError):
            self.write("tracing_on", "0")
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()
        with contextlib.suppress(OSError):
            os.rmdir(self.path)


def sweep(fs: Tracefs) -> int:
    """Remove the instances of tracers that are gone; how many there were."""
    removed = 0
    instances = f"{fs.root}/instances"
    for name in os.listdir(instances):
        parts = name.removeprefix(_PREFIX).split(".")
        if not name.startswith(_PREFIX) or len(parts) < 3 or not parts[0].isdigit():
            continue
        try:
            alive = str(read_stat(int(parts[0])).start) == parts[1]
        except OSError:
            alive = False
        if not alive:
            with contextlib.suppress(OSError):
                os.rmdir(f"{instances}/{name}")
                removed += 1
    return removed


def guard(fs: Tracefs) -> None:
    """Fork a process that outlives us just long enough to remove our instances.

    It waits for the end of a pipe that only we hold. Killed together with us, the next `sweep` does
    its work.
    """
    prefix = f"{_PREFIX}{os.getpid()}.{read_stat('self').start}."
    ours, theirs = os.pipe2(os.O_CLOEXEC)
    if os.fork():
        os.close(ours)  # `theirs` stays open for as long as we live
        return
    try:
        os.close(theirs)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        os.read(ours, 1)
        for _ in range(250):
            left = [name for name in os.listdir(f"{fs.root}/instances") if name.startswith(prefix)]
            for name in left:
                with contextlib.suppress(OSError):
                    os.rmdir(f"{fs.root}/instances/{name}")
            if not left:
                break
            # EBUSY: the kernel has not closed the dead tracer's descriptors yet.
            select.select([], [], [], 0.02)
    finally:
        os._exit(0)


def _mounted() -> str:
    return next((place for place in _PLACES if os.path.isdir(f"{place}/instances")), "")


def _mount() -> str:
    libc = ctypes.CDLL(None, use_errno=True)

    def call(what: str, result: int) -> None:
        if result != 0:
            code = ctypes.get_errno()
            reason = errno.errorcode.get(code, str(code))
            raise TracingUnavailable(f"tracefs is not mounted, and {what} failed: {reason}")

    call("a mount namespace of our own", libc.unshare(_NEWNS))
    call("making it private", libc.mount(None, b"/", None, _REC | _PRIVATE, None))
    place = _PLACES[0].encode()
    call("mounting it", libc.mount(b"lastout", place, b"tracefs", 0, None))
    return _PLACES[0]
