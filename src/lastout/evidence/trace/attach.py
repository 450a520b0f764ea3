"""Starts the tracer of the run that this process is about to become."""

from __future__ import annotations

import os
import sys

__all__ = ["attach"]

_READY_WITHIN_S = 10.0


def attach(run: str, record: str) -> str:
    """Start the tracer for this process and wait until it traces; how it does (`tracefs`, ...).

    Raises OSError when it cannot be had: what was asked for is never silently left out.
    """
    import select

    reading, writing = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        _become_tracer(run, record, os.getppid(), writing)
    os.close(writing)
    os.waitpid(child, 0)  # the one in between: the tracer itself is nobody's child here
    try:
        ready, _, _ = select.select([reading], [], [], _READY_WITHIN_S)
        said = os.read(reading, 4096).decode("utf-8", "replace").strip() if ready else ""
    finally:
        os.close(reading)
    answer, _, text = said.partition(" ")
    if answer != "yes":
        raise OSError(1, f"no tracing: {text or 'the tracer did not start'}")
    return text


def _become_tracer(run: str, record: str, front: int, ready: int) -> None:
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        # Nothing of the run's is held: the end of its pipes must be their end.
        keep = os.dup2(ready, 3, inheritable=True)
        os.closerange(4, os.sysconf("SC_OPEN_MAX"))
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.close(null)
        module = "lastout.evidence.trace.one"
        arguments = [sys.executable, "-m", module, run, record, str(front), str(keep)]
        os.execv(sys.executable, arguments)
    finally:
        os._exit(127)
