"""The test's side of a test program: its connection, its identity, what it said."""

from __future__ import annotations

import os
import signal
import socket

from harness.hub import BOUND_SECONDS, Hub
from harness.identity import Identity, read_stat, take
from harness.pauses import stillness

_SO_PEERPIDFD = 77


class Member:
    """A process that connected, or that another one named. Death is its pidfd's word."""

    def __init__(self, hub: Hub, connection: socket.socket | None = None) -> None:
        self.role = ""
        self.identity = Identity(0, 0)
        self.notes: list[str] = []
        self.gone = False
        self.hung_up = connection is None
        self.child: Identity | None = None
        self.child_status: int | None = None
        self._hub = hub
        self._pidfd = -1
        self._connection = connection
        self._rest = b""
        self.named: list[tuple[int, int, str]] = []
        if connection is not None:
            self._peer(connection)
            hub.add(connection.fileno(), self._read)

    def _peer(self, connection: socket.socket) -> None:
        # Taken from the connection, so it is this process even if it has ended meanwhile.
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        pid = int.from_bytes(credentials[:4], "little")
        try:
            fd = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
        except ProcessLookupError:
            self.gone = True
        except OSError:
            fd = os.pidfd_open(pid)
        if not self.gone:
            self._watch(fd)
        self.identity = Identity(pid, 0)

    def adopt_name(self, pid: int, start: int, role: str) -> None:
        """For a process that another one named: pinned, then compared."""
        self.role, self.identity = role, Identity(pid, start)
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            self.gone = True
            return
        if not self.identity.exists():
            os.close(fd)
            self.gone = True
            return
        self._watch(fd)

    def _watch(self, fd: int) -> None:
        self._pidfd = fd
        self._hub.add(fd, self._died)

    def _died(self) -> None:
        self.gone = True
        self._hub.remove(self._pidfd)
        os.close(self._pidfd)
        self._pidfd = -1

    def _read(self) -> None:
        assert self._connection is not None
        try:
            data = self._connection.recv(65536)
        except ConnectionResetError:
            data = b""
        if not data:
            self.hung_up = True
            self._hub.remove(self._connection.fileno())
            self._connection.close()
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._hear(line.decode(errors="replace"))

    def _hear(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "hello":
            start, _, self.role = rest.partition(" ")
            self.identity = Identity(self.identity.pid, int(start))
        elif word == "note":
            self.notes.append(rest)
        elif word == "other":
            pid, start, role = rest.split(" ", 2)
            self.named.append((int(pid), int(start), role))
        elif word == "child":
            self.child = Identity(*map(int, rest.split()))
        elif word == "ended":
            self.child_status = int(rest.split()[1])

    @property
    def pid(self) -> int:
        return self.identity.pid

    def tell(self, text: str) -> None:
        """One line to the program, as its head describes."""
        assert self._connection is not None
        self._connection.sendall(text.encode() + b"\n")

    def alive(self) -> bool:
        """An echo proves life: the program itself must answer."""
        if self.gone or self.hung_up:
            return False
        before = self.notes.count("pong")
        self.tell("ping")
        self._hub.until(
            lambda: self.gone or self.hung_up or self.notes.count("pong") > before,
            f"{self} answers",
        )
        return self.notes.count("pong") > before

    def signal(self, number: signal.Signals) -> None:
        """Through the pidfd: nobody else can be hit."""
        if number in (signal.SIGSTOP, signal.SIGCONT):
            stillness.ask()  # from here to the end of the test it is the test that does that
        signal.pidfd_send_signal(self._pidfd, number)

    def wait_gone(self, bound: float = BOUND_SECONDS) -> None:
        self._hub.until(lambda: self.gone, f"{self} gone", bound)

    def wait_note(self, text: str, bound: float = BOUND_SECONDS) -> None:
        self._hub.until(lambda: text in self.notes, f"{self} notes {text!r}", bound)

    def dismiss(self) -> None:
        """Hangs up, and sees the program end because of it."""
        if not self.hung_up and self._connection is not None:
            self._connection.shutdown(socket.SHUT_RDWR)
        self.wait_gone()

    def wait_state(self, state: str) -> None:
        self._hub.look(lambda: self.state() == state, f"{self} in state {state}")

    def arrivals(self, number: signal.Signals) -> int:
        """How often a program that notes signals has seen this one."""
        return sum(note.startswith(f"signal {int(number)} ") for note in self.notes)

    def state(self) -> str:
        stat = read_stat(self.pid)
        return stat.state if stat is not None and stat.start == self.identity.start else "gone"

    def close(self) -> None:
        """Ends the connection: a program that reads it ends by itself."""
        if not self.hung_up and self._connection is not None:
            self._hub.remove(self._connection.fileno())
            self._connection.close()
            self.hung_up = True
        if self._pidfd >= 0:
            self._hub.remove(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def __str__(self) -> str:
        state = "gone" if self.gone else self.state()
        return f"{self.role} (pid {self.pid}, {state}, {self.notes})"


class Process(Member):
    """A process without a connection: front, keeper, root, or any other by its identity."""

    def __init__(self, hub: Hub, pid: int, start: int, role: str) -> None:
        super().__init__(hub)
        self.adopt_name(pid, start, role)

    @classmethod
    def of(cls, hub: Hub, pid: int, role: str) -> Process:
        identity = take(pid)
        return cls(hub, identity.pid, identity.start, role)
