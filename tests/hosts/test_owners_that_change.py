"""Owners that fork workers, re-execute themselves, or lose their event loop: only their own runs are
ended, exactly once."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from lastout import identity
from lastout.evidence.events import Event, StopBegan, TreeGone
from lastout.evidence.settled import settled
from lastout.identity import Alive, ProcessIdentity, boot_id, pidns, still_alive, wait_dead

BOUND = 30.0

# A process's descriptors are closed before its death is told: either may be noticed first.
DIED = ("owner-died", "owner-hung-up")

E = TypeVar("E", bound=Event)


@dataclass
class Run:
    record: str
    front: ProcessIdentity
    keeper: ProcessIdentity
    root: ProcessIdentity

    @property
    def alive(self) -> bool:
        return still_alive(self.root) is Alive.YES

    def ended(self) -> str:
        """Wait for the last line; the trigger of the only stop that there was."""
        for one in (self.front, self.keeper):
            assert wait_dead(one, BOUND) is Alive.NO
        assert not self.alive
        self._one(TreeGone)
        return self._one(StopBegan).trigger

    def _one(self, kind: type[E]) -> E:
        found = [event for event in settled(self.record).events if isinstance(event, kind)]
        assert len(found) == 1, f"{len(found)} lines of {kind.__name__}"
        return found[0]


def process(told: str) -> ProcessIdentity:
    pid, _, started = told.partition(":")
    return ProcessIdentity(int(pid), int(started), 0, boot_id(), pidns())


class Owner:
    """One of owner_programs.py, and the runs that it has told of."""

    def __init__(self, what: str, state: Path) -> None:
        program = Path(__file__).with_name("owner_programs.py")
        self.child = subprocess.Popen(
            [sys.executable, str(program), what, str(state)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            text=True,
        )
        self.runs: dict[str, Run] = {}
        self.workers: dict[int, ProcessIdentity] = {}

    def hear(self, what: str) -> list[str]:
        """Read on until a line that begins so."""
        assert self.child.stdout is not None
        for line in self.child.stdout:
            words = line.split()
            if words[0] == "run":
                self.runs[words[1]] = Run(words[2], *map(process, words[3:6]))
            if words[0] == "worker":
                self.workers[int(words[1])] = process(words[2])
            if line.startswith(what):
                return words
        raise AssertionError(f"the owner ended without a line {what!r}")

    def say(self) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write("\n")
        self.child.stdin.flush()


@pytest.fixture
def owner(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Owner]:
    made = Owner(request.param, tmp_path / "state")
    yield made
    if made.child.poll() is None:
        made.child.kill()
    for worker in made.workers.values():
        with contextlib.suppress(ProcessLookupError):
            identity.signal(worker, signal.SIGKILL)
        # A zombie is enough: an owner that lives waits for nobody.
        assert wait_dead(worker, BOUND) is Alive.NO
    made.child.communicate()
    for run in made.runs.values():
        run.ended()


def start(what: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("owner", [what], indirect=True, ids=[""])


@start("pool")
def test_workers_of_multiprocessing_end_only_their_own(owner: Owner) -> None:
    assert owner.hear("workers ended")[2:] == ["0", "0"]
    for name in ("worker0", "worker1"):
        assert owner.runs[name].ended() in DIED
    assert owner.runs["parent"].alive
    owner.say()
    assert owner.hear("ended") == ["ended", "-9"]
    assert owner.runs["parent"].ended() == "requested"


@start("prefork")
def test_a_prefork_worker_that_is_killed_takes_only_its_own(owner: Owner) -> None:
    for name in ("run master", "worker 0", "worker 1"):
        owner.hear(name)
    while len(owner.runs) < 3:
        owner.hear("run worker")
    identity.signal(owner.workers[0], signal.SIGKILL)
    assert owner.runs["worker0"].ended() in DIED
    assert owner.runs["master"].alive
    assert owner.runs["worker1"].alive
    owner.child.kill()
    assert owner.runs["master"].ended() in DIED
    # Its owner lives: an orphan is still the owner of its runs.
    assert owner.runs["worker1"].alive
    identity.signal(owner.workers[1], signal.SIGKILL)
    assert owner.runs["worker1"].ended() in DIED


@start("gunicorn")
def test_workers_of_gunicorn(owner: Owner) -> None:
    pytest.importorskip("gunicorn", reason="needs gunicorn, of the development group")
    for number in ("1", "2"):
        while number not in map(str, owner.workers):
            owner.hear("worker")
    identity.signal(owner.workers[1], signal.SIGKILL)
    assert owner.runs["worker1"].ended() in DIED
    owner.hear("worker 3")
    assert all(owner.runs[name].alive for name in ("master", "worker2", "worker3"))
    owner.child.terminate()
    assert owner.child.wait(BOUND) == 0
    for name in ("master", "worker2", "worker3"):
        assert owner.runs[name].ended() in DIED


@start("reexec")
def test_an_owner_that_executes_itself_again(owner: Owner) -> None:
    owner.hear("worker 0")
    assert owner.runs["before"].alive
    owner.say()
    owner.hear("run after")
    # Pid and start time are the same, but nobody holds the handle any more.
    assert owner.runs["before"].ended() == "owner-hung-up"
    assert owner.runs["after"].alive


@start("lost_loop")
def test_a_lost_event_loop(owner: Owner) -> None:
    owner.hear("run loop")
    assert owner.runs["loop"].alive
    owner.say()
    owner.hear("collected")
    assert owner.runs["loop"].ended() in ("owner-hung-up", "stdin-ended")
    assert owner.runs["thread"].alive
    owner.say()
    assert owner.hear("still") == ["still", "None"]
