"""`lastout why`: why a run ended, who did it, what was left, and what nobody knows."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lastout.cli._evidence import RUN, document, paragraphs, record
from lastout.cli._options import JSON, THERE
from lastout.cli._plain import plain

if TYPE_CHECKING:
    from lastout.evidence.journal import Contents

__all__ = ["command"]

_JUST_NOW_S = 0.5


@click.command("why")
@RUN
@click.option("-v", "--verbose", is_flag=True, help="Everything, with the numbers behind it.")
@click.option("--timeline/--no-timeline", default=None, help="Draw it (default: on a terminal).")
@JSON
@THERE
def command(
    run: str, verbose: bool, timeline: bool | None, as_json: bool, state: str | None
) -> None:
    """Tell the story of RUN from its record, with the grade of every claim.

    RUN is a run's id, the beginning of one, `last`, or the path of a record.

    Grades: observed (lastout's own eyes), traced (the kernel's tracing saw it), reported (the agent
    or the owner said so), not reported (nobody knows). Times are seconds since the start.

    \b
    Examples:
      lastout why last
      lastout why 20261130T101500-abcdef --verbose
      lastout why ./record.jsonl --json | jq '.claims[] | select(.grade == "not reported")'
    """
    from lastout.evidence.claims import Story
    from lastout.evidence.now import now
    from lastout.evidence.why import story
    from lastout.evidence.words import sentence

    with plain():
        path = record(run, state)
        contents = _read(path)
        told = story(contents)
        present = now(contents)
        told = Story(told.run, (*told.claims, *present), (*told.headline, *present), told.began_ns)
        if as_json:
            click.echo(json.dumps({**document(told), "record": str(path)}, ensure_ascii=True))
            return
        click.echo(f"{told.run or path.stem}")
        click.echo(
            click.wrap_text(
                " ".join(sentence(claim.kind, claim.facts) for claim in told.headline),
                width=96,
                initial_indent="  ",
                subsequent_indent="  ",
            )
        )
        click.echo()
        for line in paragraphs(told, verbose):
            click.echo(line)
        if timeline or (timeline is None and sys.stdout.isatty()):
            from lastout.evidence.timeline.model import picture
            from lastout.evidence.timeline.terminal import draw

            click.echo()
            for line in draw(picture(contents)):
                click.echo(line)


def _read(path: Path) -> Contents:
    """The record; of a run that ended this very moment once its last line is there."""
    from lastout.evidence import journal
    from lastout.evidence.settled import settled

    contents = journal.read(path)
    if contents.final is None and time.time() - path.stat().st_mtime < _JUST_NOW_S:
        return settled(path, _JUST_NOW_S)
    return contents
