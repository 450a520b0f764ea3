"""What `lastout demo` shows: a rude agent, its owner killed, and an honest count afterwards.

Every process of the agent has written down its own identity; who is alive is asked of the kernel
for each of them. All of it happens in one temporary directory and ends by itself after `TTL`.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

from lastout import identity, state
from lastout.graces import MARGIN, Graces
from lastout.identity import ProcessIdentity
from lastout.testing import Present, RudeAgent, wait_gone

__all__ = ["GRACES", "LOOK", "ROLES", "Scene", "play"]

_PR_SET_CHILD_SUBREAPER = 36
TTL = 30.0
LOOK = 1.0
"""How long to look at the survivors, in seconds."""
GRACES = Graces(stdin=0.2, term=0.6, reap=1.5)
ROLES = ("tool", "session", "daemon", "writer", "forker")

# Starts the agent as a program does that knows nothing of any of this, and waits.
_OWNER = """
import os, sys
stdin, owners_end = os.pipe()
actions = [(os.POSIX_SPAWN_DUP2, stdin, 0), (os.POSIX_SPAWN_CLOSE, owners_end)]
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=actions)
os.waitpid(pid, 0)
"""


@dataclass(slots=True)
class Scene:
    """What was counted. `alive` are the roles of those that live on, `seconds` after the kill."""

    started: list[str]
    alive: list[str]
    seconds: float
    lines_after: int
    """How many lines the agent's writer appended after its owner was dead."""
    record: str | None = None
    pids: dict[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        """The numbers, for programs."""
        return asdict(self)


def play(directory: Path, *, supervised: bool) -> Scene:
    """Start the agent below an owner, kill the owner with SIGKILL, look, clean up by identity."""
    directory.mkdir()
    agent = RudeAgent(directory, roles=ROLES, ignores_term=True, ttl=TTL)
    record = directory / "record.jsonl" if supervised else None
    argv = [*_front(record), *agent.argv] if record is not None else agent.argv
    owner = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _OWNER, *argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if supervised else None,
    )
    try:
        front = _announced(owner.stderr) if supervised else None
        _ready(owner.stdout)
        started = agent.present()
        owner.kill()
        owner.wait()
        killed = time.monotonic()
        before = _lines(agent)
        if front is None:
            time.sleep(LOOK)
            alive, seconds = agent.survivors(), time.monotonic() - killed
        else:
            wait_gone([front], GRACES.max_stop + MARGIN)
            alive, seconds = agent.survivors(), time.monotonic() - killed
            time.sleep(max(0.0, LOOK - seconds))  # as long a look at the file as without
        return Scene(
            started=[entry.role for entry in _first_of_each(started)],
            alive=[entry.role for entry in alive],
            seconds=seconds,
            lines_after=_lines(agent) - before,
            record=None if record is None else str(record),
            pids={entry.role: entry.identity.pid for entry in started},
        )
    finally:
        owner.kill()
        owner.wait()
        agent.end()
        _end_the_rest()
        for stream in (owner.stdout, owner.stderr):
            if stream is not None:
                stream.close()


def _end_the_rest() -> None:
    """Who had not yet signed when the demonstration was interrupted: our children by now.

    All children of this process are of the demonstration, and their numbers are theirs until we
    reap them.
    """
    ends = time.monotonic() + GRACES.max_stop
    while time.monotonic() < ends:
        try:
            children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        except OSError:
            return  # a kernel that does not list them: they end by themselves after TTL
        for pid in map(int, children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _front(record: Path) -> list[str]:
    budget = (
        *("--stdin-grace", str(GRACES.stdin)),
        *("--term-grace", str(GRACES.term)),
        *("--reap-bound", str(GRACES.reap)),
    )
    run = ("--run", state.new_run(), "--record", str(record), "--json")
    return [sys.executable, "-m", "lastout", "run", *run, *budget, "--"]


def _announced(stream: IO[bytes] | None) -> ProcessIdentity:
    """The front, from the line of `--json`. Raises RuntimeError with what was said instead."""
    assert stream is not None
    line = stream.readline()
    try:
        return identity.take(json.loads(line)["pid"])
    except (ValueError, KeyError):
        said = (line + stream.read()).decode(errors="replace").strip()
        raise RuntimeError(f"lastout run did not start: {said}") from None


def _ready(stream: IO[bytes] | None) -> None:
    assert stream is not None
    if stream.readline() != b"ready\n":
        raise RuntimeError("the agent of the demonstration did not start")


def _first_of_each(present: list[Present]) -> list[Present]:
    """One entry a role: the forker may have signed more than once by now."""
    return list({entry.role: entry for entry in reversed(present)}.values())[::-1]


def _lines(agent: RudeAgent) -> int:
    try:
        return agent.written.read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def interruptible() -> None:
    """Let Ctrl-C and SIGTERM end the demonstration through its clean-up.

    Orphans of the agent become our children (PR_SET_CHILD_SUBREAPER, prctl(2)), also those who were
    just being started: whoever is interrupted then leaves nobody either.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    if os.isatty(0):
        signal.signal(signal.SIGHUP, leave)
