"""What services tell people, in one place."""

from __future__ import annotations

from typing import Final

__all__ = [
    "ENDED_FIRST",
    "ENDINGS",
    "GOES_ON",
    "NO_SERVICE_PROCESS",
    "NO_TIME",
    "SERVES_ALREADY",
    "STARTS_LATER",
    "STOPPED_BEFORE",
    "WRONG_TOKEN",
    "already_running",
    "bad_name",
    "busy",
    "came_to_nothing",
    "damaged",
    "how_it_ended",
    "joined",
    "member_asks",
    "never_started",
    "newer",
    "no_account",
    "no_activation",
    "no_answer",
    "no_manager",
    "no_program",
    "no_service",
    "no_such",
    "not_over",
    "not_root",
    "not_running",
    "not_settled",
    "not_started",
    "not_started_yet",
    "result_directory",
    "run_by",
    "strange_listener",
    "systemctl_failed",
    "taken",
    "unit_not_started",
    "unproven",
]

NO_SERVICE_PROCESS: Final = (
    "no service process of this state directory is running, so nobody outside of the caller's tree "
    "can start the work; its owner starts one with `lastout service serve`. Nothing was written"
)
ENDED_FIRST: Final = (
    "the service process ended before it answered; it may have taken the request: "
    "`lastout service status` says so"
)
GOES_ON: Final = "it goes on"
NO_TIME: Final = "a deadline of 0 s leaves no time for anything; leave it out"
STARTS_LATER: Final = "accepted, and started when its owner runs `lastout service serve` again"
STOPPED_BEFORE: Final = "it was stopped before it was started"
WRONG_TOKEN: Final = "this is not the token of the service's owner"
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


def joined(name: str, activation: str, *, ended: bool) -> str:
    """A start that found one running, or the retry of a request whose activation is there."""
    if ended:
        return f"{name}: this request had its activation {activation}, which has ended"
    return f"{name} was running already: this is its activation {activation}"


def not_running(name: str) -> str:
    """Nothing to stop."""
    return f"no activation of {name!r} is under way"


def member_asks(what: str, run: str | None, *, token: bool) -> str:
    """An agent, or its tool, asks for what is the owner's; `token`: whose token would do."""
    who = f"run {run}" if run else "a run"
    other = ", or with the owner's --token" if token else ""
    return (
        f"{what} is for the service's owner, and this was asked from inside {who}; "
        f"ask from outside of it{other}. Nothing was changed"
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


def no_answer(seconds: float, *, asked: bool) -> str:
    """The service process hangs."""
    left = "it may have taken the request: ask `lastout service status`"
    return (
        f"the service process has not answered for {seconds:g} s; "
        f"{left if asked else 'nothing was asked'}"
    )


def strange_listener(uid: int) -> str:
    """Somebody else's process is there."""
    return f"uid {uid} listens on the socket of another user's services"


def not_settled(why: object) -> str:
    """A step that could not be taken."""
    return f"it cannot be settled from here: {why}"


def not_over(name: str, activation: str, problem: str) -> str:
    """The wait is over, the activation is not."""
    return f"{name} {activation} is not over yet; {problem}"


def unproven(name: str, activation: str, verdict: str) -> str:
    """Nobody can say that it is over."""
    return f"{name} {activation}: {verdict}; nothing is published"


def not_started_yet(name: str, activation: str) -> str:
    """Durable, and nobody is there."""
    return (
        f"{name} {activation} is accepted and not started: the service process has ended; it starts "
        "when its owner runs `lastout service serve` again"
    )


def never_started(name: str) -> str:
    """No activation at all."""
    return f"{name!r} was never started"


def not_started(why: object) -> str:
    """Nothing was executed."""
    return f"it could not be started: {why}"


def came_to_nothing(count: int) -> str:
    """Start after start."""
    return f"{count} starts of its supervisor came to nothing; its output says more"


def no_such(what: str, word: str) -> str:
    """A word that is none of those that are there."""
    return f"there is no {what} {word!r}"


def no_manager(manager: str) -> str:
    """systemd is not there."""
    return f"no {manager} manager answers here; nothing was written"


def run_by(name: str, manager: str) -> str:
    """Asked of the wrong one."""
    return f"{name!r} is run by {manager}"


def unit_not_started(why: str) -> str:
    """systemd refuses."""
    return f"it is accepted, and systemd does not start it: {why}; the next start tries again"


def systemctl_failed(word: str, why: str) -> str:
    """systemd refuses something else."""
    return f"systemctl {word} failed: {why}"


def how_it_ended(ended_by: str, code: int | None, verdict: str | None, stopped: int) -> str:
    """The end of an activation: by whom, how the command ended (minus a signal, None: not seen),
    the verdict where an empty tree was not seen, and how many others were stopped."""
    text = f"it {ENDINGS[ended_by]}"
    if code is None:
        text += "; how the command itself ended was not seen"
    elif code < 0:
        text += f"; the command died by signal {-code}"
    elif code or ended_by != "itself":
        text += f"; the command ended with status {code}"
    if verdict is not None:
        text += f"; {verdict}"
    elif stopped:
        text += f"; {stopped} other {'process was' if stopped == 1 else 'processes were'} stopped"
    return text
