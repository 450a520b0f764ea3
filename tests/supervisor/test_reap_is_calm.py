"""The end of a root with many threads does not keep a processor busy."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from typing import Any

import pytest

from harness.programs import supervisor_binary

ROUNDS = 12
MOST = 0.5
"""Seconds of a processor, a hundred times what a run takes. A keeper that keeps a dying thread from the
only processor spins until the kernel stops it, after 0.95 s (sched_rt_runtime_us)."""

THREADS = """
import os, sys, threading
for _ in range(20):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
print("up", flush=True)
sys.stdin.read()
os._exit(0)
"""


@pytest.mark.root
def test_the_last_thread_ends_beside_the_reap() -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        spent = [seconds_of_a_processor() for _ in range(ROUNDS)]
    finally:
        os.sched_setaffinity(0, before)
    assert max(spent) < MOST, spent


def seconds_of_a_processor() -> float:
    """What front, keeper and root of one run have taken, of the kernel's time."""
    ours, theirs = socket.socketpair()
    front = subprocess.Popen(
        [supervisor_binary(), "--control", str(theirs.fileno()), "--",
         sys.executable, "-S", "-c", THREADS],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[theirs.fileno()],
    )  # fmt: skip
    assert front.stdin is not None
    assert front.stdout is not None
    with ours, front.stdin, front.stdout, ours.makefile() as lines:
        theirs.close()
        assert front.stdout.readline() == b"up\n"
        # It looks into /proc of every thread, which is what has to be cleared at the end.
        ours.sendall(b'{"cmd":"list"}\n')
        until(lines, "list")
        front.stdin.close()
        until(lines, "tree-gone")
    _, status, usage = os.wait4(front.pid, 0)
    front.returncode = os.waitstatus_to_exitcode(status)
    assert front.returncode == 0
    return usage.ru_stime


def until(lines: Any, event: str) -> None:
    for line in lines:
        if json.loads(line)["event"] == event:
            return
    raise AssertionError(event)
