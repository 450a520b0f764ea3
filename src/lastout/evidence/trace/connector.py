"""The kernel's process connector: how every process ended, whoever's child it was.

Netlink, CN_IDX_PROC (linux/cn_proc.h). It names no sender of a signal. The kernel filters by kind
since Linux 6.6, which is also when it began to admit users; before, it is root's, and unfiltered.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass

from lastout.evidence.trace import TracingUnavailable

__all__ = ["Connector", "Ended", "Executed", "Forked", "parse"]

_NETLINK_CONNECTOR, _CN_IDX_PROC, _CN_VAL_PROC = 11, 1, 1
_LISTEN = 1
FORK, EXEC, EXIT, NONZERO_EXIT = 0x1, 0x2, 0x80000000, 0x20000000
_NLMSG, _CN_MSG = struct.Struct("=IHHII"), struct.Struct("=IIIIHH")
_EVENT = struct.Struct("=IIQ")
_RECEIVE_BUFFER = 8 << 20


@dataclass(frozen=True, slots=True)
class Forked:
    """A task was forked; a thread where `child` and `child_process` differ."""

    at_ns: int
    parent: int
    parent_process: int
    child: int
    child_process: int


@dataclass(frozen=True, slots=True)
class Executed:
    """A process executed a program."""

    at_ns: int
    process: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A task ended; `status` is the raw wait status."""

    at_ns: int
    task: int
    process: int
    status: int
    parent: int


class Connector:
    """A subscription. `fileno` is for select. Raises TracingUnavailable."""

    def __init__(self, kinds: int) -> None:
        self.lost = 0
        try:
            self._socket = socket.socket(
                socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, _NETLINK_CONNECTOR
            )
        except OSError as error:
            raise TracingUnavailable(f"no process connector: {error}") from error
        try:
            self._socket.setblocking(False)
            self._enlarge()
            self._socket.bind((0, _CN_IDX_PROC))
            self._listen(kinds)
        except OSError as error:
            self._socket.close()
            raise TracingUnavailable(f"the process connector does not admit us: {error}") from error

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._socket.fileno()

    def read(self) -> Iterator[Forked | Executed | Ended]:
        """What has come, in CLOCK_BOOTTIME. Gaps are counted in `lost`."""
        # Its own times are CLOCK_MONOTONIC, which stands still while the machine sleeps.
        offset = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
        while True:
            try:
                data = self._socket.recv(1 << 16)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                self.lost += 1
                continue
            yield from parse(data, offset)

    def close(self) -> None:
        """End the subscription."""
        self._socket.close()

    def _enlarge(self) -> None:
        force = getattr(socket, "SO_RCVBUFFORCE", 33)
        for option in (force, socket.SO_RCVBUF):
            with contextlib.suppress(OSError):
                self._socket.setsockopt(socket.SOL_SOCKET, option, _RECEIVE_BUFFER)
                return

    def _listen(self, kinds: int) -> None:
        try:
            self._ask(struct.pack("=II", _LISTEN, kinds))
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            self._ask(struct.pack("=I", _LISTEN))  # before 6.6: everything

    def _ask(self, data: bytes) -> None:
        message = _CN_MSG.pack(_CN_IDX_PROC, _CN_VAL_PROC, 0, 0, len(data), 0) + data
        header = _NLMSG.pack(_NLMSG.size + len(message), 3, 0, 0, os.getpid())
        self._socket.sendto(header + message, (0, 0))


def parse(data: bytes, offset_ns: int = 0) -> Iterator[Forked | Executed | Ended]:
    """The events in what one `recv` gave; what is cut off or of another kind is passed over."""
    place = 0
    while place + _NLMSG.size <= len(data):
        (length, *_) = _NLMSG.unpack_from(data, place)
        body = data[place + _NLMSG.size + _CN_MSG.size : place + length]
        place += max((length + 3) & ~3, _NLMSG.size)
        if len(body) < _EVENT.size:
            continue
        what, _, at = _EVENT.unpack_from(body)
        rest = body[_EVENT.size :]
        at += offset_ns
        if what == FORK and len(rest) >= 16:
            yield Forked(at, *struct.unpack_from("=IIII", rest))
        elif what == EXEC and len(rest) >= 8:
            yield Executed(at, struct.unpack_from("=II", rest)[1])
        elif what in (EXIT, NONZERO_EXIT) and len(rest) >= 16:
            task, process, status, _ = struct.unpack_from("=IIII", rest)
            parent = struct.unpack_from("=II", rest, 16)[1] if len(rest) >= 24 else 0
            yield Ended(at, task, process, status, parent)
