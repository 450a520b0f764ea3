"""Who asks: the label under which jobs are kept, and how deep in other agents' jobs the asker is."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, Final

from lastout.proctable import read_stat

__all__ = ["DEPTH", "client_process", "depth_here", "label"]

DEPTH: Final = "LASTOUT_DEPTH"
"""How many agents stand above this one; in the environment of every job that is started here."""

_HIGHEST: Final = 64


def label(
    given: str | None,
    client: str | None,
    meta: Mapping[str, Any] | None,
    environ: Mapping[str, str],
) -> str:
    """The asking side, the same after its restart where it has a conversation that it can resume.

    `given` is the owner's word (`--by`). Else it is the conversation, by what the client tells with
    each call or gave this server in its environment, else the client's process: two that run at
    once are never taken for one.
    """
    if given:
        return given
    thread = _text((meta or {}).get("threadId"))
    if thread is not None:
        return f"codex:{thread}"
    session = environ.get("CLAUDE_CODE_SESSION_ID")
    if session:
        return f"claude:{session}"
    return f"{client or 'mcp'}:{client_process()}"


def client_process() -> str:
    """The process that started this server, as PID-START; "0-0" when it has gone already."""
    pid = os.getppid()
    try:
        return f"{pid}-{read_stat(pid).start}"
    except OSError:
        return "0-0"


def depth_here(given: int, environ: Mapping[str, str]) -> int:
    """The deepest that is told: by the option, our environment, or that of a process above us.

    A client may give its servers a short environment (Codex does); the supervisor above the client
    still has the whole one.
    """
    return max(given, _number(environ.get(DEPTH)), *map(_number, _above()), 0)


def _above() -> Iterator[str | None]:
    """What DEPTH is in the environment of each ancestor whose environment we may read."""
    pid, wanted = os.getppid(), f"{DEPTH}=".encode()
    for _ in range(_HIGHEST):
        if pid <= 1:
            return
        try:
            parent = read_stat(pid).ppid
        except OSError:
            return
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                for entry in file.read().split(b"\0"):
                    if entry.startswith(wanted):
                        yield entry[len(wanted) :].decode("ascii", "replace")
        except PermissionError:
            pass  # another user's, or one that shows itself to nobody: the next one may tell
        except OSError:
            return
        pid = parent


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() else 0


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
