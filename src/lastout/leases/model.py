"""Leases as pure values: who holds a key, at which epoch, and every way that this can change.

A key is free or held. Held goes `reserved` (before any process exists) -> `committed` (front,
keeper and root are known) -> `proven` (the agent answered for this key). `unproven` is held too:
nobody could say that the last holder is gone. Each grant has a greater epoch than all before it,
and a report of an older epoch changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from lastout.identity import ProcessIdentity, from_record
from lastout.leases.refusals import Fenced, Held, IdentityIncomplete, NotInOrder, ReasonMissing
from lastout.verdict import Verdict

__all__ = [
    "STATES",
    "Change",
    "Entry",
    "Holder",
    "Lease",
    "Moment",
    "State",
    "commit",
    "dismiss",
    "prove",
    "raise_epoch",
    "release",
    "reserve",
    "settle",
    "trust",
]

State = Literal["free", "reserved", "committed", "proven", "unproven"]
STATES: Final[tuple[State, ...]] = ("free", "reserved", "committed", "proven", "unproven")


@dataclass(frozen=True, slots=True)
class Moment:
    """When something was written. The wall time is for people: no decision reads it."""

    boottime_ns: int
    time: str


@dataclass(frozen=True, slots=True)
class Holder:
    """The run that holds a key. Processes are None until they are known."""

    run: str
    record: str | None = None
    host: str = ""
    boot_id: str = ""
    owner: ProcessIdentity | None = None
    front: ProcessIdentity | None = None
    keeper: ProcessIdentity | None = None
    root: ProcessIdentity | None = None
    writer: ProcessIdentity | None = None
    """Who writes, where the agent tells it; often the root itself."""
    max_stop_ms: int = 0
    """The bound of this run's own stop; whoever waits for it waits that long and a margin."""

    def to_json(self) -> dict[str, Any]:
        """The form in the store."""
        people = {name: getattr(self, name) for name in _PEOPLE}
        return {
            "run": self.run,
            "record": self.record,
            "host": self.host,
            "boot_id": self.boot_id,
            "max_stop_ms": self.max_stop_ms,
            **{name: found.to_json() if found else None for name, found in people.items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | None) -> Holder | None:
        """Read one back; None for null. Raises ValueError for what is none."""
        if data is None:
            return None
        try:
            return cls(
                run=str(data["run"]),
                record=data.get("record"),
                host=str(data.get("host") or ""),
                boot_id=str(data.get("boot_id") or ""),
                max_stop_ms=int(data.get("max_stop_ms") or 0),
                **{name: from_record(data.get(name)) for name in _PEOPLE},
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a holder: {data!r}") from error


_PEOPLE: Final = ("owner", "front", "keeper", "root", "writer")


@dataclass(frozen=True, slots=True)
class Lease:
    """What is stored for a key. `since` is when this state began; `verdict` is the last one."""

    key: str
    epoch: int
    state: State
    holder: Holder | None
    verdict: Verdict | None
    since: Moment

    @property
    def free(self) -> bool:
        """Whether the next reservation may have the key."""
        return self.state == "free"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a key's history."""

    key: str
    epoch: int
    event: str
    run: str | None
    at: Moment
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """What a transition makes of a lease; `entry` is None when nothing changed."""

    lease: Lease
    entry: Entry | None
    doubt: int | None = None
    """With `reserve`: the store cannot answer for older epochs above this one. They are examined
    before the grant is given out, and the doubt stays until `trust` says that they were."""


def reserve(
    lease: Lease | None,
    key: str,
    holder: Holder,
    at: Moment,
    *,
    above: int = 0,
    doubt: int | None = None,
) -> Change:
    """Take a free key for a run that does not exist yet, at an epoch above all others.

    `above` is the greatest epoch that is known from elsewhere (lock files, a restored store); for
    `doubt` see `Change`. Raises Held when somebody has it.
    """
    if lease is not None and not lease.free:
        raise Held(lease)
    epoch = max(lease.epoch if lease else 0, above) + 1
    changed = _changed(Lease(key, epoch, "reserved", holder, None, at), "reserved", at)
    return replace(changed, doubt=doubt)


def trust(lease: Lease | None, epoch: int, at: Moment) -> Change:
    """Every older epoch was examined and is over. Raises Fenced for another epoch."""
    lease, _ = _held(lease, epoch)
    return _changed(lease, "trusted", at)


def commit(
    lease: Lease | None,
    epoch: int,
    at: Moment,
    *,
    front: ProcessIdentity,
    keeper: ProcessIdentity,
    root: ProcessIdentity,
    max_stop_ms: int,
) -> Change:
    """Put the processes of the run under its reservation.

    Raises Fenced for another epoch, NotInOrder after another state, IdentityIncomplete when one of
    the three could not be told from a stranger later: then the run must be stopped again.
    """
    lease, holder = _held(lease, epoch)
    people = {"front": front, "keeper": keeper, "root": root}
    for name, identity in people.items():
        if identity.pid <= 1 or not (identity.start or identity.inode) or not identity.boot_id:
            raise IdentityIncomplete(name, identity)
    wanted = replace(
        holder, front=front, keeper=keeper, root=root, max_stop_ms=max_stop_ms, boot_id=root.boot_id
    )
    if lease.state in ("committed", "proven") and holder == wanted:
        return Change(lease, None)
    if lease.state != "reserved":
        raise NotInOrder("commit", lease)
    detail = {name: identity.to_record() for name, identity in people.items()}
    changed = replace(lease, state="committed", holder=wanted, since=at)
    return _changed(changed, "committed", at, detail)


def prove(
    lease: Lease | None,
    epoch: int,
    at: Moment,
    *,
    writer: ProcessIdentity | None = None,
    evidence: Mapping[str, Any] | None = None,
) -> Change:
    """The agent answered for this key: from here on it may write.

    `writer` is the process that writes where the agent tells it, else the root. Raises Fenced for
    another epoch, NotInOrder before `commit`.
    """
    lease, holder = _held(lease, epoch)
    wanted = replace(holder, writer=writer or holder.root)
    if lease.state == "proven" and holder == wanted:
        return Change(lease, None)
    if lease.state not in ("committed", "proven"):
        raise NotInOrder("prove", lease)
    detail = {
        "writer": wanted.writer.to_record() if wanted.writer else None,
        "evidence": dict(evidence or {}),
    }
    return _changed(replace(lease, state="proven", holder=wanted, since=at), "proven", at, detail)


def settle(lease: Lease | None, epoch: int, verdict: Verdict, at: Moment) -> Change:
    """What became of the run that holds the key: free after `exited` and `killed`, kept else.

    The same report twice changes nothing. Raises Fenced for another epoch: a late report of an old
    run belongs to that run's record alone.
    """
    if lease is None or lease.epoch != epoch:
        raise Fenced(lease, epoch)
    if lease.free:
        return Change(lease, None)
    if not verdict.settled:
        if lease.state == "unproven" and lease.verdict == verdict:
            return Change(lease, None)
        changed = replace(lease, state="unproven", verdict=verdict, since=at)
        return _changed(changed, "unproven", at, verdict.to_json())
    changed = replace(lease, state="free", holder=None, verdict=verdict, since=at)
    return _changed(changed, verdict.kind, at, verdict.to_json(), run=_run(lease))


def release(lease: Lease | None, epoch: int, reason: str, by: str, at: Moment) -> Change:
    """An operator says that an unproven holder is gone, and why; that stays in the history.

    Raises Fenced for another epoch, NotInOrder for a lease that is not unproven, ReasonMissing.
    """
    lease, _ = _held(lease, epoch)
    if not reason.strip():
        raise ReasonMissing(lease.key)
    if lease.state != "unproven":
        raise NotInOrder("release", lease)
    detail = {
        "reason": reason,
        "by": by,
        "verdict": lease.verdict.to_json() if lease.verdict else None,
    }
    changed = replace(lease, state="free", holder=None, since=at)
    return _changed(changed, "released", at, detail, run=_run(lease))


def dismiss(lease: Lease, reason: str, by: str, at: Moment) -> Change:
    """An operator says that whoever ran at an epoch that the store cannot answer for is gone.

    Raises NotInOrder for a key that is held, ReasonMissing.
    """
    if not lease.free:
        raise NotInOrder("dismiss", lease)
    if not reason.strip():
        raise ReasonMissing(lease.key)
    return _changed(lease, "released", at, {"reason": reason, "by": by})


def raise_epoch(lease: Lease, by: int, at: Moment) -> Change:
    """After a restore: epochs may have been granted that the backup does not know."""
    if by <= 0:
        raise ValueError("an epoch only grows")
    changed = replace(lease, epoch=lease.epoch + by)
    return _changed(changed, "restored", at, {"from": lease.epoch}, run=_run(lease))


def _held(lease: Lease | None, epoch: int) -> tuple[Lease, Holder]:
    if lease is None or lease.epoch != epoch or lease.free or lease.holder is None:
        raise Fenced(lease, epoch)
    return lease, lease.holder


def _run(lease: Lease) -> str | None:
    return lease.holder.run if lease.holder else None


def _changed(
    lease: Lease,
    event: str,
    at: Moment,
    detail: Mapping[str, Any] | None = None,
    run: str | None = None,
) -> Change:
    return Change(lease, Entry(lease.key, lease.epoch, event, run or _run(lease), at, detail or {}))
