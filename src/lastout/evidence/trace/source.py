"""Where the kernel's news come from: two instances of tracefs and the connector, as one sequence.

`tree` follows the runs' own tasks (the kernel filters, and follows their forks); `signals` sees
whoever sends, so it is filtered by what is sent: signals that are everyday noise are left out.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from lastout.evidence.trace import TracingUnavailable
from lastout.evidence.trace.connector import (
    EXEC,
    EXIT,
    FORK,
    NONZERO_EXIT,
    Connector,
    Ended,
    Executed,
)
from lastout.evidence.trace.connector import Forked as ForkedByConnector
from lastout.evidence.trace.formats import Format
from lastout.evidence.trace.instance import Instance, Tracefs, guard, sweep
from lastout.evidence.trace.ringbuffer import Record
from lastout.evidence.traced import TracedProcess
from lastout.proctable import read_stat

__all__ = ["Ended", "Exited", "Forked", "Named", "Oom", "Signal", "Source", "named"]

_NOISE = (17, 23, 26, 27, 28)  # CHLD, URG, VTALRM, PROF, WINCH
_CONDITION = " && ".join(f"sig != {number}" for number in _NOISE) + " && sig < 32"
_RESULTS = ("delivered", "ignored", "already-pending", "overflow", "lost-info")
_SI_KERNEL, _SI_TIMER = 128, -2
_RESOLVED_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class Forked:
    """A task forked another."""

    at_ns: int
    parent: int
    child: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class Named:
    """A task executed a program."""

    at_ns: int
    task: int
    name: str


@dataclass(frozen=True, slots=True)
class Exited:
    """A task is gone; with `whole` its process is."""

    at_ns: int
    task: int
    name: str
    whole: bool


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal was generated. `by` is `process`, `kernel` or `self`."""

    at_ns: int
    number: int
    target: int
    target_name: str
    by: str
    sender: TracedProcess | None
    si_code: int
    result: str


@dataclass(frozen=True, slots=True)
class Oom:
    """The OOM killer chose a victim."""

    at_ns: int
    victim: int
    name: str
    anon_rss_kib: int | None


class Source:
    """Opens what can be had. Raises TracingUnavailable when that is nothing."""

    def __init__(self) -> None:
        self.how = "tracefs"
        self._tree: Instance | None = None
        self._signals: Instance | None = None
        self._connector: Connector | None = None
        # Whoever is to tell of an OOM kill must not be the next victim.
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write("-900")
        try:
            self._open_tracefs()
        except TracingUnavailable as why:
            self.close()
            self.how = "proc-connector"
            try:
                self._connector = Connector(FORK | EXEC | EXIT)
            except TracingUnavailable as error:
                raise TracingUnavailable(f"{why}; {error}") from error
        else:
            with contextlib.suppress(TracingUnavailable):
                self._connector = Connector(NONZERO_EXIT)

    @property
    def sees_senders(self) -> bool:
        """Whether senders of signals are seen."""
        return self._signals is not None

    @property
    def sees_exit_codes(self) -> bool:
        """Whether the exit codes of all processes are seen."""
        return self._connector is not None

    def follow(self, pids: Iterable[int]) -> None:
        """Follow these tasks and what they fork from now on."""
        if self._tree is not None:
            self._tree.follow(pids)

    def start(self) -> list[int]:
        """Go; the descriptors to wait on."""
        descriptors = []
        for instance in (self._tree, self._signals):
            if instance is not None:
                descriptors += instance.start()
        if self._connector is not None:
            descriptors.append(self._connector.fileno())
        return descriptors

    def drain(self, wanted: Callable[[int], bool] | None = None) -> list[Any]:
        """All news since the last time, in order; of signals only those for tasks that are `wanted`.

        Signals are read first, because their senders are looked up while they may still be there;
        the tree last, so that no signal comes before the fork of the process that it is for. One
        for a task that the tree names only then is looked up then.
        """
        news: list[Any] = []
        strangers: list[tuple[int, Record]] = []
        if self._signals is not None:
            records = list(self._signals.read())
            look = wanted is not None or len(records) <= _RESOLVED_AT_ONCE
            for record in records:
                target = self._target(record)
                if wanted is None or wanted(target):
                    news += self._signal(record, look)
                else:
                    strangers.append((target, record))
        if self._connector is not None:
            news += map(self._from_connector, self._connector.read())
        if self._tree is not None:
            tree = [one for record in self._tree.read() for one in self._task(record)]
            born = {one.child for one in tree if isinstance(one, Forked)} if strangers else ()
            for target, record in strangers:
                if target in born:
                    news += self._signal(record, True)
            news += tree
        news.sort(key=lambda one: one.at_ns)
        return news

    def saved_name(self, task: int) -> str:
        """The name of a task that has gone, where the kernel kept it."""
        return self._fs.saved_name(task) if self._signals is not None else ""

    def lost(self) -> int:
        """How many events were lost, by the kernel's own count."""
        total = 0
        for instance in (self._tree, self._signals):
            if instance is not None:
                with contextlib.suppress(OSError):
                    total += instance.lost()
        return total + (self._connector.lost if self._connector is not None else 0)

    def close(self) -> None:
        """Take everything away again."""
        for one in (self._tree, self._signals, self._connector):
            if one is not None:
                one.close()
        self._tree = self._signals = self._connector = None

    def _open_tracefs(self) -> None:
        fs = Tracefs()
        sweep(fs)
        self._fs = fs
        self._formats: dict[int, Format] = {}
        self._targets: dict[int, int] = {}
        for system, event in (
            ("sched", "sched_process_fork"),
            ("sched", "sched_process_exec"),
            ("sched", "sched_process_exit"),
            ("signal", "signal_generate"),
            ("oom", "mark_victim"),
        ):
            found = fs.format(system, event)
            self._formats[found.id] = found
            if event in ("signal_generate", "mark_victim"):
                self._targets[found.id] = found.offset("pid")
        self._tree = Instance(fs, "tree", kilobytes=1024, wake_percent=25)
        self._signals = Instance(fs, "signals", kilobytes=1024, wake_percent=0)
        guard(fs)
        try:
            self._tree.write("options/event-fork", "1")
        except OSError as error:
            raise TracingUnavailable(f"forks cannot be followed: {error}") from error
        # An empty list of pids means all: a pid that cannot exist until the first real one.
        self._tree.write("set_event_pid", str(os.getpid()))
        for event in ("sched_process_fork", "sched_process_exec", "sched_process_exit"):
            self._tree.enable("sched", event)
        self._signals.enable("signal", "signal_generate", _CONDITION)
        self._signals.enable("oom", "mark_victim")

    def _target(self, record: Record) -> int:
        """The task that a signal, or the OOM killer, is after; 0 for what is neither."""
        place = self._targets.get(int.from_bytes(record.data[:2], "little"))
        return 0 if place is None else int.from_bytes(record.data[place : place + 4], "little")

    def _task(self, record: Any) -> Iterator[Any]:
        form = self._formats.get(int.from_bytes(record.data[:2], "little"))
        if form is None:
            return
        f = form.read(record.data)
        if form.name == "sched_process_fork":
            yield Forked(record.at_ns, f["parent_pid"], f["child_pid"], f.get("child_comm", ""))
        elif form.name == "sched_process_exec":
            yield Named(record.at_ns, f["pid"], f["filename"].rsplit("/", 1)[-1][:15])
        elif form.name == "sched_process_exit":
            # Kernels before 6.16 do not say whether the whole process is over.
            yield Exited(record.at_ns, f["pid"], f["comm"], f.get("group_dead", 1) != 0)

    def _signal(self, record: Any, look: bool) -> Iterator[Any]:
        form = self._formats.get(int.from_bytes(record.data[:2], "little"))
        if form is None:
            return
        f = form.read(record.data)
        if form.name == "mark_victim":
            yield Oom(record.at_ns, f["pid"], f.get("comm", ""), f.get("anon_rss"))
            return
        sender = named(f["common_pid"], record.at_ns) if look else None
        by = "process"
        if f["code"] > 0 or f["code"] == _SI_TIMER:
            by = "kernel"  # its own (128), a fault's, or a timer's
        elif f["common_pid"] == f["pid"] or (sender and sender.pid == f["pid"]):
            by = "self"
        if sender is None:
            sender = TracedProcess(f["common_pid"])
        result = f["result"]
        yield Signal(
            record.at_ns,
            f["sig"],
            f["pid"],
            f["comm"],
            by,
            None if by == "kernel" else sender,
            f["code"],
            _RESULTS[result] if 0 <= result < len(_RESULTS) else str(result),
        )

    def _from_connector(self, one: Ended | Executed | ForkedByConnector) -> Any:
        if isinstance(one, ForkedByConnector):
            # By process, so that a fork by any thread of a member is a member's.
            return Forked(one.at_ns, one.parent_process, one.child_process)
        if isinstance(one, Executed):
            return Named(one.at_ns, one.process, _name(one.process))
        return one


def named(task: int, at_ns: int) -> TracedProcess:
    """Who a task was at that moment, as far as it can still be read; nothing is guessed."""
    tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    try:
        pid = _process_of(task)
        found = read_stat(pid)
        if found.start * tick_ns <= at_ns:
            return TracedProcess(
                pid, found.start, name=found.name, exe=_exe(pid), uid=os.stat(f"/proc/{pid}").st_uid
            )
        # Started after the event: the number was given away again.
    except (OSError, ValueError):
        pass
    return TracedProcess(task)


def _process_of(task: int) -> int:
    """The process that a task belongs to. Raises OSError."""
    with open(f"/proc/{task}/status", "rb") as file:
        for line in file:
            if line.startswith(b"Tgid:"):
                return int(line.split()[1])
    return task


def _exe(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return None


def _name(pid: int) -> str:
    try:
        return read_stat(pid).name
    except OSError:
        return ""
