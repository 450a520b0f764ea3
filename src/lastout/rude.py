"""A rude agent, for tests and for `lastout demo`: it starts what agents start and cleans up
nothing.

A program of its own, with the standard library's smallest: `python -I -S rude.py ROLL TTL
[--ignore] ROLE...`. Every process writes its own identity into the file ROLL, one JSON object a
line, and ends by itself after TTL seconds. When all are there the agent prints `ready`.

Roles: `tool` stays in the agent's process group, `session` moves to a session of its own, `daemon`
forks twice as well, `writer=PATH` is a session that appends a line to PATH every 50 ms, `forker` is
a session that replaces itself by a child ten times a second. All of them ignore TERM, INT and HUP.
The agent obeys TERM, forgetting them all, unless `--ignore` is given.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial

_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main() -> None:
    """Start the roles, say `ready`, then read stdin until somebody ends this process."""
    roll, ttl, *words = sys.argv[1:]
    ignores = words[:1] == ["--ignore"]
    ends = time.monotonic() + float(ttl)
    read_end, write_end = os.pipe()
    for word in words[1:] if ignores else words:
        name, _, path = word.partition("=")
        _start(name, partial(_act, name, path, roll, ends, write_end))
    os.close(write_end)
    if ignores:
        _ignore()
    else:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
    _sign(roll, "agent")
    os.read(read_end, 1)  # its end: every role has signed
    signal.alarm(max(1, round(float(ttl))))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while os.read(0, 65536) or ignores:
        time.sleep(0.1)


def _start(name: str, act: Callable[[], None]) -> None:
    if os.fork():
        return
    if name != "tool":
        os.setsid()
    if name == "daemon" and os.fork():
        os._exit(0)
    act()
    os._exit(0)


def _act(name: str, path: str, roll: str, ends: float, ready: int) -> None:
    _ignore()
    _sign(roll, name)
    # The agent's pipes are not ours to hold: an agent's tools have their own.
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(ready)
    while (left := ends - time.monotonic()) > 0:
        if name == "writer":
            _append(path, b"still writing\n")
            time.sleep(min(0.05, left))
        elif name == "forker":
            time.sleep(min(0.1, left))
            if os.fork():
                os._exit(0)
            _sign(roll, name)
        else:
            time.sleep(left)


def _ignore() -> None:
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)


def _sign(roll: str, role: str) -> None:
    """Write down who we are: pid, start time and pidfs inode, as a record has them."""
    with open("/proc/self/stat", "rb") as file:
        start = int(file.read().rpartition(b")")[2].split()[19])
    inode = 0
    try:
        fd = os.pidfd_open(os.getpid())
        inode = os.fstat(fd).st_ino
        os.close(fd)
    except OSError:
        pass
    line = {"role": role, "pid": os.getpid(), "start": start, "inode": inode}
    _append(roll, json.dumps(line).encode() + b"\n")


def _append(path: str, line: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(fd, line)
    finally:
        os.close(fd)


if __name__ == "__main__":
    main()
