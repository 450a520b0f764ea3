"""Who ended the root: what can be said of the sender of the signal that its wait status names.

Four sources, kept apart: the signals that the supervisor itself sent (its own lines), the signals
that tracing saw (who, or the kernel), the kernel's OOM counters, and silence. Silence is said so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lastout.evidence.claims import Claim, Grade, Reading, reference
from lastout.evidence.events import (
    Event,
    Forced,
    Identity,
    OomCounters,
    RootExited,
    Signalled,
    Started,
    StopBegan,
    Takeover,
    TracedExit,
    TracedOom,
    TracedProcess,
    TracedSignal,
)
from lastout.evidence.traces import whole_and_lossless

__all__ = ["KINDS", "of_the_end"]

KINDS = (
    "sender",
    "sender-kernel",
    "sender-oom",
    "sender-none-seen",
    "sender-not-reported",
    "own-signal",
    "own-kill-outside",
    "no-own-signal",
    "keeper-lost-kill",
    "code-looks-like",
)
_LOOKALIKES = (124, 125, 126, 127, *range(129, 193))
_DELIVERED = ("delivered", "lost-info", "")


def of_the_end(reading: Reading) -> Iterator[Claim]:
    """Claims about the cause of the root's end; none where no line says how it ended."""
    ended = reading.first(RootExited)
    if ended is None:
        return
    if ended.signal is None:
        if ended.code in _LOOKALIKES:
            facts = {"code": ended.code}
            yield Claim(
                "code-looks-like", Grade.NOT_REPORTED, (reference(ended),), ended.boottime_ns, facts
            )
        return
    own = [*_own_signals(reading, ended), *_own_kill_outside(reading, ended)]
    yield from own
    # The supervisor's lines do not have what was killed past it.
    outside = ended.signal == "KILL" and reading.first(Forced) is not None
    if not own and not outside and reading.complete:
        yield Claim(
            "no-own-signal",
            Grade.OBSERVED,
            (reference(ended),),
            ended.boottime_ns,
            {"signal": ended.signal},
            whole=True,
        )
    yield from _keeper_lost(reading, ended)
    yield from _counters(reading, ended)
    seen = list(_traced(reading, ended))
    yield from seen
    if not seen:
        yield _nobody(reading, ended, bool(own))


def _own_signals(reading: Reading, ended: RootExited) -> Iterator[Claim]:
    """Signals of ours that can have reached the root; a sweep's line is written after the sweep."""
    for event in reading.of(Signalled):
        sent = event.result in (None, "delivered") and event.signal == ended.signal
        if not sent or not (before := _reached_root(reading, event, ended)):
            continue
        sweep = event.target == "tree"
        yield Claim(
            "own-signal",
            Grade.OBSERVED,
            tuple(reference(one) for one in before),
            ended.boottime_ns,
            {
                "signal": event.signal,
                "target": event.target,
                "forwarded": event.forwarded,
                "root_named": not sweep or event.root is True,
                "ms": None if sweep else (ended.boottime_ns - event.boottime_ns) / 1e6,
            },
        )
        return


def _own_kill_outside(reading: Reading, ended: RootExited) -> Iterator[Claim]:
    """A SIGKILL of ours that went past the supervisor; the line after it says whom it reached."""
    if ended.signal != "KILL":
        return
    began: Forced | None = None
    started = reading.first(Started)
    for event in reading.of(Forced):
        detail = event.detail if isinstance(event.detail, dict) else {}
        if started is not None and _names(detail.get("signalled"), started.root, ended.pid):
            lines: tuple[Event, ...] = (started, event, ended)
            yield _outside(lines, ended, root_named=True)
            return
        if detail.get("how") == "now" and event.boottime_ns <= ended.boottime_ns:
            began = began or event
    if began is not None:
        yield _outside((began, ended), ended, root_named=False)


def _names(signalled: object, root: Identity | None, pid: int) -> bool:
    if root is None or root.pid != pid or not isinstance(signalled, list):
        return False
    wanted = (root.pid, root.start, "delivered")
    return any(
        isinstance(one, dict) and (one.get("pid"), one.get("start"), one.get("result")) == wanted
        for one in signalled
    )


def _outside(lines: tuple[Event, ...], ended: RootExited, *, root_named: bool) -> Claim:
    return Claim(
        "own-kill-outside",
        Grade.REPORTED,
        tuple(reference(one) for one in lines),
        ended.boottime_ns,
        {"root_named": root_named},
        whole=not root_named,
    )


def _reached_root(reading: Reading, event: Signalled, ended: RootExited) -> tuple[Event, ...]:
    """The lines by which this signal can have come to the living root; none if it cannot have."""
    if event.target in ("root", "root-group"):
        return (event, ended) if event.boottime_ns <= ended.boottime_ns else ()
    if event.target != "tree" or event.count == 0 or event.root is False:
        return ()
    # The line of a sweep is written after it; it cannot have begun before its stop did.
    stop = reading.first(StopBegan)
    if stop is None or stop.boottime_ns > ended.boottime_ns:
        return ()
    return (stop, event, ended)


def _keeper_lost(reading: Reading, ended: RootExited) -> Iterator[Claim]:
    if ended.signal != "KILL":
        return
    for event in reading.events:
        lost = (isinstance(event, Takeover) and event.why == "keeper-lost") or (
            isinstance(event, StopBegan)
            and event.trigger == "peer-lost"
            and event.which == "keeper"
        )
        if lost:
            yield Claim(
                "keeper-lost-kill",
                Grade.OBSERVED,
                (reference(event), reference(ended)),
                ended.boottime_ns,
            )
            return


def _counters(reading: Reading, ended: RootExited) -> Iterator[Claim]:
    """The kernel's OOM-kill counters, when both readings enclose the end."""
    begin = next((c for c in reading.of(OomCounters) if c.when == "begin"), None)
    end = next((c for c in reversed(reading.of(OomCounters)) if c.when == "end"), None)
    if begin is None or end is None or ended.signal != "KILL":
        return
    if not begin.boottime_ns <= ended.boottime_ns <= end.boottime_ns:
        return
    same_group = begin.cgroup is not None and begin.cgroup == end.cgroup
    rose: dict[str, int | None] = {
        "machine": _rise(begin.machine, end.machine),
        "cgroup": _rise(begin.cgroup_kills, end.cgroup_kills) if same_group else None,
    }
    if rose["machine"] is None and rose["cgroup"] is None:
        return
    yield Claim(
        "oom-counters",
        Grade.TRACED,
        (reference(begin), reference(end), reference(ended)),
        ended.boottime_ns,
        {**rose, "group": begin.cgroup if same_group else None},
        {"begin": begin.machine, "end": end.machine},
    )


def _rise(begin: int | None, end: int | None) -> int | None:
    return None if begin is None or end is None or end < begin else end - begin


def _traced(reading: Reading, ended: RootExited) -> Iterator[Claim]:
    # Of SIGKILL the first counts, since what comes to a dying process changes nothing; any other can
    # have been caught, so that the last before the end is the one.
    signals = sorted(reading.of(TracedSignal), key=lambda event: event.at_ns)
    for event in signals if ended.signal == "KILL" else reversed(signals):
        if event.who != "root" or event.signal != ended.signal or event.result not in _DELIVERED:
            continue
        if event.target.pid != ended.pid or event.at_ns > ended.boottime_ns:
            continue
        victim = _oom_victim(reading, ended)
        if event.by == "kernel" and victim is not None:
            named = (reference(victim), reference(event), reference(ended))
            yield Claim("sender-oom", Grade.TRACED, named, event.at_ns, {"signal": event.signal})
            return
        events: tuple[str, ...] = (reference(event), reference(ended))
        facts: dict[str, Any]
        if event.by == "kernel":
            facts = {"signal": event.signal}
            yield Claim("sender-kernel", Grade.TRACED, events, event.at_ns, facts)
            return
        started = reading.first(Started)
        role = _role(event.sender, started, event.by)
        if role in ("keeper", "front", "owner") and started is not None:
            events = (reference(started), *events)
        facts = {"signal": event.signal, "sender": _process(event.sender), "role": role}
        yield Claim("sender", Grade.TRACED, events, event.at_ns, facts, {"si_code": event.si_code})
        return


def _oom_victim(reading: Reading, ended: RootExited) -> TracedOom | None:
    return next(
        (
            oom
            for oom in reading.of(TracedOom)
            if oom.who == "root"
            and oom.victim.pid == ended.pid
            and oom.at_ns <= ended.boottime_ns
            and ended.signal == "KILL"
        ),
        None,
    )


def _role(sender: TracedProcess | None, started: Started | None, by: str) -> str:
    if by == "self":
        return "root"
    if sender is None or started is None:
        return ""
    for role, known in (
        ("keeper", started.keeper),
        ("front", started.front),
        ("owner", started.owner),
    ):
        if known and known.pid == sender.pid and known.start == sender.start:
            return role
    return ""


def _process(process: TracedProcess | None) -> dict[str, Any] | None:
    if process is None:
        return None
    return {
        "name": process.name,
        "pid": process.pid,
        "start": process.start,
        "exe": process.exe,
        "uid": process.uid,
    }


def _nobody(reading: Reading, ended: RootExited, own: bool) -> Claim:
    whole = whole_and_lossless(reading)
    exits: list[Event] = [
        event
        for event in reading.of(TracedExit)
        if event.who == "root" and event.process.pid == ended.pid
    ]
    if whole:
        return Claim(
            "sender-none-seen",
            Grade.TRACED,
            tuple(reference(event) for event in (*whole, ended)),
            ended.boottime_ns,
            {"signal": ended.signal},
            whole=True,
        )
    return Claim(
        "sender-not-reported",
        Grade.NOT_REPORTED,
        tuple(reference(event) for event in (*exits, ended)),
        ended.boottime_ns,
        {"signal": ended.signal, "own": own},
        whole=True,
    )
