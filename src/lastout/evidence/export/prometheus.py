"""A Prometheus collector that reads the index (extra `prometheus`).

    REGISTRY.register(RunCollector())       # every scrape takes in what is new

All values are of the records that are kept: pruning makes them smaller, so they are gauges and
histograms of what is there, not counters of what ever was.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric

from lastout.evidence.index import Index

__all__ = ["RunCollector"]

_STOP_BUCKETS = (0.005, 0.02, 0.1, 0.5, 1.0, 2.5, 5.5, 10.0, 30.0)
_RUN_BUCKETS = (0.1, 1.0, 10.0, 60.0, 300.0, 1800.0, 7200.0, 43200.0)


class RunCollector:
    """Metrics of one state directory's runs."""

    def __init__(self, state: str | os.PathLike[str] | None = None) -> None:
        self._state = state

    def describe(self) -> Iterable[Metric]:
        """Nothing is read when the collector is registered."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """One scrape. Raises OSError when the state directory cannot be read."""
        with Index(self._state) as index:
            index.refresh()
            yield _by(index, "lastout_runs", "Runs with a record, by state.", "state")
            yield _by(
                index,
                "lastout_root_signals",
                "Roots that were ended by a signal.",
                "signal",
                "signal IS NOT NULL",
            )
            yield _by(
                index,
                "lastout_root_codes",
                "Roots that exited, by code.",
                "code",
                "code IS NOT NULL",
            )
            yield _by(
                index,
                "lastout_stops",
                "Stops, by what triggered them.",
                "trigger",
                "trigger IS NOT NULL",
            )
            yield from _sums(index)
            yield _histogram(
                index, "lastout_stop_seconds", "From a stop's begin to the empty tree.",
                "stop_ms", _STOP_BUCKETS,
            )  # fmt: skip
            yield _histogram(
                index, "lastout_run_seconds", "From the root's start to the supervisor's end.",
                "duration_ms", _RUN_BUCKETS,
            )  # fmt: skip


def _by(index: Index, name: str, text: str, column: str, condition: str = "1") -> Metric:
    family = GaugeMetricFamily(name, text, labels=[column])
    for value, count in index.query(
        f"SELECT {column}, count(*) FROM runs WHERE {condition} GROUP BY {column}"
    ):
        family.add_metric([str(value)], count)
    return family


def _sums(index: Index) -> Iterator[Metric]:
    """Plain sums over all records."""
    wanted = (
        ("lastout_leftovers", "Processes that outlived their root.", "leftovers", 1),
        (
            "lastout_stopped_processes",
            "Processes besides the root that were stopped.",
            "stopped",
            1,
        ),
        ("lastout_killed_processes", "Processes that SIGKILL ended.", "killed", 1),
        ("lastout_commands", "Commands that agents reported.", "commands", 1),
        ("lastout_commands_failed", "Of these, failed or without an end.", "commands_failed", 1),
        (
            "lastout_lines_lost",
            "Lines that are missing from records, by their own word.",
            "lost",
            1,
        ),
        ("lastout_cpu_seconds", "Processor time of the roots.", "cpu_us", 1e6),
        ("lastout_record_bytes", "Size of the records.", "size", 1),
    )
    columns = ", ".join(f"coalesce(sum({column}), 0)" for _, _, column, _ in wanted)
    (values,) = index.query(f"SELECT {columns} FROM runs")
    for (name, text, _, scale), value in zip(wanted, values, strict=True):
        yield GaugeMetricFamily(name, text, value=value / scale)


def _histogram(
    index: Index, name: str, text: str, column: str, buckets: tuple[float, ...]
) -> Metric:
    bounds = ", ".join(f"sum({column} <= {round(edge * 1000)})" for edge in buckets)
    rows: list[tuple[Any, ...]] = index.query(
        f"SELECT count(*), coalesce(sum({column}), 0), {bounds} FROM runs WHERE {column} IS NOT NULL"
    )
    count, total, *below = rows[0]
    family = HistogramMetricFamily(name, text)
    edges = [(str(edge), number or 0) for edge, number in zip(buckets, below, strict=True)]
    family.add_metric([], buckets=[*edges, ("+Inf", count)], sum_value=total / 1000)
    return family
