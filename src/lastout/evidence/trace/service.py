"""The tracer of all runs of one state directory: `lastout trace`.

It sees the signals of the whole machine (but for everyday noise) and keeps those of the last
moments, so that a run whose record appears has the signals of its beginning too.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections import deque
from collections.abc import Iterable
from typing import Any

from lastout.evidence import journal
from lastout.evidence.events import Started
from lastout.evidence.find import records
from lastout.evidence.trace.join import RunTrace
from lastout.evidence.trace.one import open_supervisor
from lastout.evidence.trace.source import Ended, Oom, Signal, Source
from lastout.evidence.watch import Watch
from lastout.proctable import children

__all__ = ["Service"]

_KEPT = 4096
_TAIL = 1 << 16


class _Live:
    """A run that is traced, and the descriptors of its supervisors."""

    def __init__(self, trace: RunTrace, waiting: set[int], lost_before: int) -> None:
        self.trace = trace
        self.waiting = waiting
        self.lost_before = lost_before


class Service:
    """Traces until it is told to stop. Raises TracingUnavailable when nothing can be traced."""

    def __init__(self, state: str) -> None:
        self.state = state
        self.source = Source()
        self.watch = Watch()
        self.live: dict[str, _Live] = {}
        self._recent: deque[Any] = deque(maxlen=_KEPT)
        self._dropped_until_ns = 0
        self._began_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self._stop_read, self._stop_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._poll = select.poll()

    def stop(self) -> None:
        """End `run` soon; may be called from a signal handler."""
        os.write(self._stop_write, b"x")

    def run(self) -> None:
        """Trace. Every run that is still going on when we end has that in its record."""
        for descriptor in (*self.source.start(), self._stop_read):
            self._poll.register(descriptor, select.POLLIN)
        if self.watch.descriptor >= 0:
            self._poll.register(self.watch.descriptor, select.POLLIN)
        self._began_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        try:
            self.watch.add_runs(self.state)
            self._look(entry.path for entry in records(self.state))
            while True:
                timeout = None if self.watch.descriptor >= 0 else 500
                ready = {descriptor for descriptor, _ in self._poll.poll(timeout)}
                self._take()
                if self.watch.descriptor in ready or timeout is not None:
                    self._look_again()
                self._end_over(ready)
                if self._stop_read in ready:
                    return
        finally:
            self._take()
            for path in list(self.live):
                self._end(path, "the tracer was stopped")
            self.source.close()
            self.watch.close()

    def _take(self) -> None:
        for news in self.source.drain():
            taken = False
            for live in self.live.values():
                taken |= live.trace.take(news)
            if not taken and isinstance(news, Signal | Oom | Ended):
                if len(self._recent) == _KEPT:
                    self._dropped_until_ns = self._recent[0].at_ns
                self._recent.append(news)
        for live in self.live.values():
            live.trace.read_record()

    def _look_again(self) -> None:
        changed = self.watch.changed()
        # A new day's directory may have had its first record before we watched it.
        if self.watch.add_runs(self.state) or changed is None:
            self._look(entry.path for entry in records(self.state))
        else:
            self._look(changed)

    def _look(self, paths: Iterable[str]) -> None:
        for path in paths:
            if path.endswith(".jsonl") and path not in self.live:
                try:
                    contents = journal.read(path)
                except OSError:
                    continue
                started = next((e for e in contents.events if isinstance(e, Started)), None)
                if started is not None and contents.final is None:
                    self._adopt(path, started)

    def _adopt(self, path: str, started: Started) -> None:
        supervisors = {open_supervisor(one) for one in (started.front, started.keeper)} - {-1}
        if not supervisors:
            return
        trace = RunTrace(
            started.run,
            path,
            how=self.source.how,
            senders=self.source.sees_senders,
            codes=self.source.sees_exit_codes,
            saved_name=self.source.saved_name,
        )
        pids = [started.front.pid, started.keeper.pid, started.root.pid]
        self.source.follow(pids)
        for pid in pids:
            trace.adopt(pid)
        for pid in _below(started.root.pid):
            self.source.follow([pid])
            trace.adopt(pid)
        at = started.boottime_ns
        whole = self._began_ns <= at and self._dropped_until_ns < at
        trace.begin("whole-run" if whole else "from-here", started.root.pid)
        trace.read_record()
        for news in self._recent:
            # The root's number is its own from its start on, for as long as it is not reaped.
            if news.at_ns >= at:
                trace.take(news)
        self.live[path] = _Live(trace, supervisors, self.source.lost())
        for descriptor in supervisors:
            self._poll.register(descriptor, select.POLLIN)

    def _end_over(self, ready: set[int]) -> None:
        for path, live in list(self.live.items()):
            for descriptor in live.waiting & ready:
                self._poll.unregister(descriptor)
                live.waiting.remove(descriptor)
                os.close(descriptor)
            if not live.waiting:
                self._take()
                self._end(path, "")

    def _end(self, path: str, why: str) -> None:
        live = self.live.pop(path)
        for descriptor in live.waiting:
            self._poll.unregister(descriptor)
            os.close(descriptor)
        try:
            live.trace.end(why, self.source.lost() - live.lost_before)
        except OSError:
            live.trace.close()  # a full disk: the record then has a trace without an end


def _below(root: int) -> list[int]:
    """Everything that descends from this process right now."""
    found: list[int] = []
    todo = [root]
    while todo:
        try:
            below = children(todo.pop())
        except OSError:
            continue
        found += below
        todo += below
    return found


def stop_on_signals(service: Service) -> None:
    """SIGTERM and Ctrl-C end the service in order."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: service.stop())
