"""`lastout.subprocess`: run, call, check_output and the others, in the standard library's place."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lastout import subprocess as ours
from lastout.testing import RudeAgent


def test_the_friends(state: Path, tmp_path: Path) -> None:
    assert ours.run(["sh", "-c", "exit 3"], state=state).returncode == 3
    assert ours.call(["false"], state=state) == 1
    assert ours.check_output("echo $((1+1))", shell=True, text=True, state=state) == "2\n"
    with pytest.raises(ours.CalledProcessError):
        ours.check_call(["false"], state=state)
    agent = RudeAgent(tmp_path, ignores_term=True)
    with pytest.raises(ours.TimeoutExpired):
        ours.run(agent.argv, timeout=1.5, capture_output=True, stdin=-1, state=state)
    assert agent.survivors() == []
    # nothing of the standard library was changed on the way
    assert subprocess.run.__globals__["Popen"] is subprocess.Popen


def test_the_friends_are_all_there() -> None:
    posix = set(subprocess.__all__)
    assert set(ours.__all__) == posix | {"list2cmdline"}
