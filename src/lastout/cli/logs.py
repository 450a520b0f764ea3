"""`lastout logs`: a run's record as it stands, for `jq` and for the eye."""

from __future__ import annotations

import os
import sys
from io import FileIO
from pathlib import Path

import click

from lastout.cli._evidence import RUN, record
from lastout.cli._options import THERE
from lastout.cli._plain import plain

__all__ = ["command"]


@click.command("logs")
@RUN
@click.option("-f", "--follow", is_flag=True, help="Wait for more lines until the run is over.")
@click.option("-n", "--number", type=click.IntRange(0), help="Only so many lines, the last ones.")
@click.option("--path", "only_path", is_flag=True, help="Only say where the record is.")
@THERE
def command(run: str, follow: bool, number: int | None, only_path: bool, state: str | None) -> None:
    """Print the record of a run, byte for byte: one JSON line for each fact.

    RUN is a run id, the beginning of one, a path, or `last`. For sentences see `lastout why`, for
    columns `lastout show`.

    \b
    Examples:
      lastout logs last | jq -r .event
      lastout logs --follow 20261130T1830
      cp "$(lastout logs --path last)" report.jsonl
    """
    with plain():
        path = record(run, state)
        if only_path:
            click.echo(os.fspath(path))
            return
        with path.open("rb", buffering=0) as file:
            try:
                _print(path, file, follow, number)
            except KeyboardInterrupt:
                pass  # who follows leaves this way


def _print(path: Path, file: FileIO, follow: bool, number: int | None) -> None:
    from lastout.evidence.journal import Follower
    from lastout.evidence.watch import Watch

    follower = Follower()
    with Watch() as watch:
        watch.add(str(path.resolve().parent))  # before the first look, or news could be missed
        data = file.readall()
        shown = data if number is None else _last(data, number)
        while True:
            follower.feed(data)
            sys.stdout.buffer.write(shown)
            sys.stdout.buffer.flush()
            if not follow:
                return
            while not (data := file.readall()):
                if follower.over:
                    return
                watch.wait(None)
            shown = data


def _last(data: bytes, number: int) -> bytes:
    lines = data.splitlines(keepends=True)
    return b"".join(lines[max(0, len(lines) - number) :])
