"""What befalls supervisors: held still so that SIGCONT does not help, or dead both at once."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from signal import SIGKILL, SIGSTOP

import pytest

from harness.member import Member
from harness.pauses import stillness
from harness.run import Run

_SEIZE, _INTERRUPT, _WALL = 0x4206, 0x4207, 0x40000000


def hold(people: Iterable[Member]) -> None:
    """Seize and interrupt each; SIGKILL still ends them. Skips where ptrace is not allowed."""
    stillness.ask()
    libc = ctypes.CDLL(None, use_errno=True)
    for process in people:
        if libc.ptrace(_SEIZE, process.pid, 0, 0) or libc.ptrace(_INTERRUPT, process.pid, 0, 0):
            pytest.skip("ptrace is not allowed here")
        os.waitpid(process.pid, _WALL | os.WUNTRACED)  # until it is stopped
        process.wait_state("t")


def lose_both(run: Run) -> None:
    """Front and keeper die before either can finish the other's work; the root dies with them."""
    people = (run.front, run.keeper)
    for number in (SIGSTOP, SIGKILL):
        for process in people:
            process.signal(number)
    for process in (*people, run.root):
        process.wait_gone()
