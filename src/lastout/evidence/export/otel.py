"""A run as an OpenTelemetry span (extra `otel`): its claims as events, with the record's own times.

    span = RunSpan.begin(tracer, ["codex", "exec", prompt])
    async with open_process(argv, env=span.environment(os.environ), record=path) as process:
        await process.wait()
    span.finish(journal.read(path))

or, for a run that is over, `export(tracer, journal.read(path))`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from lastout.evidence.claims import Reading, Story
from lastout.evidence.events import Prepared, Started
from lastout.evidence.journal import Contents
from lastout.evidence.mask import mask_indices, masked
from lastout.evidence.summary import Summary, summarise
from lastout.evidence.why import story
from lastout.evidence.words import sentence

__all__ = ["RunSpan", "export", "traceparent"]

_TRACEPARENT, _TRACESTATE = "traceparent", "tracestate"


class RunSpan:
    """The span of a run that is about to start; the child's own spans can be its children."""

    def __init__(self, span: Span) -> None:
        self.span = span

    @classmethod
    def begin(cls, tracer: Tracer, argv: Sequence[str]) -> RunSpan:
        """Start the span now, below the current one. Secrets in `argv` are masked."""
        return cls(tracer.start_span(_name(argv), kind=SpanKind.INTERNAL, attributes=_argv(argv)))

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The child's environment, with TRACEPARENT (and TRACESTATE) of this span."""
        carried: dict[str, str] = {}
        context = trace.set_span_in_context(self.span)
        TraceContextTextMapPropagator().inject(carried, context)
        kept = {
            name: value
            for name, value in environment.items()
            if name not in ("TRACEPARENT", "TRACESTATE")
        }
        return {**kept, **{name.upper(): value for name, value in carried.items()}}

    def finish(self, contents: Contents) -> None:
        """Put what the record tells into the span and end it, at the time that the run ended."""
        _fill(self.span, contents)


def export(tracer: Tracer, contents: Contents, parent: str | None = None) -> Span | None:
    """A span for a run that is over, with its own times; None for a record that says too little.

    `parent` is a `traceparent`; without one the label of that name is used, where the owner gave it
    to `prepared`, and the span has no parent otherwise.
    """
    reading = Reading(contents)
    started, prepared = reading.first(Started), reading.first(Prepared)
    if started is None:
        return None
    if parent is None and prepared is not None:
        label = prepared.labels.get(_TRACEPARENT)
        parent = label if isinstance(label, str) else None
    context = None
    if parent:
        context = TraceContextTextMapPropagator().extract({_TRACEPARENT: parent})
    span = tracer.start_span(
        _name(started.argv),
        context=context,
        kind=SpanKind.INTERNAL,
        start_time=_wall_ns(started.time),
        attributes=_argv(started.argv, mask=False),
    )
    _fill(span, contents)
    return span


def traceparent(span: Span) -> str:
    """The `traceparent` of a span, for a label of `prepared`."""
    carried: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carried, trace.set_span_in_context(span))
    return carried.get(_TRACEPARENT, "")


def _fill(span: Span, contents: Contents) -> None:
    told, row = story(contents), summarise(contents)
    started = Reading(contents).first(Started)
    for name, value in _attributes(row).items():
        span.set_attribute(name, value)
    if started is not None:
        span.set_attribute("process.pid", started.root.pid)
        if started.exe:
            span.set_attribute("process.executable.path", started.exe)
        # The record's times are of a clock that no step moves; one pair tells what it is by the wall.
        offset = _wall_ns(started.time) - started.boottime_ns
        for claim in told.claims:
            if claim.at_ns is not None:
                attributes = {
                    "lastout.grade": claim.grade.value,
                    "lastout.sentence": sentence(claim.kind, claim.facts),
                    "lastout.lines": list(claim.events),
                }
                span.add_event(claim.kind, attributes, timestamp=claim.at_ns + offset)
    span.set_status(_status(told, row))
    span.end(None if row.ended_us is None else row.ended_us * 1000)


def _attributes(row: Summary) -> dict[str, Any]:
    found = {
        "lastout.run": row.run,
        "lastout.state": row.state,
        "lastout.verdict": row.verdict,
        "lastout.key": row.key,
        "lastout.trigger": row.trigger,
        "lastout.leftovers": row.leftovers,
        "lastout.stopped": row.stopped,
        "lastout.killed": row.killed,
        "lastout.commands": row.commands,
        "lastout.commands_failed": row.commands_failed,
        "lastout.signal": row.signal,
        "process.exit.code": row.code,
        "host.name": row.host,
    }
    return {name: value for name, value in found.items() if value not in (None, "")}


def _status(told: Story, row: Summary) -> Status:
    """An error is what the record shows to be one; what nobody knows is left unset."""
    text = " ".join(sentence(claim.kind, claim.facts) for claim in told.headline)
    if row.state in ("unproven", "not-started") or row.signal or row.code:
        return Status(StatusCode.ERROR, text)
    if row.state == "ended" and row.code == 0:
        return Status(StatusCode.OK)
    return Status(StatusCode.UNSET)


def _name(argv: Sequence[str]) -> str:
    return f"run {argv[0].rsplit('/', 1)[-1]}" if argv else "run"


def _argv(argv: Sequence[str], mask: bool = True) -> dict[str, Any]:
    shown = masked(argv, mask_indices(argv)) if mask else tuple(argv)
    return {"process.command_args": shown} if shown else {}


def _wall_ns(time: str) -> int:
    moment = datetime.fromisoformat(time)
    moment = moment.replace(tzinfo=moment.tzinfo or UTC)
    whole = moment.replace(microsecond=0)
    return int(whole.timestamp()) * 1_000_000_000 + moment.microsecond * 1000
