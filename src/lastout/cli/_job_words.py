"""What the commands about jobs share: which job is meant, and how jobs are told to people."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
import msgspec

from lastout.jobs.errors import NoSuchJob
from lastout.jobs.store import open_jobs

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from lastout.jobs.feed import FeedEvent
    from lastout.jobs.job import Job
    from lastout.jobs.result import Output, Process, Result
    from lastout.jobs.status import Status

__all__ = [
    "JOB",
    "event_line",
    "job_of",
    "say_json",
    "since",
    "story",
    "verdict",
    "visible",
    "waited",
]


def _ids(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    with contextlib.suppress(OSError):
        store = open_jobs(context.params.get("state"))
        return [CompletionItem(one) for one in sorted(store.ids(), reverse=True)[:40]
                if one.startswith(typed)]  # fmt: skip
    return []


JOB = click.argument("job", metavar="JOB", shell_complete=_ids)


def visible(text: object) -> str:
    """What a program printed, safe for a terminal (imported late: a submit prints nothing)."""
    from lastout.evidence.words.parts import visible as shown

    return shown(text)


def job_of(word: str, state: str | None) -> Job:
    """The job that a person means; `last` is the newest, unless one has that name."""
    store = open_jobs(state)
    try:
        return store.get(word)
    except NoSuchJob:
        if word != "last" or not (found := store.list()):
            raise
        return store.get(found[-1].id)


def waited(
    job: Job,
    timeout: float | None,
    turn: int | None = None,
    *,
    instead: Callable[[], object] | None = None,
) -> Result:
    """The result once it is there; when the time is over first, that is said and the status 124.

    `instead` is printed as JSON then.
    """
    try:
        return job.wait(timeout, turn)
    except TimeoutError as error:
        click.echo(f"lastout job: {error}", err=True)
        if instead is not None:
            say_json(instead())
        sys.exit(124)


def say_json(value: Any) -> None:
    """One document, one line."""
    click.echo(msgspec.json.encode(value).decode())


def since(moment: str | None) -> str:
    """How long ago a time was."""
    from lastout.cli._tables import age

    if not moment:
        return "-"
    try:
        then = datetime.fromisoformat(moment)
    except ValueError:
        return moment
    return age(max(0.0, (datetime.now(UTC) - then).total_seconds()))


def verdict(result: Result) -> str:
    """One line for people."""
    if not result.failed:
        return "done"
    return f"failed: {visible(result.reason or result.why)}"


def story(status: Status, results: list[Result]) -> Iterator[str]:
    """`lastout job show`."""
    yield f"job       {status.id}" + (f"  ({visible(status.name)})" if status.name else "")
    yield f"what      {visible(status.title)}"
    yield f"where     {visible(status.cwd)}"
    yield f"asked by  {visible(status.by)}, {since(status.queued_at)} ago"
    state: str = status.state
    if status.place is not None:
        state += f", {status.place} before it"
    if status.idle_until:
        state += f" until {status.idle_until}"
    yield f"state     {state}" + (f", turn {status.turn}" if status.turn > 1 else "")
    if status.problem:
        yield f"problem   {visible(status.problem)}"
    if status.runner is not None and not status.ended:
        alive = {True: "alive", False: "gone", None: "not known"}[status.runner_alive]
        yield f"runner    pid {status.runner.pid}, {alive}"
    if status.run:
        yield f"run       {status.run}  (lastout why {status.run})"
    if status.progress and not status.ended:
        yield f"now       {visible(status.progress)}"
    for one in status.questions:
        yield f"asks      [{visible(one.id)}] {visible(one.prompt)}"
        for choice in one.choices:
            yield f"            {visible(choice.id)}: {visible(choice.label or choice.meaning)}"
    if status.waiting_messages:
        yield f"messages  {status.waiting_messages} wait for the next turn"
    for result in results:
        yield from _result(result, status)


def _result(result: Result, status: Status) -> Iterator[str]:
    which = f"turn {result.turn}" if result.turn else "the end"
    took = "taken" if result.turn in status.taken else "not taken"
    yield f"{which:<9} {verdict(result)}" + (f" ({took})" if result.turn else "")
    if result.ended_by:
        yield f"            ended by {visible(result.ended_by)} ({result.why})"
    if result.stopped_count:
        yield f"            stopped {result.stopped_count}: {_names(result.stopped)}"
    if result.remaining_count:
        yield f"            still running {result.remaining_count}: {_names(result.remaining)}"
    for lock in result.locks:
        where = visible(lock.path or f"device {lock.device} inode {lock.inode}")
        yield f"            pid {lock.pid} ({visible(lock.name)}) held {lock.kind} on {where}"
    for name in ("stdout", "stderr"):
        output: Output | None = getattr(result, name)
        if output is not None and output.total:
            dropped = f", {output.dropped} dropped" if output.dropped else ""
            error = f" ({visible(output.error)})" if output.error else ""
            yield f"            {name}: {output.total} bytes{dropped}{error}"
    if result.undelivered:
        yield f"            not delivered: {', '.join(map(visible, result.undelivered))}"
    if result.answer:
        yield ""
        yield from (visible(line) for line in result.answer.splitlines())


def _names(processes: tuple[Process, ...]) -> str:
    told = [f"{one.pid} {visible(one.name)}".strip() for one in processes[:8]]
    return ", ".join(told) + (", …" if len(processes) > 8 else "")


def event_line(event: FeedEvent) -> str:
    """One event of a feed for people."""
    from lastout.jobs import feed

    match event:
        case feed.Started():
            text = f"started, run {event.run}" if event.run else "started"
        case feed.TurnBegan():
            text = f"turn {event.turn}" + (f", message {event.message}" if event.message else "")
        case feed.Progress() | feed.Notice():
            text = event.text
        case feed.CommandRan():
            end = event.status or "?" if event.exit_code is None else f"exit {event.exit_code}"
            text = f"$ {event.command}  [{end}]"
        case feed.Text():
            text = f"{event.role}: {event.text}"
        case feed.Questioned():
            choices = ", ".join(one.id for one in event.question.choices)
            text = f"asks [{event.question.id}] {event.question.prompt} ({choices})"
        case feed.Answered():
            by = f" by {event.by}" if event.by else ""
            text = f"answered [{event.question}] {event.choice or ''}{by}"
        case feed.MessageTaken():
            text = f"message {event.id}: {event.text}"
        case feed.TurnEnded():
            text = f"turn {event.turn} ended: " + (event.reason or event.why)
        case feed.Ended():
            text = "ended: " + (event.reason or event.why)
        case _:
            text = msgspec.json.encode(event).decode()
    # Line by line, so that an answer reads as it was written, and none of its lines as an event.
    told = ("\n" + " " * 10).join(visible(line) for line in text.rstrip().splitlines())
    return f"{event.at[11:19]}  {told}"
