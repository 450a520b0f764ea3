"""The errors of this library. Each says what to do next."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lastout.outcome import Outcome

__all__ = [
    "ExecutionFailed",
    "HandleInert",
    "LastoutError",
    "LimitReached",
    "Refused",
    "RunFailed",
    "SupervisorMissing",
    "in_words",
]


class LastoutError(Exception):
    """The base of this library's own errors."""


class SupervisorMissing(LastoutError):
    """The native supervisor is not part of this installation; nothing was started."""


class Refused(LastoutError):
    """A rule forbids this run; nothing was started. `reason` is `owner`, `lock` or `epoch`."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(reason, message)
        self.reason = reason
        self.message = message

    def __str__(self) -> str:
        return self.message or f"the run was refused ({self.reason})"


class ExecutionFailed(LastoutError):
    """The supervisor ended without a word before the command ran; `status` is its exit status."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message, status)
        self.message = message
        self.status = status

    def __str__(self) -> str:
        return self.message


class LimitReached(LastoutError, OSError):
    """No descriptors for another run; nothing was started. The text names the limit."""

    def __str__(self) -> str:
        return self.strerror or "no descriptors for another run; nothing was started"


class HandleInert(LastoutError):
    """This handle was inherited through a fork: use it in the process that started the run."""


class RunFailed(LastoutError, subprocess.CalledProcessError):
    """The command of `run_process(check=True)` did not end with status 0; see `outcome`."""

    def __init__(
        self, args: Any, stdout: bytes | None, stderr: bytes | None, outcome: Outcome
    ) -> None:
        self.outcome = outcome
        # Where nobody knows the status it stays None, which the base class cannot put into words.
        status: Any = outcome.returncode
        subprocess.CalledProcessError.__init__(self, status, args, stdout, stderr)

    def __str__(self) -> str:
        where = f"; see {self.outcome.record}" if self.outcome.record else ""
        if self.outcome.stop is not None:
            return f"Command {self.cmd!r} was stopped ({self.outcome.stop.trigger}){where}"
        if self.outcome.returncode is None:
            return f"Command {self.cmd!r}: how it ended is not known{where}"
        return subprocess.CalledProcessError.__str__(self)


def in_words(error: Exception) -> str:
    """What a person is told of an error: the system's own word and the file, without its number."""
    if isinstance(error, OSError) and error.strerror and not isinstance(error, LastoutError):
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)
