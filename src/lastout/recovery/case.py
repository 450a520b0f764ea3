"""A run that is looked at, and everything that is known of it before anybody is asked."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from lastout.evidence import journal
from lastout.evidence.events import (
    Closed,
    Contained,
    Event,
    Failed,
    Identity,
    Refused,
    Signalled,
    Started,
    TreeGone,
    TreeUnproven,
)
from lastout.evidence.line import SUPERVISOR
from lastout.graces import DEFAULT
from lastout.identity import ProcessIdentity, from_record
from lastout.leases import locks
from lastout.leases.model import Holder, Lease
from lastout.recovery import cgroups
from lastout.recovery.decide import Record
from lastout.tier import NONE, Tier, of_started

__all__ = ["Asker", "Case", "Known", "of_lease", "of_lock", "of_record", "read"]


@dataclass(frozen=True, slots=True)
class Case:
    """Which run, and under which lease. `folder` holds the key's lock files."""

    run: str
    record: str | None
    holder: Holder | None = None
    key: str | None = None
    epoch: int | None = None
    folder: str | None = None


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks for the recovery. `stop`: a person said that the run is to be stopped."""

    identities: tuple[ProcessIdentity, ...] = ()
    stop: bool = False
    handle_gone: bool = False


@dataclass(slots=True)
class Known:
    """What record, lease and lock file say, before anybody looks at a process."""

    record: Record
    run: str = ""
    """The id that the record's own lines have."""
    boot_id: str = ""
    front: ProcessIdentity | None = None
    keeper: ProcessIdentity | None = None
    root: ProcessIdentity | None = None
    writer: ProcessIdentity | None = None
    owner: ProcessIdentity | None = None
    max_stop: float = DEFAULT.max_stop
    """The bound of this run's own stop, in seconds, by its own record."""
    tier: Tier = NONE
    executing: bool | None = None
    cgroup_removed: bool = False
    """Nothing is said to have been started, and the cgroup that it would have been in is gone."""
    kill_delivered: bool | None = None
    closed: str | None = None
    """The verdict that was written into the record last."""
    evidence: dict[str, Any] = field(default_factory=dict)


def of_lease(lease: Lease, folder: str | None) -> Case:
    """The run that holds a lease. Raises ValueError for a free one."""
    if lease.holder is None:
        raise ValueError(f"{lease.key!r} is free")
    held = lease.holder
    return Case(held.run, held.record, held, lease.key, lease.epoch, folder)


def of_record(path: str) -> Case:
    """A run by its record alone."""
    return Case(os.path.basename(path).removesuffix(".jsonl"), path)


def of_lock(folder: str, epoch: int, key: str) -> Case:
    """The run that an epoch's lock file names, for whoever has lost the store."""
    told = locks.contents(folder, epoch)
    owner = None
    try:
        owner = from_record(told.get("owner"))
    except ValueError:
        pass  # a file that somebody else wrote: then there is no owner to be considerate of
    record = told.get("record")
    run = str(told.get("run") or "")
    holder = Holder(
        run=run,
        record=record if isinstance(record, str) else None,
        boot_id=str(told.get("boot_id") or ""),
        owner=owner,
    )
    return Case(run, holder.record, holder, key, epoch, folder)


def read(case: Case) -> Known:
    """Read the record and the lock file of a run. Never raises for what is in them."""
    known = Known(Record.MISSING, case.run)
    if (held := case.holder) is not None:
        known.boot_id, known.owner, known.writer = held.boot_id, held.owner, held.writer
        known.front, known.keeper, known.root = held.front, held.keeper, held.root
        if held.max_stop_ms:
            known.max_stop = held.max_stop_ms / 1000
    _lock_file(case, known)
    if case.record is not None:
        # A lease names its run; whoever comes with a path alone means what was begun there last.
        _record(case.record, case.run if held is not None else None, known)
    return known


def _record(path: str, run: str | None, known: Known) -> None:
    try:
        contents = journal.read(path, run)
    except FileNotFoundError:
        return
    except OSError as error:
        known.record = Record.UNREADABLE
        known.evidence["record_error"] = str(error)
        return
    theirs = [event for event in contents.events if event.source in SUPERVISOR]
    known.record = _state(theirs)
    if known.record is Record.EMPTY and cgroups.is_removed(theirs):
        known.cgroup_removed = True
    known.run = theirs[0].run if theirs else known.run
    if known.record is Record.EMPTY and any(found.kind == "foreign" for found in contents.problems):
        known.record = Record.UNREADABLE
    for event in contents.events:
        match event:
            case Contained() if known.front is None:
                known.front = _whole(event.front, event)
                known.boot_id = event.boot_id or known.boot_id
            case Started():
                _started(event, known)
            case Signalled(signal="KILL", target="tree"):
                known.kill_delivered = not event.failed and event.result in (None, "delivered")
            case TreeUnproven():
                known.evidence["remaining"] = [
                    {"pid": one.pid, "start": one.start, "name": one.name, "error": one.kill_error}
                    for one in event.remaining
                ]
            case Closed():
                known.closed = event.verdict
            case _:
                pass


def _state(events: Iterable[Event]) -> Record:
    state = Record.EMPTY
    for event in events:
        match event:
            case TreeGone():
                return Record.TREE_GONE
            case Refused() | Failed():
                state = Record.NOT_STARTED
            case TreeUnproven():
                state = Record.TREE_UNPROVEN
            case Started() if state is Record.EMPTY:
                state = Record.STARTED
            case _:
                pass
    return state


def _whole(one: Identity | None, line: Started | Contained) -> ProcessIdentity | None:
    if one is None:
        return None
    return ProcessIdentity(one.pid, one.start, one.inode, line.boot_id, line.pidns)


def _started(event: Started, known: Known) -> None:
    known.front, known.keeper, known.root = (
        _whole(one, event) for one in (event.front, event.keeper, event.root)
    )
    known.tier = of_started(event)
    known.boot_id = event.boot_id or known.boot_id
    known.owner = _whole(event.owner, event) if event.owner_watch != "none" else None
    known.max_stop = event.max_stop_ms / 1000


def _lock_file(case: Case, known: Known) -> None:
    """What the supervisor noted there just before it executed the root: front and keeper."""
    if case.folder is None or case.epoch is None:
        return
    try:
        with open(os.path.join(case.folder, str(case.epoch)), "rb") as file:
            lines = file.read(1 << 16).splitlines()
    except OSError:
        return
    known.executing = False
    boot, namespace = known.boot_id, 0
    for line in lines:
        try:
            told = json.loads(line)
            boot, namespace = told.get("boot_id", boot), told.get("pidns", namespace)
            if told.get("event") != "executing":
                continue
            known.executing = True
            for name in ("front", "keeper"):
                found = from_record(told.get(name), boot, namespace)
                if getattr(known, name) is None:
                    setattr(known, name, found)
        except (AttributeError, TypeError, ValueError):
            continue
