"""What services tell people, in one place."""

from __future__ import annotations

from typing import Final

__all__ = [
    "ENDINGS",
    "NO_SERVICE_PROCESS",
    "SERVES_ALREADY",
    "already_running",
    "bad_name",
    "busy",
    "damaged",
    "joined",
    "member_asks",
    "newer",
    "no_account",
    "no_activation",
    "no_program",
    "no_service",
    "not_root",
    "not_running",
    "result_directory",
    "taken",
]

NO_SERVICE_PROCESS: Final = (
    "no service process of this state directory is running, so nobody outside of the caller's tree "
    "can start the work; its owner starts one with `lastout service serve`. Nothing was written"
)
SERVES_ALREADY: Final = "a service process of this state directory is running already"

ENDINGS: Final = {
    "itself": "ended by itself",
    "owner": "was stopped by its owner",
    "deadline": "was stopped at its deadline",
    "signal": "was stopped by a signal",
    "supervisor-lost": "lost its supervisor, and was ended",
    "reboot": "ended with the machine, which was started anew since",
    "not-started": "could not be started",
}
"""How an activation ended, by the code in `ended_by`."""


def bad_name(name: str) -> str:
    """No name of a service."""
    return (
        f"a service's name is 1 to 48 of A-Z a-z 0-9 . _ - and begins with a letter or a digit, "
        f"not {name!r}"
    )


def no_service(name: str) -> str:
    """Nobody has provisioned it."""
    return f"there is no service {name!r}: `lastout service list` has those that its owner added"


def no_activation(name: str, activation: str) -> str:
    """No such activation."""
    return f"the service {name!r} has no activation {activation!r}"


def taken(name: str) -> str:
    """The name is in use."""
    return f"there is a service {name!r} already; --replace gives it another definition"


def newer(path: str, version: int) -> str:
    """The file of a later version."""
    return f"{path} was written by a newer version of lastout (format {version}); use that one"


def damaged(path: str, why: object) -> str:
    """A file that cannot be read."""
    return f"{path} cannot be read: {why}"


def busy(name: str, seconds: float) -> str:
    """The steps' lock is held."""
    return f"another process has been taking a step with {name!r} for more than {seconds:g} s"


def already_running(name: str, activation: str) -> str:
    """A new activation was asked for while one runs."""
    return (
        f"{name!r} is running as activation {activation}; wait for it, or let its owner stop it: "
        f"lastout service stop {name}"
    )


def joined(name: str, activation: str) -> str:
    """A start that found one running."""
    return f"{name} was running already: this is its activation {activation}"


def not_running(name: str) -> str:
    """Nothing to stop."""
    return f"no activation of {name!r} is under way"


def member_asks(what: str, run: str | None) -> str:
    """An agent, or its tool, asks for what is the owner's."""
    who = f"run {run}" if run else "a run"
    return (
        f"{what} is for the service's owner, and this was asked from inside {who}; "
        "ask from outside of it, or with the owner's --token. Nothing was changed"
    )


def not_root(account: str) -> str:
    """Another account was asked for."""
    return f"only root can run a service as {account!r}; add it as root, or leave --user out"


def no_account(what: str, name: str) -> str:
    """The account is not there."""
    return f"there is no {what} {name!r} on this machine"


def no_program(program: str, path: str | None) -> str:
    """The command is not there."""
    return f"{program!r} is not an executable file, nor on the service's PATH ({path})"


def result_directory(path: str, why: object) -> str:
    """The result file could not be made there."""
    return f"the result cannot be written to {path}: {why}"
