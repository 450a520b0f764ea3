"""What the tracing of a run says, and how much of the run it covers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lastout.evidence.claims import Claim, Grade, Reading, reference
from lastout.evidence.events import (
    Event,
    TraceBegan,
    TracedExit,
    TracedOom,
    TracedProcess,
    TracedSignal,
    TraceEnded,
)

__all__ = ["alone", "together", "whole_and_lossless"]


def alone(event: Event) -> Iterator[Claim]:
    """What one line of the tracer says by itself."""
    match event:
        case TracedSignal():
            yield _claim(
                "traced-signal",
                event,
                event.at_ns,
                signal=event.signal,
                who=event.who,
                by=event.by,
                target=_process(event.target),
                sender=None if event.sender is None else _process(event.sender),
                result=event.result,
                detail=event.result == "ignored",
                numbers={"si_code": event.si_code},
            )
        case TracedOom():
            yield _claim(
                "traced-oom", event, event.at_ns, who=event.who, victim=_process(event.victim)
            )
        case TracedExit() if event.who != "root":
            yield _claim(
                "traced-exit",
                event,
                event.at_ns,
                process=_process(event.process),
                code=event.code,
                signal=event.signal,
                # The front ends as the root did: that is its work, not news.
                detail=event.signal is None or event.who in ("front", "keeper"),
                numbers={"status": event.status, "ppid": event.ppid},
            )
        case TraceBegan():
            yield _claim(
                "trace-began",
                event,
                event.boottime_ns,
                how=event.how,
                covers=event.covers,
                senders=event.sees_senders,
                codes=event.sees_exit_codes,
                detail=True,
            )
        case TraceEnded():
            yield _claim(
                "trace-ended",
                event,
                event.boottime_ns,
                lost=event.lost,
                omitted=event.omitted,
                why=event.why,
                detail=not (event.lost or event.omitted or event.why),
                numbers={
                    "repeated": event.repeated,
                    "signals": event.signals,
                    "forks": event.forks,
                    "execs": event.execs,
                    "exits": event.exits,
                },
            )


def together(reading: Reading) -> Iterator[Claim]:
    """A trace that has no end does not know what it missed."""
    began = reading.first(TraceBegan)
    if began is not None and reading.first(TraceEnded) is None:
        yield Claim("trace-unfinished", Grade.NOT_REPORTED, (reference(began),), whole=True)


def whole_and_lossless(reading: Reading) -> tuple[Event, ...]:
    """The lines that show that tracing saw senders, the whole run, and lost nothing; or none."""
    began, ended = reading.of(TraceBegan), reading.of(TraceEnded)
    if len(began) != 1 or len(ended) != 1:
        return ()
    if not began[0].sees_senders or began[0].covers != "whole-run":
        return ()
    if ended[0].lost or ended[0].omitted or ended[0].why:
        return ()
    if any(source == "tracer" for source, _, _ in reading.gaps()) or reading.problems:
        return ()
    return (began[0], ended[0])


def _claim(
    kind: str,
    event: Event,
    at_ns: int,
    *,
    detail: bool = False,
    numbers: dict[str, Any] | None = None,
    **facts: Any,
) -> Claim:
    return Claim(
        kind, Grade.TRACED, (reference(event),), at_ns, facts, numbers or {}, detail=detail
    )


def _process(process: TracedProcess) -> dict[str, Any]:
    return {
        "name": process.name,
        "pid": process.pid,
        "start": process.start,
        "exe": process.exe,
        "uid": process.uid,
    }
