"""One cell of the table: one wrapper, one scenario, and who is alive afterwards.

Nobody is asked whether a pid exists. R, G and E each connect to a socket of ours, the kernel names
the peer (also across pid namespaces), a pidfd is taken while the connection proves that it is still
that process, and from then on the pidfd alone tells.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from .scenarios import Scenario
from .wrappers import Wrapper

HERE = Path(__file__).parent
PYTHON = [os.path.realpath(sys.executable), "-I", "-S"]
START = 30.0  # s for the slowest wrapper to have its three processes up, on a busy machine
CLEANUP = 10.0  # s for SIGKILL to be carried out


@dataclass(frozen=True)
class Cell:
    """What was seen. Times are seconds after the act; None means that it did not happen."""

    wrapper: Wrapper
    scenario: Scenario
    grace: float
    survivors: str
    wrapper_ended: float | None
    status: int | None
    root_signals: tuple[tuple[str, float], ...]
    root_ended: float | None

    @property
    def nobody_left(self) -> bool:
        return not self.survivors and (self.wrapper_ended is not None)

    @property
    def grace_given(self) -> float | None:
        """Seconds from the first signal that R saw until its end; None if it saw none or lives."""
        if not self.root_signals or self.root_ended is None:
            return None
        return self.root_ended - self.root_signals[0][1]

    @property
    def was_polite(self) -> bool:
        """R got SIGTERM, and its whole grace if it ignored it (10 ms for the two clocks)."""
        if not self.root_signals or self.root_signals[0][0] != "TERM" or self.grace_given is None:
            return False
        return self.scenario.mode != "ignore" or self.grace_given >= self.grace - 0.01

    def __str__(self) -> str:
        if self.survivors:
            told = isinstance(self.scenario.act, signal.Signals) and not self.wrapper.is_root
            return self.survivors + (" never exits" if told and self.wrapper_ended is None else "")
        if self.wrapper_ended is None:
            return "- never exits"
        if not self.scenario.polite or self.wrapper.is_root:
            return "-"
        if not self.root_signals:
            return "- (R saw no signal)"
        if self.scenario.mode == "ignore" and self.grace_given is not None:
            return f"- ({self.grace_given:.1f} s)"
        return "-"

    @property
    def status_text(self) -> str:
        """How the wrapper ended, as its parent saw it."""
        if self.wrapper_ended is None:
            return "never ends"
        if self.status is None:
            return "not seen"
        if os.WIFSIGNALED(self.status):
            return f"by {signal.Signals(os.WTERMSIG(self.status)).name[3:]}"
        return str(os.WEXITSTATUS(self.status))


@dataclass
class Stage:
    """The processes of one cell and what they told us so far."""

    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    pidfds: dict[str, int] = field(default_factory=dict)  # R, G, E, wrapper, and helpers by number
    connections: dict[str, socket.socket] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)  # monotonic
    root_signals: list[tuple[str, float]] = field(default_factory=list)
    wrapper_pid: int | None = None
    status: int | None = None

    def watch(self, name: str, pid: int) -> None:
        fd = os.pidfd_open(pid)
        self.pidfds[name] = fd
        self.selector.register(fd, selectors.EVENT_READ, ("process", name))

    def step(self, timeout: float | None) -> None:
        """Take in what happened, waiting for at most `timeout` seconds."""
        for key, _ in self.selector.select(timeout):
            kind, what = key.data
            if kind == "process":
                self.ended[what] = time.monotonic()
                self.selector.unregister(key.fileobj)
            elif kind == "listener":
                self.greet(what.accept()[0])
            elif kind == "connection":
                self.hear(key.fileobj, what)  # type: ignore[arg-type]
            else:
                self.hear_owner(what)

    def greet(self, connection: socket.socket) -> None:
        with connection.makefile("rb", buffering=0) as stream:
            name = stream.read(2).decode().strip()  # sent in one piece before anything else
        size = struct.calcsize("3i")
        pid = struct.unpack(
            "3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        )[0]
        self.watch(name, pid)
        self.connections[name] = connection
        self.selector.register(connection, selectors.EVENT_READ, ("connection", name))

    def hear(self, connection: socket.socket, name: str) -> None:
        try:
            said = connection.recv(4096).decode()
        except ConnectionResetError:
            said = ""
        if not said:
            self.selector.unregister(connection)
        now = time.monotonic()
        self.root_signals += [(line, now) for line in said.split()]

    def hear_owner(self, owner: subprocess.Popen[bytes]) -> None:
        assert owner.stdout is not None
        line = owner.stdout.readline().split()
        if not line:
            self.selector.unregister(owner.stdout)
        elif line[0] == b"pid":
            self.wrapper_pid = int(line[1])
            self.watch("wrapper", self.wrapper_pid)
        else:
            self.status = int(line[1])
            self.ended["status"] = time.monotonic()

    def wait(self, enough: set[str], seconds: float) -> None:
        """Until all of `enough` have ended, or `seconds` are over."""
        deadline = time.monotonic() + seconds
        while not enough <= self.ended.keys() and (left := deadline - time.monotonic()) > 0:
            self.step(left)

    def end_all(self) -> None:
        """SIGKILL through the pidfds to whoever is left, and see them gone."""
        for name, fd in self.pidfds.items():
            if name not in self.ended:
                try:
                    signal.pidfd_send_signal(fd, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.wait(set(self.pidfds), CLEANUP)
        alive = set(self.pidfds) - self.ended.keys()
        if alive:
            raise RuntimeError(f"still alive after SIGKILL: {sorted(alive)}")

    def close(self) -> None:
        for connection in self.connections.values():
            connection.close()
        for fd in self.pidfds.values():
            os.close(fd)
        self.selector.close()


def descendants(pid: int) -> Iterator[int]:
    try:
        children = [
            int(child)
            for task in Path(f"/proc/{pid}/task").iterdir()
            for child in (task / "children").read_text().split()
        ]
    except OSError:
        return
    for child in children:
        yield child
        yield from descendants(child)


@contextmanager
def staged(
    wrapper: Wrapper, scenario: Scenario, grace: float, ttl: int
) -> Iterator[tuple[Stage, subprocess.Popen[bytes], int]]:
    """Owner, wrapper, R, G and E, all up; everything of it is gone afterwards."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-"))
        path = f"{folder}/s"
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(path)
        listener.listen()
        read_end, write_end = os.pipe()
        stack.callback(os.close, write_end)
        payload = [*PYTHON, str(HERE / "payload.py"), path, str(ttl), scenario.mode]
        stdin = [str(read_end)] if scenario.stdin_held else ["-"]
        owner = subprocess.Popen(
            [*PYTHON, str(HERE / "owner.py"), *stdin, "--", *wrapper.argv(grace), *payload],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, pass_fds=[read_end],
        )  # fmt: skip
        os.close(read_end)
        stage = Stage()
        stack.callback(stage.close)
        stack.callback(finish, owner)
        stack.callback(stage.end_all)
        stage.selector.register(listener, selectors.EVENT_READ, ("listener", listener))
        assert owner.stdout is not None
        stage.selector.register(owner.stdout, selectors.EVENT_READ, ("owner", owner))
        deadline = time.monotonic() + START
        while not (stage.wrapper_pid and stage.connections.keys() == {"R", "G", "E"}):
            left = deadline - time.monotonic()
            if left < 0 or "wrapper" in stage.ended:
                raise RuntimeError(
                    f"{wrapper.name}: only {sorted(stage.connections)} of R, G and E came up, "
                    f"the wrapper's status is {stage.status}"
                )
            stage.step(left)
        known = {pid_of(fd) for fd in stage.pidfds.values()}
        for pid in set(descendants(stage.wrapper_pid)) - known:
            stage.watch(f"helper {pid}", pid)
        yield stage, owner, write_end


def pid_of(pidfd: int) -> int:
    text = Path(f"/proc/self/fdinfo/{pidfd}").read_text()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("Pid:")))


def finish(owner: subprocess.Popen[bytes]) -> None:
    owner.kill()
    owner.wait()
    assert owner.stdin is not None
    assert owner.stdout is not None
    owner.stdin.close()
    owner.stdout.close()


def act(scenario: Scenario, stage: Stage, owner: subprocess.Popen[bytes]) -> None:
    if isinstance(scenario.act, signal.Signals):
        signal.pidfd_send_signal(stage.pidfds["wrapper"], scenario.act)
    elif scenario.act == "exit":
        stage.connections["R"].sendall(b"x")
    elif scenario.act == "kill-owner":
        owner.kill()
    else:
        assert owner.stdin is not None
        owner.stdin.write(b"\n")


def run_cell(
    wrapper: Wrapper,
    scenario: Scenario,
    *,
    grace: float = 3.0,
    patience: float = 7.0,
    settle: float = 0.02,
) -> Cell:
    """Put `wrapper` with `grace` seconds through `scenario` and say who lived on.

    Judged `settle` seconds after the wrapper's end, or after `patience` seconds. When the act is
    the wrapper's own SIGKILL, what it leaves has until `patience` to be ended by whoever is to.
    Raises RuntimeError when the three processes did not come up, or could not be ended afterwards.
    """
    everybody = {"R", "G", "E"}
    with staged(wrapper, scenario, grace, ttl=int(START + patience + CLEANUP)) as (stage, owner, _):
        begin = time.monotonic()
        act(scenario, stage, owner)
        if scenario.act == signal.SIGKILL:
            stage.wait({"wrapper", *everybody}, patience)
        else:
            stage.wait({"wrapper"}, patience)
            stage.wait(everybody, settle)
        stage.step(0)
        survivors = "".join(name for name in "EGR" if name not in stage.ended)
        if "wrapper" in stage.ended and scenario.act != "kill-owner":
            stage.wait({"status"}, CLEANUP)  # the owner lives and is about to say it
        return Cell(
            wrapper,
            scenario,
            grace,
            survivors,
            stage.ended["wrapper"] - begin if "wrapper" in stage.ended else None,
            stage.status,
            tuple((name, when - begin) for name, when in stage.root_signals),
            stage.ended["R"] - begin if "R" in stage.ended else None,
        )
