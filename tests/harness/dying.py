"""A process that is killed right before its n-th step: every call that changes something outside.

Nothing in the product knows of it: the calls are wrapped in the process itself, before anything of
lastout is imported there.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from typing import Any

__all__ = ["arm"]

_STEPS = (
    "execv", "fsync", "ftruncate", "link", "mkdir", "open", "posix_fallocate", "pwrite", "rename",
    "unlink", "write",
)  # fmt: skip


def arm(number: int) -> Callable[[], int]:
    """SIGKILL for this process before its step `number`, counted from 1; gives the count so far.

    A step is a system call that changes the file system, and the start of a process.
    """
    count = 0

    def step() -> None:
        nonlocal count
        count += 1
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def wrapped(call: Callable[..., Any], name: str) -> Callable[..., Any]:
        def before(*args: Any, **kwargs: Any) -> Any:
            if name != "open" or (len(args) > 1 and args[1] & os.O_CREAT):
                step()
            return call(*args, **kwargs)

        return before

    for name in _STEPS:
        setattr(os, name, wrapped(getattr(os, name), name))
    start = subprocess.Popen.__init__

    def starts(self: Any, *args: Any, **kwargs: Any) -> None:
        step()
        start(self, *args, **kwargs)

    subprocess.Popen.__init__ = starts  # type: ignore[method-assign]
    return lambda: count
