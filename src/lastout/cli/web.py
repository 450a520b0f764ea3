"""`lastout web`: the dashboard of this machine's runs, in a browser."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import click

from lastout.cli._options import JSON, STATE

if TYPE_CHECKING:
    from lastout.web.server import Served

__all__ = ["command"]


@click.command("web")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Listen here (0: anywhere). Default: where it was last time.",
)
@click.option("--link", "ask", is_flag=True, help="Print the link of the one that runs, and end.")
@click.option(
    "--new-secret", "renew", is_flag=True, help="Links and pages of before open nothing any more."
)
@JSON
@STATE
def command(port: int | None, ask: bool, renew: bool, as_json: bool, state: str | None) -> None:
    """Serve a page that shows runs, jobs and leases as they change, and can stop them.

    It listens on 127.0.0.1 alone and opens for whoever has the link that it prints. Secret and port
    are kept, so that an open page goes on by itself when the server is started again. Ctrl-C ends
    the server at once, and nothing else.

    \b
    Examples:
      lastout web
      lastout web --port 8080
      lastout web --link
      ssh -N -L 7117:127.0.0.1:7117 machine      # then follow its link here
    """
    from lastout.errors import LastoutError
    from lastout.state import locate
    from lastout.web.keeping import AlreadyServed, Keeping
    from lastout.web.server import serve

    def ready(served: Served) -> None:
        _say(served.link, as_json)

    try:
        if ask:
            kept = Keeping(locate(state))
            if not kept.served or kept.link is None:
                raise click.ClickException("no dashboard of this state directory is being served")
            click.echo(json.dumps({"link": kept.link}) if as_json else kept.link)
            return
        serve(state, port=port, renew=renew, ready=ready)
    except AlreadyServed as error:
        told = f"{error}" + (f": {error.link}" if error.link else "")
        raise click.ClickException(told) from error
    except (LastoutError, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    sys.stdout.flush()
    # A thread that waits out somebody's stop holds nobody up: the supervisor goes on by itself.
    os._exit(0)


def _say(link: str, as_json: bool) -> None:
    from lastout.web import words

    if as_json:
        click.echo(json.dumps({"link": link, "pid": os.getpid()}))
    else:
        click.echo(f"{words.READY}\n\n    {link}\n\n{words.WHO_HAS_IT}")
    sys.stdout.flush()
