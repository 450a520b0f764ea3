"""What subprocess hands to its own start, turned into a start of the supervisor. Pure but for the
standard library's order of arguments, which it reads from there."""

from __future__ import annotations

import os
import subprocess
from typing import Any, Final

from lastout import supervisor

__all__ = ["Handed"]

_LARGEST_ID: Final = 2**32 - 2  # (uid_t) -1 is "leave it"

# The standard library hands its arguments over by position, in an order that is not documented.
_code = subprocess.Popen._execute_child.__code__  # type: ignore[attr-defined]
_NAMES = _code.co_varnames[1 : _code.co_argcount]


class Handed:
    """The arguments of one start. `program` and `cwd` are what its errors name."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        self._call: dict[str, Any] = dict(zip(_NAMES, values, strict=True))
        self._words, program = _words(
            self._call["args"], self._call["executable"], self._call["shell"]
        )
        first = self._words[0]
        self._argv0 = None if first == program else first
        self._words[0] = program
        self.program = os.fsdecode(program)
        self.cwd = None if self._call["cwd"] is None else os.fsdecode(self._call["cwd"])

    def with_supervisor(self, control: int, **options: Any) -> tuple[Any, ...]:
        """The arguments of a start of the supervisor that does the same for the command.

        `control` is its end of the control socket. What concerns the command alone (directory,
        user, umask) goes to the supervisor, so that it does not concern the supervisor itself.
        """
        call = self._call
        closing = bool(call["close_fds"])
        kept = tuple(call["pass_fds"])
        command = supervisor.command(
            self._words,
            control=control,
            close_fds=closing,
            keep_fds=[fd for fd in kept if fd > 2] if closing else (),
            # The front gets a session of its own as well, away from our terminal's signals.
            new_session=bool(call["start_new_session"]),
            argv0=self._argv0,
            cwd=call["cwd"],
            umask=call["umask"] if call["umask"] >= 0 else None,
            uid=_id("user", call["uid"]),
            gid=_id("group", call["gid"]),
            groups=_groups(call["gids"]),
            **options,
        )
        changed = {
            "args": command,
            "executable": None,
            "shell": False,
            "cwd": None,
            "umask": -1,
            "uid": None,
            "gid": None,
            "gids": None,
            # Without close_fds the descriptor is inheritable, and the supervisor closes it.
            "pass_fds": (*kept, control) if closing else kept,
        }
        return tuple({**call, **changed}.values())

    @property
    def inherits_all(self) -> bool:
        """Whether the command is to get every inheritable descriptor (`close_fds=False`)."""
        return not self._call["close_fds"]


def _words(args: Any, executable: Any, shell: bool) -> tuple[list[Any], Any]:
    """The command's arguments and its program, from what subprocess takes (see its docs)."""
    if isinstance(args, os.PathLike) and shell:
        raise TypeError("path-like args is not allowed when shell is true")
    words = [args] if isinstance(args, str | bytes | os.PathLike) else list(args)
    if shell:
        words = [executable or "/bin/sh", "-c", *words]
        return words, words[0]
    return words, words[0] if executable is None else executable


def _groups(numbers: Any) -> Any:
    if numbers is not None and any(number > _LARGEST_ID for number in numbers):
        raise ValueError("invalid group id")
    return numbers


def _id(what: str, number: Any) -> Any:
    if number is not None and number > _LARGEST_ID:
        raise OverflowError(f"{what} {number} is greater than maximum")
    return number
