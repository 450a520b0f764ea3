"""Finds the commands: each file of this directory that has a `command` is one, by its name."""

from __future__ import annotations

from importlib import import_module

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
        from pkgutil import iter_modules  # 5 ms that only the list needs

        found = {
            module.name
            for module in iter_modules(lastout.cli.__path__)
            if module.name not in _NO_COMMANDS and not module.name.startswith("_")
        }
        names = (name.replace("_", "-") for name in found)
        return sorted(name for name in names if self.get_command(ctx, name) is not None)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name; None when there is none."""
        name = cmd_name.replace("-", "_")
        if name in _NO_COMMANDS or not name.isidentifier():
            return None
        where = f"lastout.cli.{name}"
        try:
            module = import_module(where)
        except ModuleNotFoundError as error:
            return None if error.name == where else _unavailable(cmd_name, error)
        command = getattr(module, "command", None)
        return command if isinstance(command, click.Command) else None


def _unavailable(name: str, error: ModuleNotFoundError) -> click.Command:
    """A command whose extra is not installed: listed, and told when it is used."""
    text = f"needs the Python package {error.name!r}, which is not installed"

    def refuse(**_: object) -> None:
        raise click.ClickException(f"`lastout {name}` {text}") from error

    settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    return click.Command(name, callback=refuse, short_help=f"({text})", context_settings=settings)
