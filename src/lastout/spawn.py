"""Start a front: pipes and control socket of our own, the rest as subprocess does it.

Nothing here waits, and nothing is left open when it fails.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

__all__ = ["Redirection", "Spawned", "group_number", "spawn", "user_number"]

Redirection = int | IO[Any] | None
"""PIPE, DEVNULL, STDOUT (stderr only), a descriptor, an object with a fileno, or None:
inherited."""


@dataclass(slots=True)
class Spawned:
    """A front that runs, and our ends of what connects us; the caller owns the descriptors."""

    pid: int
    pidfd: int
    control: socket.socket
    stdin: int | None
    stdout: int | None
    stderr: int | None


def spawn(
    argv: Sequence[str],
    *,
    stdin: Redirection,
    stdout: Redirection,
    stderr: Redirection,
    env: Mapping[str, str] | Mapping[bytes, bytes] | None,
    pass_fds: Iterable[int],
) -> Spawned:
    """Start `argv`, which begins with the supervisor, and give it the control socket.

    Raises OSError when the system cannot, ValueError for what subprocess refuses.
    """
    with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
        stdin_fd, stdin_end = _pipe(stdin, False, ours, theirs)
        stdout_fd, stdout_end = _pipe(stdout, True, ours, theirs)
        stderr_fd, stderr_end = _pipe(stderr, True, ours, theirs)
        control, remote = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.callback(control.close)
        theirs.callback(remote.close)
        number = remote.fileno()
        front = subprocess.Popen(
            [argv[0], "--control", str(number), *argv[1:]],
            stdin=stdin_end,
            stdout=stdout_end,
            stderr=stderr_end,
            env=env,
            close_fds=True,
            pass_fds=(number, *pass_fds),
        )
        # From here on nobody but us asks for the front's status, by its pidfd: Popen must neither
        # wait for it nor warn that nobody did.
        front.returncode = 0
        # A stray waitpid(-1) in another thread could take the front away before this line, and
        # its number be given to somebody else; `started` names the front, and is compared.
        pidfd = os.pidfd_open(front.pid)
        ours.pop_all()
        return Spawned(front.pid, pidfd, control, stdin_fd, stdout_fd, stderr_fd)


def user_number(user: str | int | None) -> int | None:
    """A uid, from a name or a number, as subprocess does it. Raises ValueError for no user."""
    if not isinstance(user, str):
        return user
    import pwd

    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        raise ValueError(f"there is no user {user!r}") from None


def group_number(group: str | int | None) -> int | None:
    """A gid, from a name or a number. Raises ValueError for no group."""
    if not isinstance(group, str):
        return group
    import grp

    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise ValueError(f"there is no group {group!r}") from None


def _pipe(
    wanted: Redirection, reads: bool, ours: contextlib.ExitStack, theirs: contextlib.ExitStack
) -> tuple[int | None, Redirection]:
    if wanted != subprocess.PIPE:
        return None, wanted
    read_end, write_end = os.pipe()
    mine, other = (read_end, write_end) if reads else (write_end, read_end)
    ours.callback(os.close, mine)
    theirs.callback(os.close, other)
    return mine, other
