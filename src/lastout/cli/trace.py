"""`lastout trace`: the service that names who sent the signals."""

from __future__ import annotations

import click

from lastout.cli._options import STATE
from lastout.cli._plain import plain

__all__ = ["command"]


@click.command("trace")
@click.option("--check", is_flag=True, help="Only say what could be traced here, and why not more.")
@STATE
def command(check: bool, state: str | None) -> None:
    """Trace all runs of a state directory until Ctrl-C or SIGTERM.

    With root: who sent every signal to the processes of a run, the kernel's OOM killer, and how
    every process ended. Without: how every process ended, where the kernel admits users. What is
    found goes into the runs' records, for `lastout why`. For one run: lastout run --trace.

    \b
    Examples:
      sudo lastout trace --state /home/me/.local/state/lastout
      lastout trace --check
    """
    from lastout.evidence.trace import TracingUnavailable
    from lastout.evidence.trace.service import Service, stop_on_signals
    from lastout.state import locate

    with plain():
        try:
            service = Service(locate(state))
        except TracingUnavailable as why:
            raise click.ClickException(f"nothing can be traced here: {why}") from why
        source = service.source
        seen = ["how processes end"] if source.sees_exit_codes else []
        seen += ["who sends signals", "out of memory"] if source.sees_senders else []
        if check:
            source.close()
            click.echo(f"{source.how}: {', '.join(seen)}")
            return
        stop_on_signals(service)
        click.echo(f"tracing {service.state} by {source.how}: {', '.join(seen)}", err=True)
        service.run()
