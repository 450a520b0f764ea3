"""`lastout ps`: what runs, under which lease, and who waits for what."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import click

from lastout.cli._leases import age, columns, held, store
from lastout.cli._options import JSON, THERE
from lastout.cli._plain import plain
from lastout.evidence.words.parts import command_line
from lastout.identity import Alive, still_alive
from lastout.leases.model import Lease
from lastout.leases.store import Waiter
from lastout.recovery import runs
from lastout.recovery.runs import Run
from lastout.state import locate

__all__ = ["command"]

_EVERY = 1.0


@click.command("ps")
@click.option("--watch", is_flag=True, help="Look again every second, until Ctrl-C.")
@JSON
@THERE
def command(watch: bool, as_json: bool, state: str | None) -> None:
    """List the runs that are not over, with their leases and with who waits for a key.

    A run is found by its record and recognised by its processes' identities; nothing is signalled.
    States: running, stopping, starting; unproven (the supervisor could not prove the end and its
    keeper stays); lost (the supervisors are gone without a last word: `lastout recover`).

    \b
    Examples:
      lastout ps
      lastout ps --watch
      lastout ps --json | jq '.runs[].run'
    """
    with plain():
        where = locate(state)
        if not watch:
            click.echo("\n".join(_lines(where, as_json)))
            return
        try:
            while True:
                lines = _lines(where, as_json)
                if sys.stdout.isatty() and not as_json:
                    click.clear()
                click.echo("\n".join(lines))
                time.sleep(_EVERY)
        except KeyboardInterrupt:
            return


def _lines(state: str, as_json: bool) -> list[str]:
    leases = {lease.holder.run: lease for lease in held(state) if lease.holder}
    elsewhere = [lease.holder.record for lease in leases.values() if lease.holder]
    found = runs.unfinished(state, [path for path in elsewhere if path])
    waiting = _waiting(state)
    if as_json:
        return [json.dumps(_document(found, leases, waiting))]
    return _table(found, leases) + _others(found, leases) + _queue(waiting, leases)


def _waiting(state: str) -> list[Waiter]:
    found = store(state)
    if found is None:
        return []
    return [one for one in found.waiters() if still_alive(one.identity) is not Alive.NO]


def _document(found: list[Run], leases: dict[str, Lease], waiting: list[Waiter]) -> dict[str, Any]:
    listed = []
    for run in found:
        lease = leases.get(run.run)
        told = _lease(lease) if lease else None
        if told and told["state"] == "reserved" and run.started is not None:
            told["state"] = "committed"  # by the record: no Python stays to write it in the store
        listed.append({**run.to_json(), "lease": told})
    shown = {run.run for run in found}
    return {
        "runs": listed,
        "leases_without_run": [_lease(one) for run, one in leases.items() if run not in shown],
        "waiting": [
            {"key": one.key, "pid": one.identity.pid, "since": one.since} for one in waiting
        ],
    }


def _lease(lease: Lease) -> dict[str, Any]:
    return {
        "key": lease.key,
        "epoch": lease.epoch,
        "state": lease.state,
        "since": lease.since.time,
        "verdict": lease.verdict.to_json() if lease.verdict else None,
    }


def _table(found: list[Run], leases: dict[str, Lease]) -> list[str]:
    if not found:
        return ["nothing runs"]
    rows: list[tuple[str, ...]] = [("RUN", "STATE", "ROOT", "AGE", "KEY", "EPOCH", "COMMAND")]
    for run in found:
        lease, event = leases.get(run.run), run.started
        key = lease.key if lease else event.key if event and event.key else "-"
        epoch = lease.epoch if lease else event.epoch if event else None
        rows.append(
            (
                run.run,
                run.state,
                str(run.root.pid) if run.root else "-",
                age(run.age),
                key + (" (unproven)" if lease and lease.state == "unproven" else ""),
                str(epoch) if epoch is not None else "-",
                command_line(event.argv) if event else "-",
            )
        )
    return columns(rows)


def _others(found: list[Run], leases: dict[str, Lease]) -> list[str]:
    shown = {run.run for run in found}
    return [
        line
        for run, lease in leases.items()
        if run not in shown
        for line in columns([(f"lease on {lease.key!r}", lease.state, f"run {run}, which is over")])
    ]


def _queue(waiting: list[Waiter], leases: dict[str, Lease]) -> list[str]:
    holders = {lease.key: run for run, lease in leases.items()}
    return [
        line
        for one in waiting
        for line in columns(
            [
                (
                    f"pid {one.identity.pid} waits for {one.key!r} since {one.since}",
                    f"held by run {holders[one.key]}" if one.key in holders else "which is free",
                )
            ]
        )
    ]
