"""Somebody kills by a name: the agent's hits neither front nor keeper, the supervisor's leaves no
writer.

What a pattern would match is computed here from /proc, among this test's own processes only, and
only those pids are signalled.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lastout
from lastout import proctable
from lastout.identity import Alive, still_alive, take, wait_dead

NAME = "some-agent"


def below() -> Iterator[int]:
    todo = [os.getpid()]
    while todo:
        for pid in proctable.children(todo.pop()):
            todo.append(pid)
            yield pid


def matches(pattern: str, whole: bool) -> set[int]:
    """What `pkill PATTERN` (or `pkill -f PATTERN`) would signal of our own processes."""
    found = set()
    for pid in below():
        text = Path(f"/proc/{pid}/comm").read_text().strip()
        if whole:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
            text = b" ".join(words).decode(errors="replace") or text
        if re.search(pattern, text):
            found.add(pid)
    return found


@pytest.fixture
def agent(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[lastout.Popen[Any]]:
    """A writer by that name; with the parameter also a tool by that name in its own session."""
    before = set(below())
    shell = tmp_path / NAME
    shutil.copy("/bin/sh", shell)
    script = "echo here; while :; do read x; done"
    if getattr(request, "param", False):
        script = (
            f"setsid {shell} -c 'echo here; while :; do sleep 60; done' & while :; do read x; done"
        )
    with lastout.Popen(
        [str(shell), "-c", script], stdin=-1, stdout=-1, state=tmp_path / "state", graces="instant"
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        yield process
        process.kill()
    # Who wrote a line when its supervisors were killed ends on its own.
    for pid in set(below()) - before:
        with contextlib.suppress(ProcessLookupError):
            wait_dead(take(pid), 10)


@pytest.mark.parametrize("agent", [True], indirect=True, ids=["with a tool"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["TERM", "KILL"])
@pytest.mark.parametrize("whole", [False, True], ids=["name", "command line"])
def test_by_the_agents_name(agent: lastout.Popen[Any], whole: bool, number: signal.Signals) -> None:
    found = matches(NAME, whole)
    assert agent.root.pid in found
    assert not found & {agent.front.pid, agent.keeper.pid}
    for pid in found:
        with contextlib.suppress(ProcessLookupError):  # the first kill may have ended the others
            os.kill(pid, number)
    agent.wait(timeout=30)
    assert agent.outcome is not None
    assert agent.outcome.verdict == "exited"
    assert agent.returncode == -number


@pytest.mark.parametrize("whole", [False, True], ids=["name", "command line"])
def test_by_the_supervisors_name(agent: lastout.Popen[Any], whole: bool) -> None:
    found = matches("lastout", whole)
    assert found >= {agent.front.pid, agent.keeper.pid}
    assert agent.root.pid not in found
    for pid in found:
        with contextlib.suppress(ProcessLookupError):  # a short-lived one, or the keeper's own end
            os.kill(pid, signal.SIGKILL)
    assert wait_dead(agent.root, 30) is Alive.NO
    agent.wait(timeout=30)
    assert agent.outcome is not None
    assert agent.outcome.root_gone
    assert still_alive(agent.keeper) is Alive.NO
