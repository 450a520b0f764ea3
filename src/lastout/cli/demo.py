"""`lastout demo`: the same crash twice, without and with lastout."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import click

from lastout.cli._demo_scene import GRACES, Scene, interruptible, play
from lastout.errors import LastoutError
from lastout.evidence import why, words
from lastout.evidence.settled import settled

__all__ = ["command"]

_WIDTH = 92
_WHAT = {
    "agent": "the agent itself, which ignores SIGTERM",
    "tool": "a tool in the agent's process group",
    "session": "a tool in a session of its own",
    "daemon": "a tool that forked twice and went to the background",
    "writer": "a tool that appends to a file, 20 times a second",
    "forker": "a tool that replaces itself by a child, 10 times a second",
}


@click.command("demo")
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as one JSON object.")
def command(as_json: bool) -> None:
    """Kill the owner of a rude agent, without and with lastout.

    Starts a small agent with five tools that ignore SIGTERM, kills the process that started it with
    SIGKILL, and counts who is still alive. Takes about 5 seconds, uses no network, and leaves
    nothing behind.

    \b
    Examples:
      lastout demo
      lastout demo --json
    """
    interruptible()
    try:
        with tempfile.TemporaryDirectory(prefix="lastout-demo-") as name:
            if as_json:
                _numbers(Path(name))
            else:
                _tell(Path(name))
    except (LastoutError, OSError, RuntimeError) as error:
        raise click.ClickException(str(error)) from error


def _numbers(directory: Path) -> None:
    without = play(directory / "without", supervised=False)
    with_it = play(directory / "with", supervised=True)
    story = _story(with_it)
    document = {"without": without.as_json(), "with": with_it.as_json(), "story": story}
    click.echo(json.dumps(document))
    sys.exit(1 if with_it.alive else 0)


def _tell(directory: Path) -> None:
    _paragraph(
        "An agent starts five tools, as coding agents do. Then the program that started the agent "
        "crashes (SIGKILL)."
    )
    _heading("Without lastout")
    without = play(directory / "without", supervised=False)
    _count(without)
    for role in without.alive:
        click.echo(f"    {_WHAT[role]}")
    if without.lines_after:
        click.echo(f"  Its file grew by {without.lines_after} lines after the crash.")
    click.secho("  (They are gone now: this demonstration ends them itself.)", dim=True)

    _heading("With lastout: `lastout run --` in front of the same command")
    with_it = play(directory / "with", supervised=True)
    _count(with_it)
    for role in with_it.alive:
        click.echo(f"    {_WHAT[role]}")
    polite = f"{GRACES.term:g} s to clean up after SIGTERM"
    click.echo(f"  All of them had {polite}, and {_grew(with_it)}.")

    _heading("What its record says")
    for sentence in _story(with_it):
        _paragraph(sentence, indent="  ")

    _heading("In front of your own command")
    click.echo("  lastout run -- CMD...          and afterwards: lastout why RUN")
    sys.exit(1 if with_it.alive else 0)


def _count(scene: Scene) -> None:
    started, alive = len(scene.started), len(scene.alive)
    text = f"  {started} processes started, {alive} alive {scene.seconds:.1f} s after the crash"
    click.secho(text + (":" if alive else "."), fg="red" if alive else "green", bold=True)


def _grew(scene: Scene) -> str:
    # The writer goes on until SIGKILL: that is what its grace is for.
    return (
        f"the writer used it to append {scene.lines_after} lines"
        if scene.lines_after
        else ("the file did not grow any more")
    )


def _story(scene: Scene) -> list[str]:
    assert scene.record is not None
    claims = why.story(settled(scene.record)).claims
    return [words.sentence(claim.kind, claim.facts) for claim in claims if not claim.detail]


def _heading(text: str) -> None:
    click.echo()
    click.secho(text, bold=True)


def _paragraph(text: str, indent: str = "") -> None:
    """Wrapped; the lines after the first stand in a little further."""
    further = indent and indent + "  "
    width = min(_WIDTH, _width())
    click.echo(click.wrap_text(text, width, initial_indent=indent, subsequent_indent=further))


def _width() -> int:
    try:
        return os.get_terminal_size().columns
    except OSError:
        return _WIDTH
