"""One supervised run under test: its descriptors, its record, its processes, its end."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.hub import BOUND_SECONDS, Hub
from harness.member import Member, Process
from harness.record import Event, Lines, RecordFile, matches

# ASan's word on the stack that the root is cloned on.
_REMARK = re.compile(r"==\d+==WARNING: ASan is ignoring.*?issues/189\n", re.DOTALL)


@dataclass(frozen=True)
class Ended:
    """How the front ended: the raw wait status, read as waitid(2) would."""

    raw: int

    @property
    def code(self) -> int | None:
        return os.WEXITSTATUS(self.raw) if os.WIFEXITED(self.raw) else None

    @property
    def signal(self) -> int | None:
        return os.WTERMSIG(self.raw) if os.WIFSIGNALED(self.raw) else None

    def __repr__(self) -> str:
        return f"code {self.code}" if self.signal is None else f"signal {self.signal}"


class Run:
    """Made by Scene.run; every wait is on events and bounded."""

    def __init__(
        self,
        hub: Hub,
        popen: subprocess.Popen[bytes],
        *,
        owner: Member | None,
        record: RecordFile | None,
        control: socket.socket | None,
        stdin: int | None,
        output: Path,
        errors: Path,
        strangers: Callable[[], list[str]],
    ) -> None:
        self.hub, self.owner, self.record, self.stdin = hub, owner, record, stdin
        self.output, self.errors = output, errors
        self.control = Lines()
        self.hung_up = False
        self._socket = control
        self._popen = popen
        self._strangers = strangers
        self._named: dict[str, Process] = {}
        self._ended: Ended | None = None
        if control is not None:
            control.setblocking(False)
            hub.add(control.fileno(), self._read_control)
        if owner is None:
            self.process = Process.of(hub, popen.pid, "front")
        else:
            hub.until(lambda: owner.child is not None or owner.gone, "the owner's child")
            assert owner.child is not None
            self.process = Process(hub, owner.child.pid, owner.child.start, "front")

    # ---- what it says -------------------------------------------------------------------------

    @property
    def events(self) -> list[Event]:
        if self.record is None:
            return self.control.events
        self.record.refresh()
        return self.record.events

    def event(self, name: str, bound: float = BOUND_SECONDS, **fields: Any) -> Event:
        """The first line with this name and these fields, waited for."""
        self.hub.until(lambda: self.all(name, **fields), f"{name} {fields}", bound)
        return self.all(name, **fields)[0]

    def all(self, name: str, **fields: Any) -> list[Event]:
        return [event for event in self.events if matches(event, name, fields)]

    def answer(self, name: str, bound: float = BOUND_SECONDS, **fields: Any) -> Event:
        """As `event`, on the control socket."""

        def found() -> list[Event]:
            return [event for event in self.control.events if matches(event, name, fields)]

        self.hub.until(found, f"{name} {fields} on the control socket", bound)
        return found()[0]

    @property
    def started(self) -> Event:
        return self.event("started")

    def named(self, which: str) -> Process:
        """`front`, `keeper` or `root`, as the record's `started` names them."""
        if which not in self._named:
            identity = self.started[which]
            self._named[which] = Process(self.hub, identity["pid"], identity["start"], which)
        return self._named[which]

    @property
    def front(self) -> Process:
        return self.named("front")

    @property
    def keeper(self) -> Process:
        return self.named("keeper")

    @property
    def root(self) -> Process:
        return self.named("root")

    def error_text(self) -> str:
        """What the supervisor and the root wrote to stderr, without a sanitizer's remark on itself."""
        return _REMARK.sub("", self.errors.read_text(errors="replace"))

    def output_text(self) -> str:
        return self.output.read_text(errors="replace")

    # ---- what is done to it -------------------------------------------------------------------

    def signal(self, number: signal.Signals) -> None:
        self.process.signal(number)

    def close_stdin(self) -> None:
        assert self.stdin is not None
        os.close(self.stdin)
        self.stdin = None

    def command(self, **fields: Any) -> None:
        self.send(json.dumps(fields).encode() + b"\n")

    def send(self, data: bytes) -> None:
        assert self._socket is not None
        self._socket.setblocking(True)
        self._socket.sendall(data)
        self._socket.setblocking(False)

    def all_sent(self) -> bool:
        """Whether the supervisor has read every byte of what was sent (SIOCOUTQ, unix(7))."""
        assert self._socket is not None
        left = fcntl.ioctl(self._socket, termios.TIOCOUTQ, bytes(4))
        return int.from_bytes(left, sys.byteorder) == 0

    def stop_reading(self) -> None:
        """A control peer that stays connected and never reads again."""
        assert self._socket is not None
        self.hub.remove(self._socket.fileno())

    def hang_up(self) -> None:
        assert self._socket is not None
        if not self.hung_up:
            try:
                self.hub.remove(self._socket.fileno())
            except KeyError:
                pass  # a peer that stopped reading before
        self._socket.close()
        self._socket = None

    def _read_control(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(1 << 20)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        if not data:
            self.hung_up = True
            self.hub.remove(self._socket.fileno())
            return
        self.control.feed(data)

    # ---- its end ------------------------------------------------------------------------------

    def wait(self, bound: float = BOUND_SECONDS, *, written: bool = True) -> Ended:
        """The front's end and status; whoever is its parent now has it.

        Unless not `written`, its record is complete then: a front does not wait for long until a
        busy disk has its last line.
        """
        if self._ended is None:
            self.process.wait_gone(bound)
            self._ended = Ended(self._status())
            self.refresh_control()
        if written:
            self.hub.look(lambda: not any(map(_is_scribe, self._strangers())), "all is written")
        return self._ended

    def refresh_control(self) -> None:
        if self._socket is not None and not self.hung_up:
            self.hub.round(0)

    def _status(self) -> int:
        owner = self.owner
        if owner is None:
            _, raw = os.waitpid(self.process.pid, 0)
            self._popen.returncode = raw
            return raw
        self.hub.until(lambda: owner.gone or owner.child_status is not None, "the owner's wait")
        if owner.child_status is not None:
            return owner.child_status
        # Its parent has gone, so it is ours: the test process is a subreaper.
        return os.waitpid(self.process.pid, 0)[1]

    def ends(
        self, *, code: int | None = None, signal: int | None = None, bound: float = BOUND_SECONDS
    ) -> Ended:
        """The front ends with this status, and at that moment nobody of the tree is left."""
        ended = self.wait(bound, written=False)
        left = [one for one in self._strangers() if not _is_scribe(one)]
        assert left == [], f"left behind by the front\n{self.hub.explain()}"
        self.wait()
        assert (ended.code, ended.signal) == (code, signal), f"{ended}\n{self.hub.explain()}"
        return ended

    def nobody_left(self) -> None:
        """Nobody but what the test itself keeps is alive below it."""
        assert self._strangers() == [], self.hub.explain()

    def close(self) -> None:
        if self.stdin is not None:
            self.close_stdin()
        if self._socket is not None:
            self.hang_up()
        if self.record is not None:
            self.record.close()
        for process in (self.process, *self._named.values()):
            process.close()
        if self._popen.returncode is None:
            # The sweep after the test reaps it; nothing else may wait for it.
            self._popen.returncode = -1

    def __str__(self) -> str:
        lines = [json.dumps(event) for event in self.events]
        return "\n".join(
            ["record:", *lines, "stderr:", self.error_text() if self.errors.exists() else "-"]
        )


def _is_scribe(stranger: str) -> bool:
    return " lastout-scribe: " in stranger


def between_ms(earlier: Event, later: Event) -> float:
    """Milliseconds on CLOCK_BOOTTIME between two lines."""
    return (later["boottime_ns"] - earlier["boottime_ns"]) / 1e6
