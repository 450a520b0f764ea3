"""Finds the commands: each file of this directory that has a `command` is one, by its name."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import click

import lastout
import lastout.cli

__all__ = ["Commands"]

_NO_COMMANDS = frozenset({"main", "commands"})
_HELP = """Last one out: run agents and other long-lived commands so that nobody is left behind.

\b
  lastout run -- codex app-server    run a command under the supervisor
  lastout demo                       see what that is good for
"""


class Commands(click.Group):
    """The group itself; a command's file is imported when it is asked for."""

    def __init__(self) -> None:
        super().__init__(
            "lastout", help=_HELP, context_settings={"help_option_names": ["-h", "--help"]}
        )
        version = click.version_option(
            lastout.__version__, "--version", message="%(prog)s %(version)s"
        )
        version(self)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the files that have a command."""
        found = {
            module.name
            for module in iter_modules(lastout.cli.__path__)
            if module.name not in _NO_COMMANDS and not module.name.startswith("_")
        }
        return sorted(name for name in found if self.get_command(ctx, name) is not None)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name; None when there is none."""
        name = cmd_name.replace("-", "_")
        if name in _NO_COMMANDS or not name.isidentifier():
            return None
        where = f"lastout.cli.{name}"
        try:
            module = import_module(where)
        except ModuleNotFoundError as error:
            if error.name == where:
                return None
            raise click.ClickException(_missing(cmd_name, error)) from error
        command = getattr(module, "command", None)
        return command if isinstance(command, click.Command) else None


def _missing(command: str, error: ModuleNotFoundError) -> str:
    return f"`lastout {command}` needs the Python package {error.name!r}, which is not installed"
