"""The `lastout` command: `run` goes its own short way, every other command is a click one.

`lastout run` is in front of every command in somebody's config file, so it costs as little as
Python allows: nothing is imported before its exec that it does not need.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import click

__all__ = ["group", "main"]


def main() -> None:
    """The entry point of `lastout` and of `python -m lastout`."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["run"]:
        from lastout.cli.run import execute

        execute(arguments[1:])
    if arguments[:2] == ["job", "submit"]:
        from lastout.cli._job_quick import submit

        if submit(arguments[2:]):
            return
    group().main(args=arguments, prog_name="lastout")


def group() -> click.Group:
    """All commands, as a click group. A command is `command` in `lastout/cli/NAME.py`."""
    from lastout.cli.commands import Commands

    return Commands()
