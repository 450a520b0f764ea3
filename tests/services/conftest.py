"""A state directory, its service process, and work that runs until it is let go."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from lastout.services.store import Services

BOUND = 30.0
HERE = Path(__file__).parent


class Serve:
    """A service process of ours; `dies` is the step at which it kills itself with SIGKILL."""

    def __init__(self, state: Path, dies: str = "") -> None:
        ready, theirs = os.pipe()
        self.log = state / "serve-test.log"
        state.mkdir(mode=0o700, exist_ok=True)
        # Whoever starts it may have left a descriptor open that is none of its work's business.
        with open(self.log, "ab") as log, open(__file__, "rb") as stray:
            self.process = subprocess.Popen(
                [sys.executable, str(HERE / "serve.py"), str(state), str(theirs), dies],
                pass_fds=(theirs, stray.fileno()),
                stdin=subprocess.DEVNULL,
                stderr=log,
            )
        os.close(theirs)
        try:
            up = select.select([ready], [], [], BOUND)[0] and os.read(ready, 1)
            if not up and not dies:
                raise AssertionError(self.log.read_text())
        finally:
            os.close(ready)

    def kill(self) -> None:
        """SIGKILL, and its end."""
        self.process.kill()
        self.process.wait(BOUND)

    def died(self) -> None:
        """Until it has killed itself."""
        assert self.process.wait(BOUND) == -signal.SIGKILL, self.log.read_text()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(BOUND)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


class Owner(Services):
    """Provisions what the service process runs, also on a machine with systemd."""

    def add(self, name: str, argv: Sequence[str], **options: Any) -> str:
        return super().add(name, argv, **{"manager": "lastout", **options})


@pytest.fixture
def services(state: Path) -> Owner:
    state.mkdir(mode=0o700, exist_ok=True)
    return Owner(str(state))


@pytest.fixture
def serve(state: Path) -> Iterator[Callable[..., Serve]]:
    """Starts service processes, one after the other, and ends what is left of them."""
    made: list[Serve] = []

    def start(dies: str = "") -> Serve:
        made.append(Serve(state, dies))
        return made[-1]

    yield start
    for one in made:
        one.close()


class Work:
    """A command that writes a line, and then waits to be let go."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.go = directory / "go"
        self.up = directory / "up"
        self.ran = directory / "ran"
        self.result = directory / "out" / "result.json"
        self.result.parent.mkdir()
        for fifo in (self.go, self.up):
            os.mkfifo(fifo)
        # Kept open for both, so that no side waits for the other to come.
        self._ends = [os.open(fifo, os.O_RDWR | os.O_NONBLOCK) for fifo in (self.go, self.up)]

    def held(self, *, before: str = "", after: str = "") -> list[str]:
        """Says that it runs, and goes on when it is let go."""
        script = f"echo x >>{self.ran}; {before} echo $$ >{self.up}; read line <{self.go}; {after}"
        return ["sh", "-c", script]

    def quick(self) -> list[str]:
        return ["sh", "-c", f"echo x >>{self.ran}"]

    def wait_up(self) -> int:
        """Until it runs; its pid."""
        assert select.select([self._ends[1]], [], [], BOUND)[0], (
            "the work has not said that it runs"
        )
        return int(os.read(self._ends[1], 64).split()[0])

    def let_go(self) -> None:
        os.write(self._ends[0], b"go\n")

    @property
    def times(self) -> int:
        """How often it was executed."""
        return len(self.ran.read_text().splitlines()) if self.ran.exists() else 0

    def close(self) -> None:
        for fd in self._ends:
            os.close(fd)


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Work]:
    made = Work(tmp_path)
    yield made
    made.close()


@pytest.fixture
def wait_bound() -> float:
    return BOUND


@pytest.fixture
def serve_in(wait_bound: float) -> Callable[..., bool]:
    """One round of a sweep, in a directory of its own."""

    def once(directory: Path, dies: str, round_: Callable[..., bool]) -> bool:
        state = directory / "state"
        state.mkdir(mode=0o700, exist_ok=True)
        work = Work(directory)
        made: list[Serve] = []

        def start(step: str = "") -> Serve:
            made.append(Serve(state, step))
            return made[-1]

        try:
            return round_(Owner(str(state)), start, work, wait_bound, dies)
        finally:
            for one in made:
                one.close()
            work.close()

    return once
