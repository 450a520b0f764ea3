"""`lastout job`: background jobs."""

from __future__ import annotations

import click

from lastout.cli import _job_act, _job_look, _job_submit

__all__ = ["command"]


@click.group("job")
def command() -> None:
    """Commands and agents' turns that outlive whoever asked for them.

    A job has a runner of its own: the caller may end, restart or be killed. Its result is
    published when nothing of it runs any more, is delivered once, and is kept until it was taken.

    \b
    Examples:
      lastout job run -- make test
      lastout job submit --name nightly --timeout 3600 -- ./nightly.sh
      lastout job submit --agent codex "find the flaky test"
      lastout job wait nightly && lastout job result nightly --take me
    """


for _one in (*_job_submit.COMMANDS, *_job_look.COMMANDS, *_job_act.COMMANDS):
    command.add_command(_one)
