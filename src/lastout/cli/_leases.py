"""What the commands about runs and leases share: which run is meant, and how it is told."""

from __future__ import annotations

import os

import click

from lastout.cli._tables import age, columns
from lastout.identity import Alive, ProcessIdentity, still_alive
from lastout.leases import locks
from lastout.leases.model import Lease
from lastout.leases.store import Store
from lastout.recovery import case as cases
from lastout.recovery import runs
from lastout.recovery.case import Case
from lastout.sole_writer import open_store
from lastout.state import locate

__all__ = ["age", "case_of", "columns", "held", "process", "store"]


def store(state: str) -> Store | None:
    """The lease store, or None where nobody ever had a lease: looking must not make one."""
    if not os.path.exists(os.path.join(state, "leases.sqlite3")):
        return None
    return open_store(state)


def held(state: str) -> list[Lease]:
    """The leases that somebody holds."""
    found = store(state)
    return [] if found is None else [lease for lease in found.leases() if not lease.free]


def case_of(state: str | None, word: str) -> Case:
    """The run that a person means: a run id, the beginning of one, or a key that is held."""
    where = locate(state)
    found = runs.find_record(where, word)
    leases = held(where)
    for lease in leases:
        named = lease.holder is not None and lease.holder.run == word
        if lease.key == word or named:
            return cases.of_lease(lease, locks.directory(where, lease.key))
    if len(found) > 1:
        names = ", ".join(os.path.basename(path).removesuffix(".jsonl") for path in found[:5])
        raise click.ClickException(f"{word!r} can be any of {len(found)} runs: {names}")
    if not found:
        raise click.ClickException(f"no run and no held key is named {word!r}; see lastout ps")
    run = os.path.basename(found[0]).removesuffix(".jsonl")
    for lease in leases:
        if lease.holder is not None and lease.holder.run == run:
            return cases.of_lease(lease, locks.directory(where, lease.key))
    return cases.of_record(found[0])


def process(one: ProcessIdentity | None) -> str:
    """A process in a table: its pid, and whether it is still the one that was meant."""
    if one is None:
        return "-"
    mark = {Alive.YES: "", Alive.NO: " (gone)", Alive.UNKNOWN: " (?)"}[still_alive(one)]
    return f"{one.pid}{mark}"
