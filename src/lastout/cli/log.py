"""`lastout log`: the runs that there were, filtered, newest last; `--follow` waits for more."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import click
import msgspec

from lastout.cli._evidence import local, moment
from lastout.cli._options import JSON, STATE
from lastout.cli._plain import plain
from lastout.evidence.index import Index, Row
from lastout.evidence.summary import STATES
from lastout.evidence.words import visible

__all__ = ["command"]


@click.command("log")
@click.option("--key", help="Only runs that may write to this conversation.")
@click.option("--command", "words", metavar="TEXT", help="Only commands with this text in them.")
@click.option("--since", metavar="TIME", help="2h (ago), 14:30 (today), 2026-11-30T14:30.")
@click.option("--until", metavar="TIME", help="As --since.")
@click.option("--verdict", type=click.Choice(["exited", "killed", "unproven"]), help="As closed.")
@click.option("--only", type=click.Choice(STATES), help="Only runs in this state.")
@click.option("-n", "--number", type=click.IntRange(1), default=20, show_default=True)
@click.option("--all", "everything", is_flag=True, help="All of them, not only the last ones.")
@click.option("-f", "--follow", is_flag=True, help="Then wait for runs to begin and to end.")
@JSON
@STATE
def command(
    key: str | None,
    words: str | None,
    since: str | None,
    until: str | None,
    verdict: str | None,
    only: str | None,
    number: int,
    everything: bool,
    follow: bool,
    as_json: bool,
    state: str | None,
) -> None:
    """List runs, the newest last.

    States: ended (its tree was seen empty), unproven (something was left when the bound was over),
    not-started (refused, or it could not be), open (it runs, or how it ended is not known).

    \b
    Examples:
      lastout log --since 2h
      lastout log --key thread-7 --json | jq .run
      lastout log --only open
      lastout log --follow
    """
    with plain():
        filters: dict[str, Any] = {
            "key": key,
            "command": words,
            "since_us": moment(since) if since else None,
            "until_us": moment(until) if until else None,
            "verdict": verdict,
            "state": only,
        }
        with Index(state) as index:
            index.refresh()
            shown = index.rows(**filters, limit=None if everything else number)
            for row in reversed(shown):
                _show(row, as_json)
            if follow:
                for row in _news(index, filters, shown):
                    _show(row, as_json)


def _news(index: Index, filters: dict[str, Any], shown: list[Row]) -> Iterator[Row]:
    """Rows that are new or have changed, for ever."""
    from lastout.evidence.watch import Watch

    seen = {row.path: row for row in index.rows(**filters)} or {row.path: row for row in shown}
    with Watch() as watch:
        while True:
            watch.add_runs(index.state)
            index.refresh()
            for row in reversed(index.rows(**filters)):
                before = seen.get(row.path)
                seen[row.path] = row
                if before is None or (before.state, before.verdict) != (row.state, row.verdict):
                    yield row
            sys.stdout.flush()
            try:
                watch.wait(None)
            except KeyboardInterrupt:
                return


def _show(row: Row, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(row).decode())
        return
    end = row.signal and f"SIG{row.signal}"
    if end is None and row.code is not None:
        end = f"exit {row.code}"
    # Without the supervisors' last word somebody else's is the last: recovery's, the forced step's.
    state = row.verdict if row.state == "open" and row.verdict else row.state
    duration = "" if row.duration_ms is None else f"{row.duration_ms / 1000:.1f}s"
    parts = [
        local(row.began_us),
        f"{row.run:<22}",
        f"{state:<11}",
        f"{end or '-':<9}",
        f"{duration:>9}",
        f" {visible(row.command)[:60]}",
    ]
    if row.key:
        parts.append(f"[{visible(row.key)}]")
    if row.leftovers:
        parts.append(f"({row.leftovers} left over)")
    click.echo(" ".join(parts))
