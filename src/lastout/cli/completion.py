"""`lastout completion`: what a shell needs to complete commands, options and run ids."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from lastout.cli.main import group

__all__ = ["command"]

_WHERE = {
    "bash": 'eval "$(lastout completion bash)"            # in ~/.bashrc',
    "zsh": 'eval "$(lastout completion zsh)"             # in ~/.zshrc',
    "fish": "lastout completion fish > ~/.config/fish/completions/lastout.fish",
}


@click.command("completion")
@click.argument("shell", type=click.Choice(list(_WHERE)))
def command(shell: str) -> None:
    """Print the completion script for a shell.

    \b
    Examples:
      eval "$(lastout completion bash)"            # in ~/.bashrc
      eval "$(lastout completion zsh)"             # in ~/.zshrc
      lastout completion fish > ~/.config/fish/completions/lastout.fish
    """
    found = get_completion_class(shell)
    assert found is not None  # the choices are click's own
    made = found(group(), {}, "lastout", "_LASTOUT_COMPLETE")
    click.echo(f"# {_WHERE[shell]}")
    click.echo(made.source())
