"""A pytest fixture that fails a test which leaves a process running, and ends what it left.

In a conftest.py: `pytest_plugins = ["lastout.integrations.pytest"]`, and in a test the argument
`no_survivors`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Iterator

import pytest

from lastout import identity, proctable
from lastout.identity import ProcessIdentity

__all__ = ["no_survivors"]

_PR_SET_CHILD_SUBREAPER = 36
_BOUND = 10.0
"""Seconds for the kernel to end what a test left behind."""


@pytest.fixture
def no_survivors() -> Iterator[None]:
    """Fails the test when a process that it started is alive after it.

    However it was started: also after setsid and double fork, for pytest's process adopts it
    (PR_SET_CHILD_SUBREAPER, prctl(2)). Processes that were there before are not looked at; under
    pytest-xdist each worker looks at its own.
    """
    _adopt_orphans()
    before = set(_below())
    yield
    left = _alive(before)
    if not left:
        return
    told = "\n".join(_describe(one) for one in left)
    _end(before)
    pytest.fail(f"left running by this test:\n{told}", pytrace=False)


def _adopt_orphans() -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER")


def _below() -> Iterator[ProcessIdentity]:
    """Everything below this process, parents before their children."""
    todo = [os.getpid()]
    while todo:
        try:
            found = proctable.children(todo.pop())
        except OSError:
            continue  # it ended, or is hidden from us (hidepid)
        for pid in found:
            try:
                yield identity.take(pid)
            except OSError:
                continue
            todo.append(pid)


def _alive(before: set[ProcessIdentity]) -> list[ProcessIdentity]:
    return [
        one
        for one in _below()
        if one not in before and identity.still_alive(one) is not identity.Alive.NO
    ]


def _describe(one: ProcessIdentity) -> str:
    try:
        stat = proctable.read_stat(one.pid)
        with open(f"/proc/{one.pid}/cmdline", "rb") as file:
            words = file.read().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return f"  pid {one.pid}, gone meanwhile"
    return f"  pid {one.pid} ({stat.name}, parent {stat.ppid}, state {stat.state}): {words}"


def _end(before: set[ProcessIdentity]) -> None:
    """SIGKILL by identity, again and again: what was below comes up to us."""
    ends = time.monotonic() + _BOUND
    while (left := _alive(before)) and time.monotonic() < ends:
        for one in left:
            try:
                identity.signal(one, signal.SIGKILL)
            except (OSError, identity.IdentityUnknown):
                continue
        for one in left:
            identity.wait_dead(one, max(0.0, ends - time.monotonic()))
            try:
                os.waitpid(one.pid, os.WNOHANG)
            except ChildProcessError:
                pass  # its parent reaps it, or comes to us first
