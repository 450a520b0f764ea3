"""The tests' own processes, stopped and frozen at random from outside (`make load`).

The program at the end stands beside the test process, never below it. It stops descendants of it,
picked by chance and named by identity, for some hundred milliseconds each, always through a pidfd. A
process that is stopped or traced already is somebody's subject and is left alone; and a test that
stops or continues something itself, or counts what arrives, asks for stillness first. Now and then it
freezes all of the tests by their cgroup, the test process included, as a machine is that sleeps.
"""

from __future__ import annotations

import os
import random
import select
import signal
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from harness.identity import descendants, read_stat

FD = "LASTOUT_TEST_PAUSES_FD"  # the suite's end of the socket, where there is such a program
LONGEST = 0.3  # seconds that one is stopped
BETWEEN = 0.08  # seconds from one to the next, on average
AT_ONCE = 3
FROZEN = (0.8, 1.6)  # seconds: more than the half that a supervisor calls late
BETWEEN_FREEZES = (6.0, 14.0)

_GO, _STILL, _QUIET = b"g", b"s", b"q"


class Stillness:
    """The suite's side: nobody is stopped between `ask` and `end`, or frozen either."""

    def __init__(self) -> None:
        fd = os.environ.pop(FD, None)
        self._socket = socket.socket(fileno=int(fd)) if fd else None
        if self._socket is not None:
            self._socket.set_inheritable(False)
        self._asked = _GO

    @property
    def needed(self) -> bool:
        """Whether there is somebody who stops processes, and continues them."""
        return self._socket is not None

    def ask(self, *, quiet: bool = False) -> None:
        """Returns when everybody runs again, and nobody will be stopped; nor frozen, if `quiet`."""
        word = _QUIET if quiet else _STILL
        if self._socket is not None and self._asked not in (word, _QUIET):
            self._say(word)
            self._asked = word

    def end(self) -> None:
        """Goes on with it."""
        if self._asked != _GO:
            self._say(_GO)
            self._asked = _GO

    def _say(self, word: bytes) -> None:
        assert self._socket is not None
        self._socket.sendall(word)
        if self._socket.recv(1) != word:
            raise ConnectionError("the program that stops processes has gone")


stillness = Stillness()


@dataclass
class _Paused:
    pidfd: int
    until: float


class Pauses:
    """The program's side."""

    def __init__(self, suite: int, rng: random.Random, freezer: Path | None) -> None:
        self.suite, self.rng, self.freezer = suite, rng, freezer
        self.paused: list[_Paused] = []
        self.asked = _GO
        self.stops = self.freezes = 0
        self.stop_at = time.monotonic()
        self.freeze_at = self.stop_at + rng.uniform(*BETWEEN_FREEZES)

    def next_due(self) -> float | None:
        """When to look again, if nothing is heard."""
        dues = [one.until for one in self.paused]
        if self.asked == _GO:
            dues.append(self.stop_at)
        if self.asked != _QUIET and self.freezer is not None:
            dues.append(self.freeze_at)
        return min(dues, default=None)

    def step(self, now: float) -> None:
        """Whatever is due."""
        self.go_on(now)
        if self.asked == _GO and now >= self.stop_at:
            self.pick(now)
            self.stop_at = now + self.rng.expovariate(1 / BETWEEN)
        if self.asked != _QUIET and self.freezer is not None and now >= self.freeze_at:
            self.freezer.write_text("1")
            time.sleep(self.rng.uniform(*FROZEN))  # nobody can ask for anything meanwhile
            self.freezer.write_text("0")
            self.freezes += 1
            self.freeze_at = time.monotonic() + self.rng.uniform(*BETWEEN_FREEZES)

    def go_on(self, now: float) -> None:
        """Continues those whose time is over."""
        for one in [one for one in self.paused if one.until <= now]:
            self.paused.remove(one)
            _signal(one.pidfd, signal.SIGCONT)
            os.close(one.pidfd)

    def pick(self, now: float) -> None:
        """Stops one more, if there is one to be stopped."""
        found = descendants(self.suite)
        if not found or len(self.paused) >= AT_ONCE:
            return
        pid = self.rng.choice(found)
        stat = read_stat(pid)
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        # Pinned, it must still be who it was, below the suite, and nobody else's subject.
        again = read_stat(pid)
        ours = stat is not None and again is not None and again.identity == stat.identity
        if not ours or again.state not in "RSD" or _is_traced(pid) or not self._is_below(pid):  # type: ignore[union-attr]
            os.close(pidfd)
            return
        _signal(pidfd, signal.SIGSTOP)
        self.stops += 1
        self.paused.append(_Paused(pidfd, now + self.rng.random() * LONGEST))

    def _is_below(self, pid: int) -> bool:
        for _ in range(1000):
            stat = read_stat(pid)
            if stat is None or stat.ppid <= 1:
                return False
            if stat.ppid == self.suite:
                return True
            pid = stat.ppid
        return False


def _signal(pidfd: int, number: signal.Signals) -> None:
    try:
        signal.pidfd_send_signal(pidfd, number)
    except (ProcessLookupError, PermissionError):
        pass  # it has ended, or has become another user's


def _is_traced(pid: int) -> bool:
    try:
        return "\nTracerPid:\t0\n" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def main() -> None:
    """SUITE FD SEED [CGROUP]: until the suite hangs up, or has ended."""
    suite, fd, seed = map(int, sys.argv[1:4])
    freezer = Path(sys.argv[4]) / "cgroup.freeze" if len(sys.argv) > 4 else None
    made = Pauses(suite, random.Random(seed), freezer)
    conversation = socket.socket(fileno=fd)
    end = os.pidfd_open(suite)
    while True:
        due = made.next_due()
        wait = None if due is None else max(0.0, due - time.monotonic())
        ready, _, _ = select.select([conversation, end], [], [], wait)
        word = conversation.recv(1) if conversation in ready else None
        if word == b"" or end in ready:
            break
        if word:
            made.asked = word
            if word != _GO:
                made.go_on(float("inf"))
            conversation.sendall(word)
        made.step(time.monotonic())
    made.go_on(float("inf"))
    print(
        f"a process of the tests was stopped {made.stops} times for up to {LONGEST} s, all of them"
    )
    print(f"were frozen {made.freezes} times for up to {FROZEN[1]} s", flush=True)
