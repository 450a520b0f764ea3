"""`lastout.testing`: what it counts is there, and what it does not count is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from lastout import identity
from lastout.testing import RudeAgent, survivors, wait_gone


def started(agent: RudeAgent) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(agent.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def closed(process: subprocess.Popen[bytes]) -> int:
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        stream.close()
    return process.wait()


def test_everybody_has_signed_when_it_is_ready(tmp_path: Path) -> None:
    roles = ("tool", "session", "daemon", "writer", "forker")
    agent = RudeAgent(tmp_path, roles=roles, ttl=30)
    assert agent.present() == []
    process = started(agent)
    try:
        signed = agent.present()
        assert {entry.role for entry in signed} == {"agent", *roles}
        by_role = {entry.role: entry.identity for entry in signed}
        assert by_role["agent"] == identity.take(process.pid)
        pgids = {role: os.getpgid(by_role[role].pid) for role in ("agent", "tool", "session")}
        assert pgids["tool"] == pgids["agent"] != pgids["session"]
        assert os.getsid(by_role["daemon"].pid) != os.getsid(process.pid)
    finally:
        process.terminate()
        assert closed(process) == 143
        agent.end()


def test_it_forgets_its_tools_and_they_are_counted(tmp_path: Path) -> None:
    agent = RudeAgent(tmp_path, ttl=30)
    process = started(agent)
    process.terminate()
    closed(process)
    assert sorted(entry.role for entry in agent.survivors()) == ["daemon", "session", "tool"]
    for entry in agent.survivors():
        identity.signal(entry.identity, signal.SIGTERM)
    assert len(agent.survivors()) == 3, "they ignore SIGTERM"
    agent.end()
    assert agent.survivors() == []


def test_it_can_ignore_sigterm_itself(tmp_path: Path) -> None:
    agent = RudeAgent(tmp_path, roles=(), ignores_term=True, ttl=30)
    process = started(agent)
    process.terminate()
    assert len(agent.survivors()) == 1
    agent.end()
    assert closed(process) == -signal.SIGKILL


def test_all_of_it_ends_by_itself(tmp_path: Path) -> None:
    agent = RudeAgent(tmp_path, ignores_term=True, roles=("tool", "daemon", "forker"), ttl=1)
    process = started(agent)
    assert wait_gone([entry.identity for entry in agent.present()], 20) == []
    closed(process)
    assert agent.survivors() == []


def test_a_zombie_is_no_survivor(tmp_path: Path) -> None:
    zombie = subprocess.Popen(["true"], stdin=subprocess.DEVNULL)
    named = identity.take(zombie.pid)
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    assert survivors([named]) == []
    zombie.wait()
    assert survivors([named]) == []


def test_who_cannot_be_asked_is_counted() -> None:
    elsewhere = identity.ProcessIdentity(4711, 1, 0, identity.boot_id(), identity.pidns() + 1)
    assert survivors([elsewhere]) == [elsewhere]


def test_waiting_names_who_is_left() -> None:
    sleeper = subprocess.Popen(["sleep", "60"])
    named = identity.take(sleeper.pid)
    try:
        began = time.monotonic()
        assert wait_gone([named], 0.1) == [named]
        assert time.monotonic() - began >= 0.1
    finally:
        sleeper.kill()
        sleeper.wait()
    assert wait_gone([named], 0) == []


def test_the_program_needs_nothing_installed(tmp_path: Path) -> None:
    """It runs with -I -S: no site-packages, no environment."""
    agent = RudeAgent(tmp_path, roles=("tool",), ttl=30)
    assert agent.argv[:3] == [sys.executable, "-I", "-S"]
    process = subprocess.Popen(agent.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={})
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.terminate()
    closed(process)
    agent.end()
