"""`lastout host`: conversations with agents for programs in any language."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from lastout.cli._options import STATE
from lastout.cli._plain import plain

__all__ = ["command"]


@click.command("host")
@click.option(
    "--socket",
    "path",
    metavar="PATH",
    help="Serve any number of clients on a UNIX socket, instead of stdin and stdout.",
)
@STATE
@click.option(
    "--idle",
    type=click.FloatRange(min=0),
    default=1800.0,
    show_default=True,
    metavar="SECONDS",
    help="Close an agent that has had nothing to do for so long.",
)
@click.option(
    "--quit",
    "quit_bound",
    type=click.FloatRange(min=1),
    default=8.0,
    show_default=True,
    metavar="SECONDS",
    help="The longest that the end of the host may take.",
)
@click.option(
    "--program",
    "programs",
    multiple=True,
    metavar="AGENT=PATH",
    help="The path of an agent that is not on PATH (repeatable).",
)
def command(
    path: str | None, state: str | None, idle: float, quit_bound: float, programs: tuple[str, ...]
) -> None:
    """Serve conversations with agents, one JSON request a line.

    Ends when stdin ends (or by TERM, INT, or the request "quit"): then every agent is ended, all at
    once. Conversations of a host that crashed are recovered at the start, and told in the first
    line. The requests are in docs/reference/agents.md.

    \b
    Examples:
      lastout host
      {"do": "open", "key": "demo", "agent": "codex", "cwd": "/src/project"}
      {"do": "send", "key": "demo", "text": "What is in here?", "id": "m1", "wait": true}
      {"do": "quit"}
    \b
      lastout host --socket /run/user/1000/agents.sock
    """
    import anyio

    from lastout.host.host import open_host
    from lastout.host.server import serve_socket, serve_stdio

    agents = dict(_adapter(pair) for pair in programs)

    async def serve() -> None:
        async with open_host(state=state, agents=agents, quit_bound=quit_bound, idle=idle) as host:
            if path is None:
                await serve_stdio(host)
            else:
                await serve_socket(host, path)

    with plain():
        anyio.run(serve)
    sys.stdout.flush()
    # The threads that wait out an earlier agent, and were abandoned by the quit, hold nobody up.
    os._exit(0)


def _adapter(pair: str) -> tuple[str, Any]:
    from lastout.agents.registry import agent

    name, equals, program = pair.partition("=")
    if not equals:
        raise click.BadParameter(f"AGENT=PATH, not {pair!r}", param_hint="--program")
    try:
        return name, agent(name, program=program)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--program") from error
