"""Whether a process is a member of a run: a lastout supervisor is among its ancestors.

Only for deciding who may be asked for what; nothing is ever signalled on this ground.
"""

from __future__ import annotations

import os

from lastout.proctable import read_stat

__all__ = ["run_above"]

_PROGRAM = "lastout-supervisor"
_DEEPEST = 1024


def run_above(pid: int | None = None) -> str | None:
    """The run that a process (this one) is a member of; "" when its id is not told, None for none.

    A tool that moved to another session, or was orphaned, is still below its run's keeper.
    """
    at = os.getpid() if pid is None else pid
    for _ in range(_DEEPEST):
        try:
            at = read_stat(at).ppid
        except OSError:
            return None  # it ended meanwhile, or lies in another pid namespace
        if at <= 0:
            return None
        if _is_supervisor(at):
            return _run_of(at)
    return None


def _is_supervisor(pid: int) -> bool:
    try:
        path = os.readlink(f"/proc/{pid}/exe")
    except PermissionError:
        return _words(pid)[:1] == [_PROGRAM]  # another user's: what it says of itself
    except OSError:
        return False
    return os.path.basename(path).removesuffix(" (deleted)") == _PROGRAM


def _words(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            text = file.read(4096).rstrip(b"\0")
    except OSError:
        return []
    return os.fsdecode(text.replace(b"\0", b" ")).split()


def _run_of(pid: int) -> str:
    """Front and keeper write `--run ID` over their command line."""
    words = _words(pid)
    if "--run" in words[:-1]:
        return words[words.index("--run") + 1]
    return ""
