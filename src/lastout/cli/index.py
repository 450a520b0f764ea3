"""`lastout index`: the index of the records, how long they are kept, the schema of their lines."""

from __future__ import annotations

import json
import os
import time

import click

from lastout.cli._evidence import RUN, record
from lastout.cli._options import DRY_RUN, JSON, KEEP, STATE
from lastout.cli._plain import plain

__all__ = ["command"]


@click.group("index")
def command() -> None:
    """Look after the records: rebuild their index, prune them, hold one, print their schema."""


@command.command("rebuild")
@STATE
def rebuild(state: str | None) -> None:
    """Make the index anew from the records. It holds nothing that they do not."""
    from lastout.evidence.index import Index

    with plain(), Index(state) as index:
        began = time.monotonic()
        count = index.rebuild()
        click.echo(f"{count} records read in {time.monotonic() - began:.1f} s")


@command.command("prune")
@click.option("--older-than", metavar="AGE", help="Like 90d, 12h.")
@KEEP
@click.option("--max-size", metavar="SIZE", help="Like 500M: the newest that fit.")
@DRY_RUN
@JSON
@STATE
def prune(
    older_than: str | None,
    keep: int | None,
    max_size: str | None,
    dry_run: bool,
    as_json: bool,
    state: str | None,
) -> None:
    """Remove records that are too old, too many or too big.

    Never removed: runs that are live, unproven or of unknown end (until their machine has started
    again), runs that a lease names, and those that are held.

    \b
    Examples:
      lastout index prune --older-than 90d --dry-run
      lastout index prune --keep 10000 --max-size 500M
    """
    from lastout.evidence import retention
    from lastout.evidence.index import Index

    if older_than is None and keep is None and max_size is None:
        raise click.UsageError("say what is too much: --older-than, --keep or --max-size")
    with plain(), Index(state) as index:
        index.refresh()
        policy = retention.Policy(
            max_age_s=retention.parse_age(older_than) if older_than else None,
            max_count=keep,
            max_bytes=retention.parse_size(max_size) if max_size else None,
        )
        rows = index.rows()
        leased = _leased(index.state)
        holds = {row.run for row in rows if row.run in leased or retention.held(row.path)}
        plan = retention.decide(
            rows, policy, now_us=retention.now_us(), holds=holds, gone_boots=_is_over
        )
        paths = {row.run: row.path for row, _ in plan.remove}
        removed, left = (
            ([row for row, _ in plan.remove], [])
            if dry_run
            else retention.prune(plan, lambda run: retention.held(paths[run]))
        )
        index.refresh()
    kept = [(row, why) for row, why in (*plan.protected, *left)]
    if as_json:
        click.echo(
            json.dumps(
                {
                    "removed": [row.run for row in removed],
                    "kept": {row.run: why for row, why in kept},
                    "dry_run": dry_run,
                }
            )
        )
        return
    size = sum(row.size for row in removed)
    verb = "would be removed" if dry_run else "removed"
    click.echo(f"{len(removed)} records {verb} ({size / 1e6:.1f} MB)")
    for row, why in kept:
        click.echo(f"{row.run} stays: {why}")


@command.command("hold")
@RUN
@STATE
def hold(run: str, state: str | None) -> None:
    """Keep a record, whatever the policy says."""
    from lastout.evidence import retention

    with plain():
        retention.hold(record(run, state))


@command.command("release")
@RUN
@STATE
def release(run: str, state: str | None) -> None:
    """Let a held record go its way again."""
    from lastout.evidence import retention

    with plain():
        if not retention.release(record(run, state)):
            raise click.ClickException(f"{run} was not held")


@command.command("schema")
def schema() -> None:
    """Print the JSON schema of a record's line."""
    from lastout.evidence.schema import text

    click.echo(text(), nl=False)


def _is_over(boot_id: str) -> bool:
    from lastout.identity import boot_id as here

    return bool(here()) and boot_id != here()


def _leased(state: str) -> set[str]:
    """Runs that a lease names: their records are evidence for the next start."""
    if not os.path.exists(os.path.join(state, "leases.sqlite3")):
        return set()
    from lastout.cli._leases import held

    return {lease.holder.run for lease in held(state) if lease.holder}
