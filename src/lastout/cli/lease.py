"""`lastout lease`: who holds which key, since when, and its history."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

import click

from lastout.cli._leases import columns, process, store
from lastout.cli._options import JSON, THERE
from lastout.cli._plain import plain
from lastout.evidence import journal
from lastout.evidence.events import Note
from lastout.evidence.words.parts import visible
from lastout.leases import model
from lastout.leases.model import Entry, Holder, Lease
from lastout.leases.store import Store, Stored
from lastout.recovery import case as cases
from lastout.state import locate

__all__ = ["command"]


@click.group("lease")
def command() -> None:
    """Who may write to which key: list, show, and release what nobody could prove."""


@command.command("list")
@click.option("--all", "everything", is_flag=True, help="Also keys that are free.")
@JSON
@THERE
def list_leases(everything: bool, as_json: bool, state: str | None) -> None:
    """List the keys that are held.

    \b
    Examples:
      lastout lease list
      lastout lease list --all --json
    """
    with plain():
        found = store(locate(state))
        leases = [
            lease for lease in (found.leases() if found else []) if everything or not lease.free
        ]
    if as_json:
        click.echo(json.dumps([_lease(lease) for lease in leases]))
        return
    if not leases:
        click.echo("no key is held")
        return
    rows: list[tuple[str, ...]] = [("KEY", "EPOCH", "STATE", "RUN", "ROOT", "OWNER", "SINCE")]
    for lease in leases:
        who = _known(lease)
        rows.append(
            (
                lease.key,
                str(lease.epoch),
                _state(lease, who),
                who.run if who else "-",
                process(who.root) if who else "-",
                process(who.owner) if who else "-",
                lease.since.time,
            )
        )
    click.echo("\n".join(columns(rows)))


@command.command("show")
@click.argument("key")
@click.option("--limit", default=50, show_default=True, help="How many lines of history.")
@JSON
@THERE
def show(key: str, limit: int, as_json: bool, state: str | None) -> None:
    """Show a key: who holds it, on what evidence it was released last, and its history."""
    with plain():
        found = _store(state)
        stored = found.get(key)
        entries = found.history(key, limit)
    if stored is None:
        raise click.ClickException(f"nobody ever had a lease on {key!r}")
    lease = stored.lease
    if as_json:
        click.echo(json.dumps({**_lease(lease), "history": [_entry(one) for one in entries]}))
        return
    click.echo(f"key      {visible(key)}")
    click.echo(f"epoch    {lease.epoch}")
    who = _known(lease)
    click.echo(f"state    {_state(lease, who)}, since {lease.since.time}")
    if who is not None:
        click.echo(f"run      {visible(who.run)}")
        for name in ("owner", "front", "keeper", "root", "writer"):
            click.echo(f"{name:8} {process(getattr(who, name))}")
        click.echo(f"record   {visible(who.record or '-')}")
    if lease.verdict is not None:
        click.echo(f"verdict  {lease.verdict.sentence}")
    click.echo("")
    rows = [
        (one.at.time, str(one.epoch), one.event, one.run or "-", _detail(one)) for one in entries
    ]
    if rows:
        click.echo("\n".join(columns([("TIME", "EPOCH", "EVENT", "RUN", "EVIDENCE"), *rows])))


@command.command("release")
@click.argument("key")
@click.option("--reason", required=True, help="How you know that the agent is gone.")
@THERE
def release(key: str, reason: str, state: str | None) -> None:
    """Release an unproven lease, on your word that its agent is gone.

    Only for a key whose last agent could not be proven gone. The reason stays in the lease's
    history and in the record of the run. A key that is held otherwise: lastout stop, lastout
    recover.

    \b
    Example:
      lastout lease release my-conversation --reason "host was reinstalled; no such process"
    """
    from lastout.cli.stop import _user

    with plain():
        found = _store(state)
        stored = found.get(key)
        if stored is None or (stored.lease.free and stored.doubt is None):
            raise click.ClickException(f"nobody holds {key!r}")
        lease, by = stored.lease, _user()
        if lease.free:
            # The store was lost or restored, and an older lock is held by nobody knows whom.
            found.change(key, lambda now, at: model.dismiss(_free(now), reason, by, at))
            click.echo(f"{visible(key)}: what ran before epoch {lease.epoch} is taken for gone")
            return
        if lease.state != "unproven":
            raise click.ClickException(
                f"{key!r} is {lease.state}, not unproven: stop its run (lastout stop), or have it "
                "examined (lastout recover)"
            )
        found.change(
            key,
            lambda now, at: model.release(now.lease if now else None, lease.epoch, reason, by, at),
        )
        _note(lease, reason, by)
    click.echo(f"{visible(key)}: released at epoch {lease.epoch}")


def _free(stored: Stored | None) -> Lease:
    assert stored is not None  # leases are never removed
    return stored.lease


def _note(lease: Lease, reason: str, by: str) -> None:
    held = lease.holder
    if held is None or held.record is None or not os.path.exists(held.record):
        return
    with contextlib.suppress(OSError):
        detail = {"by": by, "reason": reason, "key": lease.key, "epoch": lease.epoch}
        text = "an operator released the unproven lease of this run"
        journal.append(held.record, Note, held.run, text=text, detail=detail)


def _store(state: str | None) -> Store:
    found = store(locate(state))
    if found is None:
        raise click.ClickException("nobody ever had a lease here")
    return found


def _known(lease: Lease) -> Holder | None:
    """The holder with the processes that its record names; `lastout run` leaves them there."""
    if lease.holder is None or lease.holder.root is not None:
        return lease.holder
    known = cases.read(cases.of_lease(lease, None))
    return Holder(
        run=lease.holder.run,
        record=lease.holder.record,
        host=lease.holder.host,
        boot_id=known.boot_id,
        owner=known.owner,
        front=known.front,
        keeper=known.keeper,
        root=known.root,
        writer=known.writer,
        max_stop_ms=round(known.max_stop * 1000),
    )


def _state(lease: Lease, who: Holder | None) -> str:
    """The state by row and record together: under `lastout run` the record alone commits."""
    started = lease.state == "reserved" and who is not None and who.root is not None
    return "committed" if started else lease.state


def _lease(lease: Lease) -> dict[str, Any]:
    who = _known(lease)
    return {
        "key": lease.key,
        "epoch": lease.epoch,
        "state": _state(lease, who),
        "since": lease.since.time,
        "holder": who.to_json() if who else None,
        "verdict": lease.verdict.to_json() if lease.verdict else None,
    }


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "epoch": entry.epoch,
        "event": entry.event,
        "run": entry.run,
        "time": entry.at.time,
        "detail": dict(entry.detail),
    }


def _detail(entry: Entry) -> str:
    told = entry.detail
    if entry.event == "released":
        return f"{told.get('by')}: {told.get('reason')}"
    return str(told.get("how") or "")
