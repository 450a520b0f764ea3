"""`lastout job list|show|log|wait|result`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from lastout.cli._job_words import (
    JOB,
    event_line,
    job_of,
    say_json,
    since,
    story,
    verdict,
    visible,
    waited,
)
from lastout.cli._options import JSON, THERE
from lastout.cli._plain import plain
from lastout.cli._tables import columns
from lastout.jobs.store import open_jobs

if TYPE_CHECKING:
    from lastout.jobs.result import Result
    from lastout.jobs.status import Status

__all__ = ["COMMANDS"]

_STATES = ("queued", "starting", "running", "idle", "ended")
_ENDS = ("done", "failed")
"""How `ended` is told in the list."""


@click.command("list")
@click.option("--by", metavar="WHO", help="Only jobs of this asker.")
@click.option(
    "--only",
    type=click.Choice([*_STATES, *_ENDS]),
    multiple=True,
    help="In this state (repeatable); done and failed are ended.",
)
@click.option("--open", "is_open", is_flag=True, help="Only jobs that have not ended.")
@JSON
@THERE
def list_jobs(
    by: str | None, only: tuple[str, ...], is_open: bool, as_json: bool, state: str | None
) -> None:
    """List the jobs, the newest last.

    \b
    Examples:
      lastout job list --open
      lastout job list --only failed
      lastout job list --by ci --json
    """
    with plain():
        wanted = {*only, *(_STATES[:-1] if is_open else ())}
        found = [
            one
            for one in open_jobs(state).list(by=by)
            if not wanted or wanted & {one.state, _end(one)}
        ]
        if as_json:
            say_json(found)
            return
        if not found:
            click.echo("no job is open" if is_open and not only else "there is no job")
            return
        rows: list[tuple[str, ...]] = [("JOB", "STATE", "AGE", "BY", "NAME", "WHAT")]
        rows += (
            (one.id, _state(one), since(one.queued_at), one.by, one.name or "-", one.title[:100])
            for one in found
        )
        click.echo("\n".join(columns(rows)))


def _end(status: Status) -> str | None:
    if not status.ended:
        return None
    return "failed" if status.failed else "done"


def _state(status: Status) -> str:
    if (end := _end(status)) is not None:
        return end
    if status.problem:
        return f"{status.state} (!)"
    return f"{status.state} (asks)" if status.questions else status.state


@click.command("show")
@JOB
@JSON
@THERE
def show(job: str, as_json: bool, state: str | None) -> None:
    """Say what a job is doing, what it asks, and what came of it.

    JOB is an id, the beginning of one, a name, or `last`.
    """
    with plain():
        found = job_of(job, state)
        status = found.status()
        turns = [*status.results, *((0,) if status.ended else ())]
        results = [one for turn in turns if (one := _maybe(found, turn)) is not None]
        if as_json:
            say_json({"status": status, "results": results})
        else:
            click.echo("\n".join(story(status, results)))


def _maybe(job: object, turn: int) -> Result | None:
    from lastout.jobs import reading
    from lastout.jobs.job import Job

    assert isinstance(job, Job)
    return reading.result(job.state, job.id, turn)


@click.command("log")
@JOB
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended.")
@click.option("--after", type=click.IntRange(min=0), default=0, help="Only events above a number.")
@click.option("--output", type=click.Choice(["stdout", "stderr"]), help="A command's output.")
@JSON
@THERE
def log(
    job: str, follow: bool, after: int, output: str | None, as_json: bool, state: str | None
) -> None:
    """Print what has happened in a job, or what its command printed.

    \b
    Examples:
      lastout job log nightly -f
      lastout job log nightly --output stdout
    """
    from lastout.cli._job_live import copy, follow_output
    from lastout.jobs.capture import Reader

    if as_json and output is not None:
        raise click.UsageError("--json is for the events; --output prints bytes as they are")
    with plain():
        found = job_of(job, state)
        if output is not None:
            if follow:
                follow_output(found, (output,))
            else:
                for part in Reader(found.directory, output).more():
                    copy("stdout" if isinstance(part, bytes) else output, part)
            return
        events = found.follow_blocking(after) if follow else found.feed(after)
        for event in events:
            if as_json:
                say_json(event)
            else:
                click.echo(event_line(event))


@click.command("wait")
@JOB
@click.option("--timeout", type=click.FloatRange(min=0), metavar="SECONDS")
@click.option("--turn", type=click.IntRange(min=1), help="A turn (default: until it rests).")
@JSON
@THERE
def wait(
    job: str, timeout: float | None, turn: int | None, as_json: bool, state: str | None
) -> None:
    """Wait until a job has its result. Exit status: 0 done, 1 failed, 124 not within the time.

    With --json its result is printed, and its status where the time was over first.
    """
    with plain():
        found = job_of(job, state)
        result = waited(found, timeout, turn, instead=found.status if as_json else None)
    _tell(result, as_json)
    _leave(result)


@click.command("result")
@JOB
@click.option("--turn", type=click.IntRange(min=1), help="A turn (default: the newest).")
@click.option("--take", "taker", metavar="ME", help="Take it: nobody else can, you can again.")
@JSON
@THERE
def result(job: str, turn: int | None, taker: str | None, as_json: bool, state: str | None) -> None:
    """Print the result of a job, and take it with --take. Exit status: 0 done, 1 failed.

    Of a command what is kept of its output follows: its stdout, and its stderr on stderr.

    \b
    Examples:
      lastout job result nightly --json
      lastout job result nightly --take ci-1234
    """
    from lastout.cli._job_live import copy
    from lastout.jobs.capture import Reader

    with plain():
        found = job_of(job, state)
        one = found.result(turn) if taker is None else found.take(taker, turn)
        _tell(one, as_json, taker)
        if not as_json:
            for name in ("stdout", "stderr"):
                if getattr(one, name) is not None:
                    for part in Reader(found.directory, name).more():
                        copy(name, part)
    _leave(one)


def _tell(result: Result, as_json: bool, taker: str | None = None) -> None:
    if as_json:
        say_json(result)
        return
    taken = "" if taker is None else f" (taken by {visible(taker)})"
    click.echo(f"{result.job}: {verdict(result)}{taken}")
    if result.answer:
        click.echo("\n".join(visible(line) for line in result.answer.splitlines()))


def _leave(result: Result) -> None:
    sys.exit(1 if result.failed else 0)


COMMANDS = {one.name or "": one for one in (list_jobs, show, log, wait, result)}
