"""A handle that was inherited through a fork is inert: the run is the parent's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import lastout
from lastout import identity
from lastout.identity import Alive

pytestmark = pytest.mark.anyio


def in_a_child(act: object) -> int:
    """Fork, call `act` in the child, and tell its exit status here."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(act())  # type: ignore[operator]
        except BaseException:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
async def test_its_methods_refuse_in_the_child(state: Path) -> None:
    async with lastout.open_process(["cat"], state=state) as process:

        def act() -> int:
            refused = 0
            for method in (lambda: process.send_signal(10), lambda: process.request_stop()):
                try:
                    method()
                except lastout.HandleInert:
                    refused += 1
            return refused

        assert in_a_child(act) == 2
        assert identity.still_alive(process.root) is Alive.YES


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
async def test_its_descriptors_are_closed_in_the_child(state: Path) -> None:
    """Else a child that lives on would hide the end of stdin, and the owner's hang-up."""
    before = len(os.listdir("/proc/self/fd"))
    async with lastout.open_process(["cat"], stderr=lastout.PIPE, state=state):
        assert len(os.listdir("/proc/self/fd")) > before
        # A difference, since an exit status holds no more than 255.
        assert in_a_child(lambda: len(os.listdir("/proc/self/fd")) - before) == 0


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
async def test_a_child_that_lives_on_does_not_hold_stdin(state: Path) -> None:
    read_end, write_end = os.pipe()
    async with lastout.open_process(["cat"], state=state) as process:
        pid = os.fork()
        if pid == 0:
            os.close(write_end)
            os.read(read_end, 1)
            os._exit(0)
        try:
            assert process.stdin is not None
            await process.stdin.aclose()
            outcome = await process.wait()
        finally:
            os.close(write_end)
            os.waitpid(pid, 0)
            os.close(read_end)
    assert outcome.returncode == 0
