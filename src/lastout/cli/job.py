"""`lastout job`: background jobs."""

from __future__ import annotations

from importlib import import_module

import click

__all__ = ["command"]

_HOMES = {
    "answer": "_job_act",
    "cancel": "_job_act",
    "limit": "_job_act",
    "list": "_job_look",
    "log": "_job_look",
    "message": "_job_act",
    "prune": "_job_act",
    "remove": "_job_act",
    "result": "_job_look",
    "run": "_job_submit",
    "serve": "_job_act",
    "show": "_job_look",
    "submit": "_job_submit",
    "wait": "_job_look",
}


class _Jobs(click.Group):
    """A command's module is imported when it is asked for: a submit has to be quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_HOMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        home = _HOMES.get(cmd_name)
        if home is None:
            return None
        found: dict[str, click.Command] = import_module(f"lastout.cli.{home}").COMMANDS
        return found[cmd_name]


command = _Jobs(
    "job",
    help="""Commands and agents' turns that outlive whoever asked for them.

    A job has a runner of its own: the caller may end, restart or be killed. Its result is
    published when nothing of it runs any more, is delivered once, and is kept until it was taken.

    \b
    Examples:
      lastout job run -- make test
      lastout job submit --name nightly --timeout 3600 -- ./nightly.sh
      lastout job submit --agent codex "find the flaky test"
      lastout job wait nightly && lastout job result nightly --take me
    """,
)
