"""`lastout stop`: the ladder, then the forced step where it is due; says the verdict."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import sys

import click

from lastout.cli._leases import case_of, store
from lastout.cli._options import JSON, THERE
from lastout.cli._plain import plain
from lastout.evidence import journal
from lastout.evidence.events import Note
from lastout.recovery.act import Result, recover
from lastout.recovery.case import Asker, Case
from lastout.state import locate

__all__ = ["command"]


@click.command("stop")
@click.argument("name", metavar="RUN|KEY")
@click.option("--now", is_flag=True, help="SIGKILL to the whole tree at once, without the graces.")
@click.option("--reason", help="Why, for the record.")
@JSON
@THERE
def command(name: str, now: bool, reason: str | None, as_json: bool, state: str | None) -> None:
    """Stop a run, by its id, the beginning of its id, or the key that it holds.

    The supervisor stops its tree as for any other SIGTERM: politely, then completely. Only a
    supervisor that is overdue by its own bound is forced from outside. The exit status is 0 when
    the verdict is exited or killed, 1 when it is unproven.

    \b
    Examples:
      lastout stop 20261130T101500-abcdef
      lastout stop my-conversation --reason "wrong branch"
      lastout stop my-conversation --now
    """
    with plain():
        case = case_of(state, name)
        _note(case, now, reason)
        result = recover(case, asker=Asker(stop=True), store=store(locate(state)), now=now)
    _tell(result, as_json)


def _note(case: Case, now: bool, reason: str | None) -> None:
    if case.record is None or not os.path.exists(case.record):
        return
    with contextlib.suppress(OSError):
        detail = {"by": _user(), "pid": os.getpid(), "now": now, "reason": reason}
        journal.append(case.record, Note, case.run, text="a person asked for a stop", detail=detail)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def _tell(result: Result, as_json: bool) -> None:
    verdict = result.verdict
    if as_json:
        document = {
            "run": result.case.run,
            "verdict": verdict.to_json() if verdict else None,
            "left": result.left,
            "steps": result.steps,
        }
        click.echo(json.dumps(document))
    elif verdict is not None:
        click.echo(f"{result.case.run}: {verdict.sentence}")
    else:
        click.echo(f"{result.case.run}: not stopped; {result.left}")
    sys.exit(0 if verdict is not None and verdict.settled else 1)
