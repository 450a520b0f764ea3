"""`lastout job cancel|message|answer|remove|prune|serve|limit`."""

from __future__ import annotations

import getpass
import os
from typing import Any

import click

from lastout.cli._job_words import JOB, job_of, say_json, waited
from lastout.cli._options import DRY_RUN, JSON, KEEP, STATE
from lastout.cli._plain import plain
from lastout.jobs.store import open_jobs

__all__ = ["COMMANDS"]


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


@click.command("cancel")
@JOB
@click.option("--now", is_flag=True, help="SIGKILL at once, without the graces.")
@click.option("--wait", "waits", is_flag=True, help="Return when it has ended.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="With --wait: no longer than this; then the exit status is 124.",
)
@click.option("--by", metavar="WHO", help="Who asks, for the result (default: your login).")
@JSON
@STATE
def cancel(
    job: str,
    now: bool,
    waits: bool,
    timeout: float | None,
    by: str | None,
    as_json: bool,
    state: str | None,
) -> None:
    """End a job: politely, then completely. One that waits in the queue never starts."""
    if timeout is not None and not waits:
        raise click.UsageError("--timeout is for --wait")
    with plain():
        found = job_of(job, state)
        asked = found.cancel(by=by or _user(), grace=0 if now else None)
        if waits:
            late = {"job": found.id, "asked": asked, "ended": False}
            waited(found, timeout, instead=(lambda: late) if as_json else None)
        if as_json:
            say_json({"job": found.id, "asked": asked, "ended": found.status().ended})
        elif not asked:
            click.echo(f"{found.id} had ended")


@click.command("message")
@JOB
@click.argument("text")
@click.option("--id", "key", help="A name of your own: with the same one again nothing happens.")
@click.option("--by", metavar="WHO")
@JSON
@STATE
def message(
    job: str, text: str, key: str | None, by: str | None, as_json: bool, state: str | None
) -> None:
    """Ask an agent's job for another turn; prints the message's id."""
    with plain():
        found = job_of(job, state)
        sent = found.message(text, id=key, by=by)
        if as_json:
            say_json({"job": found.id, "message": sent})
        else:
            click.echo(sent)


@click.command("answer")
@JOB
@click.argument("question")
@click.argument("choice", required=False)
@click.option("--text", help="An answer in words.")
@click.option("--field", "fields", multiple=True, metavar="NAME=VALUE", help="For a form.")
@click.option("--by", metavar="WHO")
@STATE
def answer(
    job: str,
    question: str,
    choice: str | None,
    text: str | None,
    fields: tuple[str, ...],
    by: str | None,
    state: str | None,
) -> None:
    """Answer what a job's agent asks (`lastout job show JOB` has the question and its choices).

    \b
    Example:
      lastout job answer fix-it q1 allow
    """
    pairs: dict[str, Any] = dict(word.partition("=")[::2] for word in fields)
    with plain():
        found = job_of(job, state)
        found.answer(question, choice, text=text, fields=pairs, by=by or _user())


@click.command("remove")
@click.argument("jobs", metavar="JOB...", nargs=-1, required=True)
@click.option("--untaken", is_flag=True, help="Also when nobody has taken its result.")
@STATE
def remove(jobs: tuple[str, ...], untaken: bool, state: str | None) -> None:
    """Delete jobs that have ended, with their output. Their runs' records stay."""
    with plain():
        for word in jobs:
            job_of(word, state).remove(untaken=untaken)


@click.command("prune")
@click.option("--older-than", metavar="AGE", help="What ended longer ago, like 30d, 12h.")
@KEEP
@click.option("--untaken", is_flag=True, help="Also when nobody has taken the result.")
@DRY_RUN
@JSON
@STATE
def prune(
    older_than: str | None,
    keep: int | None,
    untaken: bool,
    dry_run: bool,
    as_json: bool,
    state: str | None,
) -> None:
    """Delete ended jobs that are too old or too many, with their output.

    What has not ended stays, and so does a result that nobody has taken. The records of their runs
    have a policy of their own (lastout index prune).

    \b
    Examples:
      lastout job prune --older-than 30d --dry-run
      lastout job prune --keep 1000 --untaken
    """
    from lastout.evidence.retention import parse_age

    if older_than is None and keep is None:
        raise click.UsageError("say what is too much: --older-than or --keep")
    with plain():
        age = None if older_than is None else parse_age(older_than)
        found = open_jobs(state).prune(age, keep, untaken=untaken, dry_run=dry_run)
    if as_json:
        say_json({"removed": found.removed, "kept": found.kept, "dry_run": dry_run})
        return
    verb = "would be removed" if dry_run else "removed"
    count = len(found.removed)
    click.echo(f"{count} job{'' if count == 1 else 's'} {verb}")
    for why in found.kept.values():
        click.echo(f"stays: {why}")


@click.command("serve")
@click.option("--inside", is_flag=True, help="Also below a run; the jobs end with it then.")
@STATE
def serve(inside: bool, state: str | None) -> None:
    """Start jobs for callers that belong to a run of lastout, which must not start them.

    For machines on which agents submit jobs. It sleeps until something is queued, holds nothing of
    a job, and may be ended and started again at any time.
    """
    from lastout.jobs.serving import serve as serve_jobs

    with plain():
        try:
            serve_jobs(open_jobs(state).state, inside=inside)
        except KeyboardInterrupt:
            return


@click.command("limit")
@click.argument("number", type=click.IntRange(1, 256), required=False)
@JSON
@STATE
def limit(number: int | None, as_json: bool, state: str | None) -> None:
    """Say, or change, how many jobs run at once."""
    with plain():
        store = open_jobs(state)
        if number is not None:
            store.set_limit(number)
        if as_json:
            say_json({"limit": store.limit})
        else:
            click.echo(store.limit)


COMMANDS = {one.name or "": one for one in (cancel, message, answer, remove, prune, serve, limit)}
