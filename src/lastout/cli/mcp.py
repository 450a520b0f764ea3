"""`lastout mcp`: an MCP server with which one agent asks another."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

import click

from lastout.cli._options import STATE
from lastout.cli._plain import plain

__all__ = ["command"]


@click.command("mcp")
@STATE
@click.option(
    "--by",
    metavar="LABEL",
    help="Who asks, as the jobs' owner. By default the client's own conversation, else its process.",
)
@click.option(
    "--depth",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="How many agents stand above this one. By default what the job around it says.",
)
@click.option(
    "--max-depth",
    type=click.IntRange(min=0),
    default=2,
    show_default=True,
    metavar="N",
    help="Agents may be asked by agents so deep, and no deeper; 0 allows no agents at all.",
)
def command(state: str | None, by: str | None, depth: int, max_depth: int) -> None:
    """Serve MCP tools on stdin and stdout: other agents and commands, as jobs.

    It is started by an agent, out of its configuration, not by hand. What it blocks on ends with
    it; jobs in the background do not notice. See docs/how-to/mcp.md.

    \b
    Examples:
      claude mcp add lastout -- lastout mcp
    \b
      # ~/.codex/config.toml
      [mcp_servers.lastout]
      command = "lastout"
      args = ["mcp"]
      tool_timeout_sec = 3600
    """
    if find_spec("mcp_types") is None:  # part of the SDK since its version 2
        raise click.ClickException(
            "`lastout mcp` needs the official SDK, version 2: pip install 'lastout[mcp]'"
        )

    if os.isatty(0):
        click.echo("This speaks MCP: an agent starts it (see --help). Ctrl-C ends it.", err=True)

    import anyio

    from lastout.mcp.server import serve

    with plain():
        anyio.run(lambda: serve(state=state, by=by, depth=depth, max_depth=max_depth))
    sys.stdout.flush()
    # Threads that wait for a disk hold nobody up.
    os._exit(0)
