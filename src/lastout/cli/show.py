"""`lastout show`: the lines of a record, one by one, or as a picture."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from lastout.cli._evidence import RUN, record
from lastout.cli._options import JSON, THERE
from lastout.cli._plain import plain

__all__ = ["command"]

_HEADER = ("v", "event", "run", "from", "seq", "boottime_ns", "time")


@click.command("show")
@RUN
@click.option("-f", "--follow", is_flag=True, help="Wait for more lines until the run is over.")
@click.option("--svg", metavar="FILE", type=click.Path(dir_okay=False), help="Draw the time line.")
@click.option("--html", metavar="FILE", type=click.Path(dir_okay=False), help="As a page.")
@click.option("--timeline", is_flag=True, help="Draw the time line here.")
@JSON
@THERE
def command(
    run: str,
    follow: bool,
    svg: str | None,
    html: str | None,
    timeline: bool,
    as_json: bool,
    state: str | None,
) -> None:
    """Show the lines of a record: seconds since the start, who wrote it, the event, its fields.

    \b
    Examples:
      lastout show last
      lastout show last --json | jq 'select(.event == "signalled")'
      lastout show last --follow
      lastout show last --svg run.svg
    """
    with plain():
        path = record(run, state)
        if svg or html or timeline:
            _picture(path, svg, html, timeline)
            return
        _lines(path, follow, as_json)


def _picture(path: Path, svg: str | None, html: str | None, here: bool) -> None:
    from lastout.evidence import journal
    from lastout.evidence.timeline.model import picture

    contents = journal.read(path)
    drawn = picture(contents)
    if svg:
        from lastout.evidence.timeline.svg import draw as draw_svg

        Path(svg).write_text(draw_svg(drawn), encoding="utf-8")
    if html:
        from lastout.evidence.timeline.page import page

        Path(html).write_text(page(contents), encoding="utf-8")
    if here:
        from lastout.evidence.timeline.terminal import draw

        click.echo("\n".join(draw(drawn)))


def _lines(path: Path, follow: bool, as_json: bool) -> None:
    from lastout.evidence.events import Started
    from lastout.evidence.journal import Follower, Problem
    from lastout.evidence.watch import Watch

    follower = Follower()
    began: int | None = None
    with open(path, "rb", buffering=0) as file, Watch() as watch:
        watch.add(str(path.resolve().parent))
        while True:
            data = file.read(1 << 16)
            found = follower.feed(data) if data else [] if follow else follower.finish()
            for one in found:
                if isinstance(one, Problem):
                    click.echo(f"{one.kind} part at byte {one.offset}: {one.message}", err=True)
                    continue
                if isinstance(one, Started) or began is None:
                    began = one.boottime_ns
                click.echo(_json(one) if as_json else _line(one, began))
            if data:
                continue
            if not follow or follower.over:
                return
            sys.stdout.flush()
            try:
                watch.wait(None)
            except KeyboardInterrupt:
                return


def _json(event: Any) -> str:
    from lastout.evidence.events import encode

    return encode(event).decode().rstrip("\n")


def _line(event: Any, began: int) -> str:
    from lastout.evidence.events import encode
    from lastout.evidence.words import visible

    fields = msgspec.json.decode(encode(event))
    name = fields["event"]
    rest = " ".join(
        f"{key}={value if isinstance(value, str) else json.dumps(value)}"
        for key, value in fields.items()
        if key not in _HEADER and value is not None
    )
    at = (event.boottime_ns - began) / 1e9
    return visible(f"{at:+10.6f} {event.source:<6} {name:<14} {rest}")
