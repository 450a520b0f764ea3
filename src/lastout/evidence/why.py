"""The story of a run, claim by claim, each derived from named events (`lastout why`).

Pure: a record's contents in, claims out. Each event gives the claims that it carries by itself;
what needs several events names them all; what rests on something that the record does not have is
marked `whole`. Nothing is concluded from a number that only looks like something: an exit code 137
is an exit code, a signal after ours is not said to be ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from lastout.evidence import causes, reported, traces
from lastout.evidence.claims import Claim, Grade, Reading, Story, reference
from lastout.evidence.events import (
    Closed,
    Contained,
    Dropped,
    Event,
    Failed,
    Identity,
    Leftovers,
    Member,
    Note,
    Observed,
    OpportunityBegan,
    OthersStopped,
    Prepared,
    Reaped,
    Refused,
    RootExited,
    Signalled,
    Started,
    StopAgain,
    StopBegan,
    Takeover,
    TreeGone,
    TreeUnproven,
    Unknown,
)
from lastout.evidence.journal import Contents
from lastout.evidence.line import SUPERVISOR

__all__ = ["story"]

_OBSERVED, _UNKNOWN = Grade.OBSERVED, Grade.NOT_REPORTED
_NAMED = 8
"""So many processes are named in a sentence; the rest are counted."""


def story(contents: Contents) -> Story:
    """Everything that a record's contents can tell, in time order."""
    reading = Reading(contents)
    claims: list[Claim] = []
    for event in reading.events:
        claims += _alone(event)
        claims += reported.alone(event)
        claims += traces.alone(event)
    claims += _beginning(reading)
    claims += causes.of_the_end(reading)
    claims += reported.together(reading)
    claims += traces.together(reading)
    claims += _ending(reading)
    claims += _missing(reading)
    if contents.others:
        facts = {"count": len(contents.others), "runs": list(contents.others[:_NAMED])}
        claims.append(Claim("other-runs", _UNKNOWN, facts=facts, whole=True))
    began = reading.first(Started)
    told = {name for claim in claims if claim.kind.startswith("sender") for name in claim.events}
    # What the cause of the end has told already is told once.
    claims = [
        replace(claim, detail=True)
        if claim.kind in ("traced-signal", "traced-oom") and claim.events[0] in told
        else claim
        for claim in claims
    ]
    last = max((event.boottime_ns for event in reading.events), default=0)
    claims.sort(key=lambda claim: last if claim.at_ns is None else claim.at_ns)
    return Story(
        run=contents.events[0].run if contents.events else "",
        claims=tuple(claims),
        headline=_headline(claims),
        began_ns=began.boottime_ns if began else None,
    )


def _alone(event: Event) -> Iterator[Claim]:
    match event:
        case Contained() if event.cgroup_id is not None:
            yield _claim("contained", event, detail=True, cgroup=event.cgroup)
        case Started():
            yield from _started(event)
        case Refused() | Failed():
            yield _claim("not-started", event, message=event.message, reason=event.reason)
        case StopBegan() | StopAgain():
            yield from _stop(event)
        case Note(detail={"by": str(by), "now": bool(now), "reason": str() | None as reason}):
            # What `lastout stop` and the dashboard write before they ask.
            yield _claim("stop-asked", event, Grade.REPORTED, by=by, now=now, reason=reason)
        case Signalled():
            yield _signalled(event)
        case RootExited():
            yield _root_exited(event)
        case Reaped(who="root"):
            yield _claim("root-reaped", event, detail=True, numbers=_usage(event))
        case Reaped():
            facts = {"pid": event.pid, "code": event.code, "signal": event.signal}
            yield _claim("leftover-ended", event, facts=facts, numbers=_usage(event))
        case Leftovers():
            yield _claim("leftovers", event, count=event.count, names=_names(event.members))
        case OthersStopped():
            numbers = {"took_ms": event.took_ms, "remaining": _names(event.remaining)}
            yield _claim(
                "others-stopped",
                event,
                stopped=event.stopped_count,
                killed=event.killed_count,
                remaining=event.remaining_count,
                interrupted=event.interrupted,
                numbers=numbers,
            )
        case OpportunityBegan():
            yield _claim("opportunity", event, detail=True, bound_ms=event.bound_ms)
        case Observed():
            numbers = {"held_us": event.held_us}
            yield _claim("looked-at", event, outcome=event.outcome, why=event.why, numbers=numbers)
        case Takeover():
            yield _claim("takeover", event, why=event.why, numbers={"keeper": event.keeper_status})
        case TreeGone():
            yield from _tree_gone(event)
        case TreeUnproven():
            yield from _tree_unproven(event)
        case Dropped():
            yield _claim("dropped", event, _UNKNOWN, lines=event.lines, where=event.where)
        case Unknown():
            yield _claim("unknown-line", event, _UNKNOWN, detail=True, name=event.kind)


def _started(event: Started) -> Iterator[Claim]:
    yield _claim(
        "started",
        event,
        argv=list(event.argv),
        truncated=event.argv_truncated,
        pid=event.root.pid,
        cwd=event.cwd,
        host=event.host,
        numbers={
            "root": _identity(event.root),
            "front": _identity(event.front),
            "keeper": _identity(event.keeper),
            "boot_id": event.boot_id,
            "pidns": event.pidns,
            "exe": event.exe,
            "graces_ms": [event.stdin_grace_ms, event.term_grace_ms, event.reap_bound_ms],
            "max_stop_ms": event.max_stop_ms,
            "timeout_ms": event.timeout_ms,
        },
    )
    owner = event.owner or event.parent
    yield _claim(
        "owner",
        event,
        detail=True,
        pid=owner.pid if owner else None,
        watch=event.owner_watch,
        numbers={"owner": _identity(owner) if owner else None},
    )
    if event.key is not None:
        yield _claim("key", event, key=event.key, epoch=event.epoch)


def _stop(event: StopBegan | StopAgain) -> Iterator[Claim]:
    sender = event.sender
    yield _claim(
        "stop" if isinstance(event, StopBegan) else "stop-again",
        event,
        trigger=event.trigger,
        which=event.which,
        signal=event.signal,
        sender=None if sender is None else {"pid": sender.pid, "uid": sender.uid},
        terminal=bool(sender and sender.kernel),
        shortened=getattr(event, "shortened", False),
        numbers={
            "stdin_grace_ms": event.stdin_grace_ms,
            "term_grace_ms": event.term_grace_ms,
            "reap_bound_ms": event.reap_bound_ms,
        },
    )
    if event.reason is not None or event.by is not None:
        yield _claim("stop-reason", event, Grade.REPORTED, reason=event.reason, by=event.by)


def _signalled(event: Signalled) -> Claim:
    sender = event.sender
    return _claim(
        "forwarded" if event.forwarded else "signalled",
        event,
        signal=event.signal,
        target=event.target,
        result=event.result,
        count=event.count,
        failed=event.failed,
        sender=None if sender is None else {"pid": sender.pid, "uid": sender.uid},
        numbers={"pid": event.pid, "rounds": event.rounds},
    )


def _root_exited(event: RootExited) -> Claim:
    numbers = {"pid": event.pid, "status": event.status}
    if event.signal is not None:
        return _claim("root-killed", event, signal=event.signal, core=event.core, numbers=numbers)
    if event.code is not None:
        return _claim("root-exited", event, code=event.code, numbers=numbers)
    return _claim("root-ended-somehow", event, _UNKNOWN, numbers=numbers)


def _tree_gone(event: TreeGone) -> Iterator[Claim]:
    yield _claim(
        "tree-gone",
        event,
        late=event.late,
        proof=event.proof,
        stopped=event.stopped_count,
        killed=event.killed_count,
        numbers={
            "reaped": event.reaped_count,
            "rounds": event.rounds,
            "stop_ms": event.stop_ms,
            "stopped": [_identity(one) for one in event.stopped],
        },
    )


def _tree_unproven(event: TreeUnproven) -> Iterator[Claim]:
    errors = sorted({one.kill_error for one in event.remaining if one.kill_error})
    yield _claim(
        "tree-unproven",
        event,
        count=event.remaining_count,
        names=_names(event.remaining),
        errors=errors,
        numbers={"remaining": [_identity(one) for one in event.remaining]},
    )
    if event.keeper_stays:
        yield _claim("keeper-stays", event)


def _beginning(reading: Reading) -> Iterator[Claim]:
    prepared = reading.first(Prepared)
    begun = any(isinstance(event, Started | Refused | Failed) for event in reading.events)
    if prepared is not None:
        yield _claim(
            "prepared",
            prepared,
            Grade.REPORTED,
            detail=begun,
            argv=list(prepared.argv),
            numbers={"labels": prepared.labels, "env_names": list(prepared.env_names)},
        )
    if not begun:
        yield Claim("start-not-known", _UNKNOWN, whole=True)


def _ending(reading: Reading) -> Iterator[Claim]:
    if reading.final is None:
        last = next((e for e in reversed(reading.events) if e.source in SUPERVISOR), None)
        said_end = any(isinstance(e, RootExited | Reaped) for e in reading.events)
        yield Claim(
            "no-end",
            _UNKNOWN,
            events=(reference(last),) if last else (),
            facts={"root_ended": said_end},
            whole=True,
        )
    gone, closed = reading.first(TreeGone), reading.first(Closed)
    if gone is not None and closed is not None and gone.boottime_ns <= closed.boottime_ns:
        yield Claim(
            "closed-after-tree-gone",
            _OBSERVED,
            events=(reference(gone), reference(closed)),
            at_ns=closed.boottime_ns,
            facts={"ms": (closed.boottime_ns - gone.boottime_ns) // 1_000_000},
        )


def _missing(reading: Reading) -> Iterator[Claim]:
    for source, first, last in reading.gaps():
        facts = {"source": source, "first": first, "last": last}
        yield Claim("lines-missing", _UNKNOWN, facts=facts, whole=True, detail=True)
    for event in reading.misplaced:
        facts = {"source": event.source, "seq": event.seq}
        yield Claim("misplaced-line", _UNKNOWN, (reference(event),), facts=facts, whole=True)
    for kind in ("torn", "foreign"):
        found = [problem for problem in reading.problems if problem.kind == kind]
        if found:
            facts = {"kind": kind, "count": len(found), "offset": found[0].offset}
            yield Claim("unreadable", _UNKNOWN, facts=facts, whole=True)


_HEADLINES = (
    ("not-started", "start-not-known"),
    ("root-killed", "root-exited", "root-ended-somehow"),
    causes.KINDS,
    ("tree-gone", "tree-unproven", "no-end"),
)


def _headline(claims: list[Claim]) -> tuple[Claim, ...]:
    """The claims that answer "why did it die, and is anything left?": of each row all there are."""
    chosen: list[Claim] = []
    for kinds in _HEADLINES:
        found = [claim for claim in claims if claim.kind in kinds]
        # Of the tree's end only the last word counts: a late `tree-gone` follows `tree-unproven`.
        chosen += found[-1:] if "tree-gone" in kinds else found
        if chosen and kinds[0] == "not-started":
            break
    return tuple(chosen)


def _claim(
    kind: str,
    event: Event,
    grade: Grade = _OBSERVED,
    *,
    facts: dict[str, Any] | None = None,
    numbers: dict[str, Any] | None = None,
    detail: bool = False,
    **more: Any,
) -> Claim:
    return Claim(
        kind,
        grade,
        events=(reference(event),),
        at_ns=event.boottime_ns,
        facts={**(facts or {}), **more},
        numbers={name: value for name, value in (numbers or {}).items() if value is not None},
        detail=detail,
    )


def _identity(process: Identity) -> dict[str, int]:
    return {"pid": process.pid, "start": process.start, "inode": process.inode}


def _names(members: tuple[Member, ...]) -> list[dict[str, Any]]:
    return [{"name": one.name, "pid": one.pid} for one in members[:_NAMED]]


def _usage(event: Reaped) -> dict[str, Any]:
    return {
        "pid": event.pid,
        "status": event.status,
        "user_us": event.user_us,
        "system_us": event.system_us,
        "max_rss_kib": event.max_rss_kib,
    }
