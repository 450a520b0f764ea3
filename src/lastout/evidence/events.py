"""The lines of a record as structs, one a fact (docs/reference/record.md).

Readers must outlive writers of other versions, so nearly every field may be missing: what a line
does not say is None, or empty, and never a guess. An event that this version does not know becomes
`Unknown`; what is no line of a record at all raises `NotALine`.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from lastout.evidence.contained import Contained
from lastout.evidence.line import Event, Identity, NotALine
from lastout.evidence.looked import Observed, OpportunityBegan
from lastout.evidence.owned import (
    Closed,
    CommandRan,
    Forced,
    Note,
    OwnerEvent,
    Prepared,
    TurnEnded,
)
from lastout.evidence.traced import (
    OomCounters,
    TraceBegan,
    TracedExit,
    TracedOom,
    TracedProcess,
    TracedSignal,
    TraceEnded,
    TracerEvent,
)

__all__ = [
    "Closed",
    "CommandRan",
    "Contained",
    "Dropped",
    "Error",
    "Event",
    "Failed",
    "Forced",
    "Identity",
    "Leftovers",
    "Listed",
    "Member",
    "NotALine",
    "Note",
    "Observed",
    "OomCounters",
    "OpportunityBegan",
    "OthersStopBegan",
    "OthersStopped",
    "OwnerEvent",
    "Prepared",
    "Reaped",
    "Refused",
    "Remaining",
    "RootExited",
    "Sender",
    "Signalled",
    "Started",
    "StopAgain",
    "StopBegan",
    "Takeover",
    "TraceBegan",
    "TraceEnded",
    "TracedExit",
    "TracedOom",
    "TracedProcess",
    "TracedSignal",
    "TracerEvent",
    "TreeGone",
    "TreeUnproven",
    "TurnEnded",
    "Unknown",
    "decode",
    "encode",
]


class Member(Identity, frozen=True):
    """A process of the tree, as the supervisor found it."""

    name: str = ""
    ppid: int = 0
    pgid: int = 0
    session: int = 0
    state: str = ""
    uid: int | None = None


class Remaining(Member, frozen=True):
    """A member that is still there when the bound is over; `kill_error` is an errno's name."""

    kill_error: str | None = None


class Sender(msgspec.Struct, frozen=True):
    """Who sent a signal, from siginfo; `kernel` is true for a terminal's."""

    pid: int
    uid: int | None = None
    kernel: bool = False


class Started(Event, frozen=True, kw_only=True, tag="started"):
    """The root has been executed."""

    version: str = ""
    key: str | None = None
    epoch: int | None = None
    lock: str | None = None
    owner: Identity | None = None
    owner_watch: str = ""
    parent: Identity | None = None
    front: Identity
    keeper: Identity
    root: Identity
    argv: tuple[str, ...] = ()
    argv_truncated: bool = False
    exe: str | None = None
    cwd: str | None = None
    uid: int | None = None
    gid: int | None = None
    host: str = ""
    boot_id: str = ""
    pidns: int = 0
    stdin_grace_ms: int = 0
    term_grace_ms: int = 0
    observe_bound_ms: int = 0
    reap_bound_ms: int = 0
    max_stop_ms: int
    timeout_ms: int = 0
    stdin_end: str = ""
    leftovers: str = ""
    terminal: int = 0
    contain: str = ""
    cgroup: str | None = None
    cgroup_id: int | None = None
    init: Identity | None = None
    inherited_children: int = 0
    pidfds: bool | None = None
    children_files: bool | None = None


class _NotStarted(Event, frozen=True, kw_only=True):
    reason: str
    message: str = ""
    front: Identity | None = None
    argv: tuple[str, ...] = ()
    argv_truncated: bool = False
    cwd: str | None = None
    host: str = ""
    boot_id: str = ""
    pidns: int = 0


class Refused(_NotStarted, frozen=True, kw_only=True, tag="refused"):
    """Nothing was started, because of a rule: `reason` is `owner`, `lock` or `epoch`."""


class Failed(_NotStarted, frozen=True, kw_only=True, tag="failed"):
    """Nothing was started, because the system could not: `reason` is `fork`, `exec` or `setup`.

    `step` is the system call that failed.
    """

    step: str | None = None
    errno: int = 0


class _Stop(Event, frozen=True, kw_only=True):
    trigger: str
    reason: str | None = None
    by: str | None = None
    signal: str | None = None
    sender: Sender | None = None
    which: str | None = None
    stdin_grace_ms: int | None = None
    term_grace_ms: int | None = None
    reap_bound_ms: int | None = None


class StopBegan(_Stop, frozen=True, kw_only=True, tag="stop"):
    """A stop began; the graces are those of this stop."""


class StopAgain(_Stop, frozen=True, kw_only=True, tag="stop-again"):
    """Another trigger arrived during a stop; it changed nothing, or shortened a grace."""

    shortened: bool = False


class OthersStopBegan(Event, frozen=True, kw_only=True, tag="stop-others"):
    """Everybody but the root is being stopped: a turn is over, and its agent stays."""

    reason: str | None = None
    by: str | None = None
    term_grace_ms: int | None = None
    reap_bound_ms: int | None = None


class OthersStopped(Event, frozen=True, kw_only=True, tag="others-stopped"):
    """The answer to `stop-others`; `interrupted` (`stop`, `root-exited`) says what took over."""

    reason: str | None = None
    by: str | None = None
    stopped: tuple[Identity, ...] = ()
    stopped_count: int = 0
    killed_count: int = 0
    remaining: tuple[Remaining, ...] = ()
    remaining_count: int | None = None
    interrupted: str | None = None
    took_ms: int = 0


class Signalled(Event, frozen=True, kw_only=True, tag="signalled"):
    """A signal was sent; `target` is `root-group`, `root`, `members` or `tree`.

    `root` says of a sweep of the tree whether the root was among those that it reached.
    """

    signal: str
    target: str
    pid: int | None = None
    result: str | None = None
    count: int | None = None
    failed: int | None = None
    rounds: int | None = None
    root: bool | None = None
    forwarded: bool = False
    sender: Sender | None = None


class RootExited(Event, frozen=True, kw_only=True, tag="root-exited"):
    """The root has ended and is not yet reaped; `status` is the raw wait status."""

    pid: int
    status: int | None = None
    code: int | None = None
    signal: str | None = None
    core: bool = False


class Leftovers(Event, frozen=True, kw_only=True, tag="leftovers"):
    """The root has gone and others live."""

    count: int
    members: tuple[Member, ...] = ()
    omitted: int = 0


class Reaped(Event, frozen=True, kw_only=True, tag="reaped"):
    """The root, or with `leftovers=wait` a leftover, was reaped."""

    pid: int
    who: str = ""
    status: int | None = None
    code: int | None = None
    signal: str | None = None
    core: bool = False
    user_us: int | None = None
    system_us: int | None = None
    max_rss_kib: int | None = None


class Takeover(Event, frozen=True, kw_only=True, tag="takeover"):
    """The front goes on in the keeper's place."""

    why: str
    keeper_status: int | None = None


class TreeGone(Event, frozen=True, kw_only=True, tag="tree-gone"):
    """The kernel said ECHILD: nothing that descends from the root lives."""

    stopped: tuple[Identity, ...] = ()
    stopped_count: int = 0
    killed_count: int = 0
    reaped_count: int = 0
    rounds: int = 0
    remaining: int = 0
    proof: str | None = None
    late: bool = False
    stop_ms: int = 0


class TreeUnproven(Event, frozen=True, kw_only=True, tag="tree-unproven"):
    """The bound is over and something is left."""

    remaining: tuple[Remaining, ...] = ()
    remaining_count: int | None = None
    why: str = ""
    keeper_stays: bool = False


class Dropped(Event, frozen=True, kw_only=True, tag="dropped"):
    """Lines were lost, in the `record`, on the `control` socket or in the keeper's `ring`."""

    lines: int
    where: str = ""


class Listed(Event, frozen=True, kw_only=True, tag="list"):
    """The answer to the `list` command."""

    members: tuple[Member, ...] = ()
    count: int = 0
    omitted: int = 0


class Error(Event, frozen=True, kw_only=True, tag="error"):
    """A line on the control socket was no command."""

    message: str = ""


class Unknown(Event, frozen=True, kw_only=True, tag="unknown"):
    """A line of a kind that this version does not know, or one whose fields it cannot read;
    `fields` has it whole."""

    kind: str = ""
    fields: dict[str, Any] = msgspec.field(default_factory=dict)


Known = (
    Contained | Started | Refused | Failed | StopBegan | StopAgain | Signalled | RootExited | Leftovers
    | Reaped | Takeover | TreeGone | TreeUnproven | Dropped | Listed | Error | Prepared | Closed | CommandRan
    | TurnEnded | Forced | Note | TraceBegan | TracedSignal | TracedOom | TracedExit | OomCounters |
    TraceEnded | OpportunityBegan | Observed | OthersStopBegan | OthersStopped
)  # fmt: skip

_decoder = msgspec.json.Decoder(Known)
_encoder = msgspec.json.Encoder()


def decode(line: bytes) -> Event:
    """The event that a line holds, with or without its newline. Raises NotALine."""
    try:
        known: Event = _decoder.decode(line)
        return known
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # JSON, but of another version, or with null for what its writer could not find out; or a
        # name or an argument that is not UTF-8, written with lone surrogates, which msgspec refuses.
        return _leniently(line)


def encode(event: Event) -> bytes:
    """The line of an event, with its newline."""
    whole = event.fields if isinstance(event, Unknown) else event
    try:
        return _encoder.encode(whole) + b"\n"
    except UnicodeEncodeError:
        # Bytes that are not UTF-8, as Python carries them: written as lone surrogates, as the
        # supervisor does.
        return json.dumps(msgspec.to_builtins(whole), separators=(",", ":")).encode("ascii") + b"\n"


def _leniently(line: bytes) -> Event:
    fields = _fields(line)
    told = {name: value for name, value in fields.items() if value is not None}
    try:
        known: Event = msgspec.convert(told, Known)
        return known
    except msgspec.ValidationError:
        return _unknown(fields)
    except RecursionError:
        raise NotALine("the line is nested too deeply") from None


def _unknown(fields: dict[str, Any]) -> Unknown:
    whole = {**fields, "event": "unknown", "kind": fields.get("event"), "fields": fields}
    try:
        return msgspec.convert(whole, Unknown)
    except msgspec.ValidationError as error:
        raise NotALine(f"no line of a record: {error}") from None


def _fields(line: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise NotALine(str(error)) from None
    except RecursionError:
        raise NotALine("the line is nested too deeply") from None
    if not isinstance(fields, dict):
        raise NotALine(f"the line is a JSON {type(fields).__name__}, not an object")
    return fields
