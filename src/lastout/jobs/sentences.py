"""What jobs tell people, in one place."""

from __future__ import annotations

from typing import Final

__all__ = [
    "ASKER_GONE",
    "NEVER_STARTED",
    "NO_ROUTE",
    "RUNNER_GONE",
    "RUNNER_LOST",
    "SERVE_INSIDE",
    "already_answered",
    "another_boot",
    "cancelled",
    "damaged",
    "ended",
    "ended_with",
    "left",
    "name_taken",
    "never_started",
    "newer",
    "no_answer",
    "no_choice",
    "no_messages",
    "no_result",
    "no_such_job",
    "no_text",
    "not_ended",
    "not_questioned",
    "not_started",
    "not_taken",
    "served",
    "short_of_room",
    "still_running",
    "stopped",
    "taken_by",
    "timed_out",
    "too_many",
    "turn_raised",
]

ASKER_GONE: Final = "the death of its asker"
RUNNER_GONE: Final = "its runner is gone; whoever waits for it, or the next runner, ends it"
RUNNER_LOST: Final = "its runner was lost (killed, or it crashed)"
NEVER_STARTED: Final = "nothing had been started"
NO_ROUTE: Final = (
    "this process belongs to a run of lastout, whose end would end the job too, and nobody outside "
    "that run is there to start it. Let the owner of this machine run `lastout job serve` (or "
    "`lastout service serve`) outside of any run, and submit again. Nothing was written"
)


SERVE_INSIDE: Final = (
    "this process belongs to a run of lastout, and what it starts would end with that run; start "
    "it outside of any run, or say --inside where that is what you want (a container's own run)"
)


def served(state: str) -> str:
    """For a second server."""
    return f"another `lastout job serve` serves {state}"


def no_such_job(word: str) -> str:
    """For an id, a name or a beginning that means nothing."""
    return f"there is no job {word!r}; `lastout job list` shows them"


def too_many(word: str, found: list[str]) -> str:
    """For a beginning that means several."""
    more = ", …" if len(found) > 4 else ""
    return f"{word!r} is the beginning of {len(found)} jobs: {', '.join(sorted(found)[:4])}{more}"


def newer(job: str, version: int) -> str:
    """For files of a later version."""
    return (
        f"job {job} was written by a later version of lastout (format {version}); "
        "it is left as it is: update lastout to use it"
    )


def damaged(path: str, why: str) -> str:
    """For files that nobody can read."""
    return f"{path} cannot be read: {why}"


def name_taken(name: str, job: str, state: str) -> str:
    """For a second job of one name."""
    return (
        f"job {job} is named {name!r} and has not ended ({state}); choose another name, wait for it, "
        "or cancel it. Nothing was written"
    )


def ended(job: str, *, agent: bool) -> str:
    """For a message after the end."""
    how = f"; `lastout job submit --continue {job}` goes on in a new job" if agent else ""
    return f"job {job} has ended and takes no more messages{how}"


def no_messages(job: str) -> str:
    """For a message to a command."""
    return f"job {job} is a plain command: it takes no messages"


def no_text(state: str) -> str:
    """For a state directory whose name is bytes."""
    return f"the state directory {state!r} is not UTF-8: jobs cannot be kept in it"


def not_ended(job: str) -> str:
    """For removing what runs."""
    return f"job {job} has not ended: cancel it, and wait for its end, before you remove it"


def not_taken(job: str) -> str:
    """For removing what nobody has."""
    return (
        f"the result of job {job} has not been taken: `lastout job result {job} --take ME`, "
        "or remove it with --untaken"
    )


def no_result(job: str, turn: int | None, *, ended: bool) -> str:
    """For a result that is not there yet, or never will be."""
    if ended:
        return f"job {job} has ended, and had no turn {turn}"
    which, option = ("", "") if turn is None else (f"turn {turn} of ", f" --turn {turn}")
    return f"{which}job {job} has no result yet; `lastout job wait {job}{option}` waits for it"


def taken_by(job: str, turn: int, taker: str) -> str:
    """For a second taker."""
    return f"the result of turn {turn} of job {job} has been taken by {taker!r}"


def not_questioned(job: str, question: str) -> str:
    """For an answer that nobody waits for."""
    return f"job {job} does not wait for an answer to {question!r}; `lastout job show {job}` says"


def already_answered(job: str, question: str) -> str:
    """For a second answer."""
    return f"{question!r} of job {job} has been answered already"


def no_choice(choice: str, choices: list[str]) -> str:
    """For an answer that is none of the choices."""
    return f"{choice!r} is none of the choices: {', '.join(choices)}"


def no_answer() -> str:
    """For an empty answer."""
    return "an answer needs a choice, a text or fields"


def ended_with(code: int | None, signal: int | None) -> str:
    """The native end of a command."""
    if signal is not None:
        import signal as signals

        try:
            name = signals.Signals(signal).name
        except ValueError:
            name = str(signal)
        return f"it was ended by signal {name}"
    return "how it ended is not known" if code is None else f"it ended with status {code}"


def stopped(by: str | None) -> str:
    """For a stop that nobody asked a job for."""
    return f"it was stopped: {by}" if by else "it was stopped"


def never_started(by: str | None) -> str:
    """For a cancel of what had not begun."""
    return f"{cancelled(by)}; {NEVER_STARTED}"


def cancelled(by: str | None) -> str:
    """For a cancel."""
    return f"it was cancelled by {by}" if by else "it was cancelled"


def timed_out(seconds: float | None) -> str:
    """For a turn that took too long."""
    return f"it had not ended after {seconds:g} s" if seconds else "its time was over"


def left(count: int | None) -> str:
    """For a tree that was not proven empty."""
    if count is None:
        return "nobody can say whether something of it is still running"
    return f"{count} of its processes could not be stopped and may still be running"


def not_started(why: str) -> str:
    """For what could not be started."""
    return f"it could not be started: {why}"


def another_boot() -> str:
    """For a machine that was restarted."""
    return "the machine was restarted while it ran"


def still_running(job: str, seconds: float) -> str:
    """For a wait that took too long."""
    return f"job {job} has no result after {seconds:g} s; it goes on"


def short_of_room(why: str) -> str:
    """For a result that did not fit."""
    return f"some of it was left out: {why}"


def turn_raised(error: BaseException) -> str:
    """For a defect of ours."""
    return f"{type(error).__name__}: {error}"
