"""`lastout job submit` and `lastout job run`."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import click

from lastout.cli._job_words import say_json, verdict
from lastout.cli._options import JSON, STATE
from lastout.cli._plain import plain
from lastout.jobs.spec import KEEP, AgentTurn, Command
from lastout.jobs.store import open_jobs

if TYPE_CHECKING:
    from lastout.jobs.job import Job
    from lastout.jobs.result import Result

__all__ = ["COMMANDS"]

_OPTIONS = (
    click.argument("words", metavar="-- CMD [ARG]... | PROMPT", nargs=-1, type=click.UNPROCESSED),
    click.option("--agent", metavar="NAME", help="A turn of this agent; PROMPT, or - for stdin."),
    click.option("--continue", "continues", metavar="JOB", help="Go on with a job's conversation."),
    click.option("--name", help="A name; one job at a time has it."),
    click.option("--by", metavar="WHO", help="Who asks; askers take turns (default: your login)."),
    click.option("--cwd", metavar="DIR", help="The working directory (default: this one)."),
    click.option("--env", multiple=True, metavar="NAME=VALUE", help="Added to yours (repeatable)."),
    click.option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS",
                 help="Of the command, or of each turn."),
    click.option("--keep", type=click.FloatRange(min=0), default=KEEP, show_default=True,
                 metavar="SECONDS", help="How long an agent waits for another message."),
    click.option("--option", "options", multiple=True, metavar="NAME=VALUE",
                 help="Of the agent: model, approval, ... (repeatable)."),
    click.option("--program", metavar="PATH", help="The agent's program, if it is not on PATH."),
    click.option("--label", "labels", multiple=True, metavar="NAME=VALUE", help="For you to find."),
    click.option("--budget", "graces", metavar="NAME", help="The graces of the stop: a preset."),
    click.option("--contain", type=click.Choice(["subreaper", "cgroup", "pidns"]),
                 default="subreaper", show_default=True, help="How what it starts is held."),
    STATE,
)  # fmt: skip


def _with_options(function: Any) -> Any:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@click.command("submit")
@click.option("--no-capture", is_flag=True, help="Keep no output; then no Python waits with it.")
@click.option("--output", metavar="FILE", help="With --no-capture: append stdout and stderr to it.")
@JSON
@_with_options
def submit(as_json: bool, state: str | None, **how: Any) -> None:
    """Queue a job and return; prints its id.

    \b
    Examples:
      lastout job submit --name nightly -- ./nightly.sh
      lastout job submit --no-capture --output build.log -- make
      lastout job submit --agent claude --timeout 600 "look at the failing test"
      lastout job submit --continue 20261130T101500-abcdef "and now fix it"
    """
    with plain():
        job = open_jobs(state).submit(_work(state, **how))
    if as_json:
        say_json({"job": job.id, "directory": job.directory})
    else:
        click.echo(job.id)


@click.command("run")
@JSON
@_with_options
def run(as_json: bool, state: str | None, **how: Any) -> None:
    """Submit a job, show its output as it comes, and take its result.

    It is a job like any other: killed, this command leaves it running (`lastout job list`).
    Ctrl-C cancels it, and its output goes on until its end; a second one does not wait for that.
    Exit status: the command's code, 128 and the signal that ended it, 124 after the timeout, 130
    after Ctrl-C; 1 for what failed otherwise.

    \b
    Examples:
      lastout job run -- make test
      lastout job run --agent codex "what is in here?"
    """
    from lastout.cli._job_live import cancelled_by_ctrl_c, watch

    with plain():
        job = open_jobs(state).submit(_work(state, no_capture=False, output=None, **how))
        try:
            with cancelled_by_ctrl_c(job) as interrupted:
                result = watch(job, quiet=as_json)
        except KeyboardInterrupt:
            click.echo(f"left to itself: lastout job wait {job.id}", err=True)
            sys.exit(128 + signal.SIGINT)
        taken = job.take(f"lastout job run, pid {os.getpid()}, {job.id}", result.turn)
    _tell(job, taken, as_json, interrupted.is_set())


def _tell(job: Job, result: Result, as_json: bool, interrupted: bool) -> None:
    if as_json:
        say_json(result)
    elif result.failed:
        click.echo(f"lastout job: {job.id} {verdict(result)}", err=True)
    if interrupted:
        sys.exit(128 + signal.SIGINT)
    if not result.failed:
        sys.exit(0)
    if result.why == "timeout":
        sys.exit(124)
    if result.why == "completion" and result.remaining_count == 0 and result.signal:
        sys.exit(128 + result.signal)
    if result.why == "completion" and result.remaining_count == 0 and result.code:
        sys.exit(result.code)
    sys.exit(1)


def _work(
    state: str | None,
    *,
    words: tuple[str, ...],
    agent: str | None,
    continues: str | None,
    env: tuple[str, ...],
    options: tuple[str, ...],
    labels: tuple[str, ...],
    keep: float,
    program: str | None,
    graces: str | None,
    contain: str,
    no_capture: bool,
    output: str | None,
    **both: Any,
) -> Command | AgentTurn:
    both["env"] = {**os.environ, **_pairs("--env", env)} if env else None
    both["labels"] = _pairs("--label", labels)
    if agent is None and continues is None:
        if not words:
            raise click.UsageError("which command? lastout job submit [OPTIONS] -- CMD [ARG...]")
        if options or program:
            raise click.UsageError("--option and --program are for an agent's turn (--agent)")
        if output is not None and not no_capture:
            raise click.UsageError(
                "--output needs --no-capture; otherwise the job keeps its output"
            )
        return Command(
            words, capture=not no_capture, output=output, graces=graces, contain=contain, **both
        )
    if no_capture or graces or contain != "subreaper":
        raise click.UsageError("--no-capture, --budget and --contain are for a command")
    if continues is not None:
        spec = open_jobs(state).get(continues).spec
        if not isinstance(spec.work, AgentTurn):
            raise click.UsageError(
                f"{continues} is a plain command: there is nothing to go on with"
            )
        agent = agent or spec.work.agent
        program = program or spec.work.program
        continues = spec.id
        both["cwd"] = both["cwd"] or spec.work.cwd
    prompt = " ".join(words)
    if prompt == "-":
        prompt = sys.stdin.read()
    if not prompt.strip():
        raise click.UsageError("which prompt? lastout job submit --agent NAME PROMPT (- for stdin)")
    assert agent is not None
    return AgentTurn(
        agent=agent,
        prompt=prompt,
        options=_values(_pairs("--option", options)),
        program=program,
        keep=keep,
        continues=continues,
        **both,
    )


def _pairs(option: str, words: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{option} takes NAME=VALUE, not {word!r}")
        found[name] = value
    return found


def _values(pairs: dict[str, str]) -> dict[str, Any]:
    """What is JSON is taken as JSON: true, 3, ["a"]; everything else is text."""
    import json

    found: dict[str, Any] = {}
    for name, value in pairs.items():
        try:
            found[name] = json.loads(value)
        except (ValueError, RecursionError):
            found[name] = value
    return found


COMMANDS = {one.name or "": one for one in (run, submit)}
