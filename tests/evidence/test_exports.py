"""Records for OpenTelemetry, Prometheus and logging: what they say, and nothing more."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path

import pytest

from lastout.evidence import journal
from lastout.evidence.events import Started

from .records import Record
from .test_index import DAY, ended, put


def test_a_run_is_a_span_with_its_own_times() -> None:
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.trace import StatusCode

    from lastout.evidence.export.otel import export

    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    record = Record().started().add("stop", at=1, trigger="timeout").killed("TERM", at=1.5)
    record.gone(at=2)
    for number, line in enumerate(record.lines):
        line["time"] = f"2026-11-30T12:00:0{number}.500000Z"
    export(provider.get_tracer("test"), record.contents())
    (span,) = kept.get_finished_spans()
    assert span.name == "run agent"
    assert span.start_time == 1796040000_500000000
    assert span.end_time == 1796040003_500000000
    assert span.attributes["lastout.signal"] == "TERM"
    assert span.attributes["process.pid"] == 300
    assert span.status.status_code is StatusCode.ERROR
    stop = next(event for event in span.events if event.name == "stop")
    assert stop.timestamp == span.start_time + 1_000_000_000
    assert stop.attributes["lastout.grade"] == "observed"
    assert "timeout was over" in stop.attributes["lastout.sentence"]


def test_the_child_gets_the_spans_context_and_the_secret_stays_out() -> None:
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import StatusCode

    from lastout.evidence.export.otel import RunSpan, traceparent

    tracer = TracerProvider().get_tracer("test")
    span = RunSpan.begin(tracer, ["codex", "--api-key", "abc"])
    environment = span.environment({"A": "1", "TRACEPARENT": "old", "TRACESTATE": "old"})
    context = span.span.get_span_context()
    assert environment["TRACEPARENT"] == traceparent(span.span)
    assert f"{context.trace_id:032x}-{context.span_id:016x}" in environment["TRACEPARENT"]
    assert environment["A"] == "1"
    assert "TRACESTATE" not in environment, "it belongs to another context"
    assert "abc" not in str(span.span.attributes)
    span.finish(Record().started().exited(0).gone().contents())
    assert not span.span.is_recording()
    assert span.span.status.status_code is StatusCode.OK


def test_a_run_below_the_parent_that_its_owner_named() -> None:
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace import TracerProvider

    from lastout.evidence.export.otel import export

    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    record = Record().add("prepared", argv=["agent"], labels={"traceparent": parent})
    record.started().exited(0).gone()
    span = export(TracerProvider().get_tracer("test"), record.contents())
    assert span is not None
    assert span.parent.span_id == 0xB7AD6B7169203331
    assert export(TracerProvider().get_tracer("test"), Record().contents()) is None


def test_what_nobody_knows_is_no_status() -> None:
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import StatusCode

    from lastout.evidence.export.otel import export

    span = export(TracerProvider().get_tracer("test"), Record().started().contents())
    assert span is not None
    assert span.status.status_code is StatusCode.UNSET


def test_metrics_of_the_records(tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client")
    from prometheus_client import CollectorRegistry, generate_latest

    from lastout.evidence.export.prometheus import RunCollector

    put(tmp_path, f"{DAY}T100000-aaaaaa", ended(3))
    put(tmp_path, f"{DAY}T100001-bbbbbb", Record().started())
    stopped = Record().started().add("stop", trigger="timeout").killed("TERM")
    put(tmp_path, f"{DAY}T100002-cccccc", stopped.gone(stop_ms=50, stopped_count=2))
    registry = CollectorRegistry()
    registry.register(RunCollector(tmp_path))
    text = generate_latest(registry).decode()
    for line in (
        'lastout_runs{state="ended"} 2.0',
        'lastout_runs{state="open"} 1.0',
        'lastout_root_codes{code="3"} 1.0',
        'lastout_root_signals{signal="TERM"} 1.0',
        'lastout_stops{trigger="timeout"} 1.0',
        "lastout_stopped_processes 2.0",
        'lastout_stop_seconds_bucket{le="0.02"} 0.0',
        'lastout_stop_seconds_bucket{le="0.1"} 1.0',
        "lastout_stop_seconds_count 1.0",
        "lastout_stop_seconds_sum 0.05",
    ):
        assert line in text.splitlines()
    # A scrape takes in what is new.
    put(tmp_path, f"{DAY}T100003-dddddd", ended(0))
    assert 'lastout_runs{state="ended"} 3.0' in generate_latest(registry).decode()


def test_metrics_of_nothing(tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client")
    from prometheus_client import CollectorRegistry, generate_latest

    from lastout.evidence.export.prometheus import RunCollector

    registry = CollectorRegistry()
    registry.register(RunCollector(tmp_path))
    assert "lastout_stop_seconds_count 0.0" in generate_latest(registry).decode()


@pytest.fixture
def logger() -> tuple[logging.Logger, io.StringIO, logging.Handler]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    made = logging.Logger("lastout.test")
    made.addHandler(handler)
    return made, stream, handler


def test_events_as_sentences_in_a_log(
    logger: tuple[logging.Logger, io.StringIO, logging.Handler],
) -> None:
    from lastout.evidence.export.logs import RunFormatter, log_event, log_story

    log, stream, handler = logger
    handler.setFormatter(RunFormatter("%(levelname)s %(run)s %(message)s"))
    record = Record().started(argv=["sh", "-c", "date +%s"]).killed()
    for event in record.contents().events:
        log_event(log, event)
    log.info("something else")
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith("INFO 20261130T120000-abcdef `sh -c 'date +%s'` was started")
    assert lines[1] == "WARNING 20261130T120000-abcdef The root was ended by SIGKILL."
    assert lines[-1] == "INFO - something else"
    # What needs the whole record is said by the whole story only.
    assert "not known" not in stream.getvalue()
    log_story(log, record.contents())
    assert "is not known" in stream.getvalue()


def test_events_as_json_in_a_log(
    logger: tuple[logging.Logger, io.StringIO, logging.Handler],
) -> None:
    from lastout.evidence.export.logs import RunFormatter, log_event

    log, stream, handler = logger
    handler.setFormatter(RunFormatter(as_json=True))
    (event,) = journal.parse(Record().started().data()).events
    assert isinstance(event, Started)
    log_event(log, event)
    document = json.loads(stream.getvalue().splitlines()[0])
    assert (document["run"], document["grade"]) == (event.run, "observed")
    assert document["event"]["root"]["pid"] == 300
    assert document["lines"] == ["keeper:1"]
