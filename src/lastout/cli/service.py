"""`lastout service`: work that must outlive its agent, provisioned by its owner, started by name."""

from __future__ import annotations

import contextlib
import json
import os
import sys

import click

from lastout.cli._leases import columns
from lastout.cli._options import JSON, STATE
from lastout.cli._plain import plain
from lastout.cli._services import (
    detail,
    document,
    joined,
    row,
    serve_detached,
    status_lines,
    told,
)
from lastout.errors import LastoutError
from lastout.state import locate

__all__ = ["command"]


def _names(context: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
    """The services whose names begin so."""
    from lastout.services.layout import names

    with contextlib.suppress(OSError, ValueError):
        known = names(locate(context.params.get("state")))
        return [name for name in known if name.startswith(typed)]
    return []


_SECONDS = click.FloatRange(min=0, min_open=True)
_NAME = click.argument("name", shell_complete=_names)


@click.group("service")
def command() -> None:
    """Work that must outlive the agent that asks for it.

    Its owner provisions it once; agents start it by name alone and watch its completion record. What
    an agent starts without that is part of its own tree, and is stopped with it.
    """


@command.command("add")
@click.argument("name")
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD [ARG...]")
@click.option("--cwd", metavar="DIR", help="Where it runs (default: here).")
@click.option(
    "--env",
    "pairs",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="A variable of its environment; without a value, as it is here (repeatable).",
)
@click.option("--user", metavar="USER", help="The account it runs as (root only).")
@click.option("--group", metavar="GROUP", help="Its group, where it is not the account's own.")
@click.option("--timeout", type=_SECONDS, metavar="SECONDS", help="Its deadline, from the start.")
@click.option("--result", metavar="FILE", help="Copy each completion record there.")
@click.option("--budget", default="default", metavar="NAME", help="Graces of its stop, by preset.")
@click.option(
    "--contain",
    type=click.Choice(["subreaper", "cgroup", "pidns"]),
    default="subreaper",
    help="How its tree is held (see lastout doctor).",
)
@click.option(
    "--manager",
    type=click.Choice(["auto", "lastout", "systemd-user", "systemd"]),
    default="auto",
    help="Who runs it: systemd where it is running, else the service process of `serve`.",
)
@click.option(
    "--keep",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="How many activations are kept.",
)
@click.option("--replace", is_flag=True, help="Give a service another definition.")
@click.option("--token", metavar="TOKEN", help="The owner's token, to replace from inside a run.")
@JSON
@STATE
def add(
    name: str,
    argv: tuple[str, ...],
    cwd: str | None,
    pairs: tuple[str, ...],
    user: str | None,
    group: str | None,
    timeout: float | None,
    result: str | None,
    budget: str,
    contain: str,
    manager: str,
    keep: int,
    replace: bool,
    token: str | None,
    as_json: bool,
    state: str | None,
) -> None:
    """Provision a service. Prints the owner's token, which is kept nowhere else.

    \b
    Examples:
      lastout service add nightly --timeout 3600 --result ~/nightly.json -- make report
      sudo lastout service add deploy --user deploy --cwd /srv/app -- ./deploy.sh
    """
    from lastout.services.store import open_services

    with plain():
        owner = open_services(state)
        made = owner.add(
            name, argv, cwd=cwd, env=_environment(pairs), user=user, group=group, timeout=timeout,
            result=result, budget=budget, contain=contain, manager=manager, keep=keep,
            replace=replace, token=token,
        )  # fmt: skip
        definition = owner.status(name).definition
        serving = definition.manager != "lastout" or owner.serving() is not None
    if as_json:
        click.echo(json.dumps({"name": name, "token": made, "manager": definition.manager}))
        return
    click.echo(f"{name} is there, run by {definition.manager}; its owner's token is {made}")
    if not serving:
        click.echo("it can be started once `lastout service serve` runs", err=True)


@command.command("start")
@_NAME
@click.option("--wait", is_flag=True, help="Wait for the completion; the status is its outcome.")
@click.option(
    "--timeout", type=_SECONDS, metavar="SECONDS", help="With --wait: no longer than this."
)
@click.option("--new", is_flag=True, help="Refuse where one is running, instead of joining it.")
@click.option("--request", metavar="ID", help="Your name for this request; a retry starts nothing.")
@JSON
@STATE
def start(
    name: str,
    wait: bool,
    timeout: float | None,
    new: bool,
    request: str | None,
    as_json: bool,
    state: str | None,
) -> None:
    """Start a service by its name; returns at once with the activation's id.

    A service that runs already is joined, and that is said. With --wait the exit status is 0 when
    it completed well, 1 when it failed, 124 when --timeout was over first.

    \b
    Examples:
      lastout service start nightly
      lastout service start nightly --wait --json
    """
    from lastout.services.errors import StillWaiting
    from lastout.services.store import open_services

    if timeout is not None and not wait:
        raise click.UsageError("--timeout is for --wait")
    with plain():
        services = open_services(state)
        if not wait:
            begun = services.start(name, new=new, request=request)
            if as_json:
                click.echo(json.dumps(told(begun)))
                return
            if begun.joined:
                click.echo(joined(begun), err=True)
            click.echo(begun.activation)
            return
        try:
            begun, done = services.run(name, new=new, request=request, timeout=timeout)
        except StillWaiting as error:
            click.echo(f"lastout service: {error}", err=True)
            if as_json and error.begun is not None:
                click.echo(json.dumps({**told(error.begun), "completion": None}))
            sys.exit(124 if timeout is not None else 1)
    if as_json:
        click.echo(json.dumps({**told(begun), "completion": document(done)}))
    else:
        if begun.joined:
            click.echo(joined(begun), err=True)
        click.echo(f"{name} {done.activation}: {done.why}")
    sys.exit(1 if done.failed else 0)


@command.command("status")
@_NAME
@click.argument("activation", required=False)
@JSON
@STATE
def status(name: str, activation: str | None, as_json: bool, state: str | None) -> None:
    """Show a service with its newest activation, or the one that is named.

    \b
    Examples:
      lastout service status nightly
      lastout service status nightly 12-k3x9ab --json
    """
    from lastout.services.store import open_services

    with plain():
        found = open_services(state).status(name, activation)
    if as_json:
        click.echo(json.dumps(detail(found)))
        return
    click.echo("\n".join(status_lines(found)))


@command.command("list")
@JSON
@STATE
def list_(as_json: bool, state: str | None) -> None:
    """List the services, each with its newest activation.

    \b
    Examples:
      lastout service list
      lastout service list --json
    """
    from lastout.services.store import Status, open_services

    with plain():
        services = open_services(state)
        found = services.statuses()
        serving = services.serving()
    if as_json:
        rows = [
            detail(one) if isinstance(one, Status) else {"service": one[0], "error": one[1]}
            for one in found
        ]
        click.echo(json.dumps({"service_process": serving, "services": rows}))
        return
    if found:
        head = [("SERVICE", "MANAGER", "ACTIVATION", "STATE", "WHY")]
        click.echo("\n".join(columns([*head, *map(row, found)])))
    else:
        click.echo("there is no service")
    who = f"pid {serving['pid']}" if serving else "not running"
    click.echo(f"service process: {who}", err=True)


@command.command("stop")
@_NAME
@click.option("--reason", default="abort", help="abort, shutdown or completion.")
@click.option("--now", is_flag=True, help="SIGKILL at once, without the graces.")
@click.option("--token", metavar="TOKEN", help="The owner's token, to ask from inside a run.")
@JSON
@STATE
def stop(
    name: str, reason: str, now: bool, token: str | None, as_json: bool, state: str | None
) -> None:
    """Stop what runs of a service, completely, and say how it ended. For its owner.

    \b
    Example:
      lastout service stop nightly
    """
    from lastout.services.store import open_services

    with plain():
        done = open_services(state).stop(name, reason=reason, token=token, now_=now)
    click.echo(json.dumps(document(done)) if as_json else f"{name} {done.activation}: {done.why}")


@command.command("log")
@_NAME
@click.argument("activation", required=False)
@STATE
def log(name: str, activation: str | None, state: str | None) -> None:
    """Print what an activation has written to stdout and stderr so far.

    \b
    Example:
      lastout service log nightly
    """
    from lastout.services.store import open_services

    with plain():
        path = open_services(state).output(name, activation)
        sys.stdout.flush()
        try:
            with open(path, "rb") as file:
                while data := file.read(1 << 16):
                    sys.stdout.buffer.write(data)
        except FileNotFoundError:
            raise click.ClickException("it has not been started yet: there is no output") from None


@command.command("remove")
@_NAME
@click.option("--token", metavar="TOKEN", help="The owner's token, to ask from inside a run.")
@STATE
def remove(name: str, token: str | None, state: str | None) -> None:
    """Remove a service with its activations; refused while one runs. For its owner.

    \b
    Example:
      lastout service remove nightly
    """
    from lastout.services.store import open_services

    with plain():
        open_services(state).remove(name, token=token)


@command.command("serve")
@click.option("--detach", is_flag=True, help="Go on in a session of its own, once it is ready.")
@click.option(
    "--quit", "quit_", is_flag=True, help="End the one that runs; what it started goes on."
)
@JSON
@STATE
def serve(detach: bool, quit_: bool, as_json: bool, state: str | None) -> None:
    """Be the service process of this state directory: for services without systemd.

    It sleeps until it is asked. It may be stopped, killed and started again at any time: what runs
    goes on, and is found again.

    \b
    Examples:
      lastout service serve --detach
      lastout service serve --quit
    """
    from lastout.services.store import open_services

    with plain():
        where = locate(state)
        if quit_:
            process = open_services(where).quit()
            if process is None:
                raise click.ClickException("no service process is running")
        elif detach:
            process = serve_detached(where)
        else:
            _serve(where)
            return
    click.echo(json.dumps(process) if as_json else str(process["pid"]))


@command.command("unit-start", hidden=True)
@_NAME
@STATE
def unit_start(name: str, state: str | None) -> None:
    """What a unit of systemd executes: becomes the supervisor of what was accepted."""
    from lastout.services.begin import take_over
    from lastout.services.store import NOT_NOW

    try:
        take_over(locate(state), name)
    except (LastoutError, OSError) as error:
        click.echo(f"lastout service: {error}", err=True)
        sys.exit(NOT_NOW)


@command.command("unit-stopped", hidden=True)
@_NAME
@STATE
def unit_stopped(name: str, state: str | None) -> None:
    """What a unit of systemd executes at its end: publishes what became of it."""
    from lastout.services.store import open_services

    with plain():
        open_services(state).unit_ended(name)


def _serve(state: str) -> None:
    from lastout.above import run_above
    from lastout.services import sentences
    from lastout.services.errors import NotItsOwner
    from lastout.services.server import Server

    run = run_above()
    if run is not None:
        raise NotItsOwner(sentences.member_asks("the service process", run, token=False))
    server = Server(state)
    click.echo(f"serving {state} as pid {os.getpid()}", err=True)
    server.run()


def _environment(pairs: tuple[str, ...]) -> dict[str, str]:
    told = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name:
            raise click.BadParameter(f"NAME or NAME=VALUE, not {pair!r}", param_hint="--env")
        if not equals and name not in os.environ:
            raise click.BadParameter(f"{name} is not set here", param_hint="--env")
        told[name] = value if equals else os.environ[name]
    return told
