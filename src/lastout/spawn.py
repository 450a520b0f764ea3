"""Start a front: pipes and control socket of our own, the rest as subprocess does it.

Nothing here waits, and nothing is left open when it fails.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Final

from lastout.link import front_pidfd, limit_named, pair

__all__ = ["DESCRIPTORS", "Redirection", "Spawned", "group_number", "spawn", "user_number"]

DESCRIPTORS: Final = 3
"""What a run takes of this process besides its pipes: control socket, pidfd, the epoll of both."""

_AT_START: Final = 12
"""What a start takes for a moment: those, both ends of three pipes, and the standard library's."""

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

    def close(self) -> None:
        """Close all of it: the front hears its owner hang up, and stops."""
        self.control.close()
        for fd in (self.pidfd, self.stdin, self.stdout, self.stderr):
            if fd is not None:
                os.close(fd)


def spawn(
    argv: Sequence[str],
    *,
    stdin: Redirection,
    stdout: Redirection,
    stderr: Redirection,
    env: Mapping[str, str] | Mapping[bytes, bytes] | None,
    pass_fds: Iterable[int],
    new_session: bool = False,
) -> Spawned:
    """Start `argv`, which begins with the supervisor, and give it the control socket.

    Raises LimitReached when the descriptors do not suffice, another OSError when the system cannot,
    ValueError for what subprocess refuses; then nothing runs.
    """
    with (
        limit_named(_AT_START),
        contextlib.ExitStack() as theirs,
        contextlib.ExitStack() as ours,
    ):
        stdin_fd, stdin_end = _pipe(stdin, False, ours, theirs)
        stdout_fd, stdout_end = _pipe(stdout, True, ours, theirs)
        stderr_fd, stderr_end = _pipe(stderr, True, ours, theirs)
        control, remote = pair()
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
            # The front too: in the terminal's foreground group it would hear the terminal's
            # Ctrl-C, and take it for a stop.
            start_new_session=new_session,
        )
        # From here on nobody but us asks for the front's status, by its pidfd: Popen must neither
        # wait for it nor warn that nobody did.
        front.returncode = 0
        # What the standard library has given back by now is enough for the pidfd and the epoll.
        try:
            pidfd = front_pidfd(front.pid)
        except OSError:
            # Another thread took the last descriptor. While the front is our unreaped child, the
            # number is its own; its keeper ends what it may have started.
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, front.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                os.kill(front.pid, signal.SIGKILL)
                os.waitpid(front.pid, 0)
            raise
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
