"""One run's share of the kernel's news: which task is whose, and what goes into the record."""

from __future__ import annotations

import os
import resource
import signal as signals
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from lastout.evidence.events import (
    Event,
    Failed,
    OomCounters,
    Reaped,
    Refused,
    Started,
    TraceBegan,
    TracedExit,
    TracedOom,
    TracedProcess,
    TracedSignal,
    TraceEnded,
)
from lastout.evidence.journal import Follower, Journal
from lastout.evidence.line import SUPERVISOR
from lastout.evidence.trace import oom
from lastout.evidence.trace.source import Ended, Exited, Forked, Named, Oom, Signal
from lastout.proctable import read_stat

__all__ = ["RunTrace"]

_MOST_LINES = 500
_ALIKE = 2
"""So many signals that are alike are written as they come; of the rest only the last, and a count."""
_MOST_ENDED = 4096


class _Task:
    __slots__ = ("at_ns", "name", "pid")

    def __init__(self, pid: int, name: str, at_ns: int) -> None:
        self.pid = pid
        self.name = name
        self.at_ns = at_ns


class RunTrace:
    """Takes every piece of news and keeps what belongs to its run.

    Who is who is known once the supervisor has written `started`; what comes before waits for it.
    Lines are bounded in number; what is left out is counted, and said at the end.
    """

    def __init__(
        self,
        run: str,
        path: str,
        *,
        how: str,
        senders: bool,
        codes: bool,
        saved_name: Callable[[int], str] = lambda task: "",
    ) -> None:
        self.run = run
        self.path = path
        self.started: Started | None = None
        self.nothing_started = False
        self._how = (how, senders, codes)
        self._saved_name = saved_name
        self._journal = Journal(path, run, "tracer")
        self._record = open(path, "rb", buffering=0)  # noqa: SIM115 - closed in `end`
        self._follower = Follower()
        self._tasks: dict[int, _Task] = {}
        self._ended: OrderedDict[int, _Task] = OrderedDict()
        self._first: dict[int, _Task] = {}
        self._roles: list[tuple[_Task, str]] = []
        self._waiting: list[Callable[[], None]] = []
        self._counts = {"signals": 0, "forks": 0, "execs": 0, "exits": 0}
        self._lines = self._omitted = self._cpu_us = 0
        self._counters: oom.Counters | None = None
        self._alike: dict[tuple[Any, ...], int] = {}
        self._last_alike: dict[tuple[Any, ...], Callable[[], None]] = {}
        self._repeated = 0
        self._root_reaped_ns: int | None = None

    def begin(self, covers: str, pid: int) -> None:
        """Write that tracing begins, and the OOM counters as they are for this process."""
        how, senders, codes = self._how
        self._journal.append(
            TraceBegan, how=how, covers=covers, sees_senders=senders, sees_exit_codes=codes
        )
        self._cpu_us = _cpu_us()
        self._counters = oom.read(pid)
        self._count_oom("begin", self._counters)

    def adopt(self, pid: int, at_ns: int = 0) -> None:
        """This task belongs to the run."""
        task = _Task(pid, _name(pid), at_ns)
        self._tasks[pid] = task
        self._first.setdefault(pid, task)

    def read_record(self) -> None:
        """Take in what the supervisor has written meanwhile."""
        while data := self._record.read(1 << 16):
            for one in self._follower.feed(data):
                if isinstance(one, Event) and one.run == self.run and one.source in SUPERVISOR:
                    self._heard(one)

    def take(self, news: Any) -> bool:
        """One piece of news; whether it was about this run."""
        match news:
            case Forked():
                return self._forked(news)
            case Named(task=pid) if pid in self._tasks:
                self._tasks[pid].name = news.name or self._tasks[pid].name
                self._counts["execs"] += 1
                return True
            case Exited(task=pid) if pid in self._tasks:
                self._over(pid)
                if news.whole:
                    self._counts["exits"] += 1
                return True
            case Ended():
                return self._has_ended(news)
            case Signal():
                return self._signalled(news)
            case Oom():
                return self._chosen(news)
        return False

    @property
    def untold(self) -> bool:
        """Whether something of the run lives and nobody has written yet who is who."""
        return self.started is None and not self.nothing_started and bool(self._tasks)

    def knows(self, pid: int) -> bool:
        """Whether this number is, or was a moment ago, one of the run's tasks."""
        return pid in self._tasks or pid in self._ended

    def end(self, why: str, lost: int) -> None:
        """Write what there is to write, and close. Raises OSError."""
        self.read_record()
        self._flush()
        for tell in self._last_alike.values():
            tell()
        if self._counters is not None:
            self._count_oom("end", oom.read(0, self._counters.cgroup))
        self._journal.append(
            TraceEnded,
            why=why,
            lost=max(0, lost),
            omitted=self._omitted,
            repeated=self._repeated,
            cpu_us=_cpu_us() - self._cpu_us,
            **self._counts,
        )
        self.close()

    def close(self) -> None:
        """Close the files."""
        self._journal.close()
        self._record.close()

    def _heard(self, event: Event) -> None:
        match event:
            case Started():
                self.started = event
                for role, who in (
                    ("front", event.front),
                    ("keeper", event.keeper),
                    ("root", event.root),
                ):
                    task = self._first.get(who.pid)
                    if task is None:
                        # It had ended before we looked: its number is still only its own until
                        # it is reaped, and news about it wait with us.
                        task = _Task(who.pid, "", event.boottime_ns)
                        self._remember(task)
                    self._roles.append((task, role))
                self._first.clear()
                self._flush()
            case Refused() | Failed():
                self.nothing_started = True
                self._first.clear()
                self._flush()
            case Reaped(who="root"):
                self._root_reaped_ns = event.boottime_ns

    def _forked(self, news: Forked) -> bool:
        if news.parent not in self._tasks or news.child in self._tasks:
            return news.parent in self._tasks
        name = news.name or self._tasks[news.parent].name
        task = self._tasks[news.child] = _Task(news.child, name, news.at_ns)
        self._counts["forks"] += 1
        if self.started is None:
            self._first.setdefault(news.child, task)
        return True

    def _over(self, pid: int) -> None:
        task = self._tasks.pop(pid)
        self._remember(task)

    def _remember(self, task: _Task) -> None:
        self._ended[task.pid] = task
        self._ended.move_to_end(task.pid)
        if len(self._ended) > _MOST_ENDED:
            self._ended.popitem(last=False)

    def _find(self, pid: int, at_ns: int) -> _Task | None:
        """The run's task with this number at this moment."""
        task = self._tasks.get(pid) or self._ended.get(pid)
        if task is None:
            return None
        reaped = self._root_reaped_ns
        if self._role(task) == "root" and reaped is not None and at_ns > reaped:
            return None  # the number is free again
        return task

    def _has_ended(self, news: Ended) -> bool:
        if news.task != news.process:
            return False  # a thread
        task = self._find(news.process, news.at_ns)
        if task is None:
            return False
        if news.process in self._tasks and self._how[0] == "proc-connector":
            self._over(news.process)
            self._counts["exits"] += 1
        status = news.status
        if status == 0:
            return True
        number = status & 0x7F
        self._write_when_known(
            task,
            TracedExit,
            at_ns=news.at_ns,
            ppid=news.parent,
            status=status,
            code=None if number else status >> 8,
            signal=_signal_name(number) if number else None,
            core=bool(status & 0x80),
        )
        return True

    def _signalled(self, news: Signal) -> bool:
        task = self._find(news.target, news.at_ns)
        if task is None:
            return False
        self._counts["signals"] += 1
        if not task.name:
            task.name = news.target_name

        def write() -> None:
            sender = news.sender.pid if news.sender else 0
            alike = (news.number, task.pid, sender, news.by, news.result)
            seen = self._alike[alike] = self._alike.get(alike, 0) + 1
            if seen > _ALIKE:
                # A flood must not crowd out the one signal that counts, nor hide its own last one.
                self._repeated += alike in self._last_alike
                self._last_alike[alike] = tell
            else:
                tell()

        def tell() -> None:
            role = self._role(task)
            ours = news.sender is not None and news.sender.pid in self._ours()
            if ours and role != "root":
                return  # the supervisor's own work, which its own lines tell
            self._write(
                TracedSignal,
                at_ns=news.at_ns,
                signal=_signal_name(news.number),
                target=self._process(task),
                who=role,
                by=news.by,
                sender=self._sharpen(news.sender),
                si_code=news.si_code,
                result=news.result,
            )

        self._when_known(write)
        return True

    def _chosen(self, news: Oom) -> bool:
        task = self._find(news.victim, news.at_ns)
        if task is None:
            return False
        self._write_when_known(task, TracedOom, at_ns=news.at_ns, anon_rss_kib=news.anon_rss_kib)
        return True

    def _ours(self) -> tuple[int, ...]:
        if self.started is None:
            return ()
        return (self.started.front.pid, self.started.keeper.pid)

    def _sharpen(self, sender: TracedProcess | None) -> TracedProcess | None:
        """A sender that is one of the run's own processes, with its full identity."""
        if sender is None:
            return None
        started = self.started
        known = (started.root, started.front, started.keeper, started.owner) if started else ()
        for one in known:
            if one is None or one.pid != sender.pid:
                continue
            if sender.start in (0, one.start) and self._is_member_or_owner(one.pid):
                return TracedProcess(
                    one.pid, one.start, one.inode, sender.name, sender.exe, sender.uid
                )
        if not sender.name:
            task = self._tasks.get(sender.pid) or self._ended.get(sender.pid)
            name = task.name if task is not None else self._saved_name(sender.pid)
            return TracedProcess(sender.pid, sender.start, name=name, uid=sender.uid)
        return sender

    def _is_member_or_owner(self, pid: int) -> bool:
        owner = self.started.owner if self.started else None
        return pid in self._tasks or pid in self._ended or (owner is not None and owner.pid == pid)

    def _process(self, task: _Task) -> TracedProcess:
        role = self._role(task)
        if role != "member" and self.started is not None:
            one = {
                "root": self.started.root,
                "front": self.started.front,
                "keeper": self.started.keeper,
            }[role]
            return TracedProcess(one.pid, one.start, one.inode, task.name)
        return TracedProcess(task.pid, _start(task), name=task.name)

    def _role(self, task: _Task) -> str:
        return next((role for one, role in self._roles if one is task), "member")

    def _write_when_known(self, task: _Task, kind: type[Any], **fields: Any) -> None:
        def write() -> None:
            place = "victim" if kind is TracedOom else "process"
            known = {**fields, place: self._process(task)}
            self._write(kind, who=self._role(task), **known)

        self._when_known(write)

    def _when_known(self, write: Callable[[], None]) -> None:
        if self.started is None and not self.nothing_started:
            self._waiting.append(write)
        else:
            write()

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        for write in waiting:
            write()

    def _write(self, kind: type[Any], **fields: Any) -> None:
        if self._lines >= _MOST_LINES:
            self._omitted += 1
            return
        self._lines += 1
        self._journal.append(kind, **fields)

    def _count_oom(self, when: str, found: oom.Counters) -> None:
        self._journal.append(
            OomCounters,
            when=when,
            machine=found.machine,
            cgroup=found.cgroup,
            cgroup_kills=found.cgroup_kills,
        )


def _cpu_us() -> int:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return int((used.ru_utime + used.ru_stime) * 1_000_000)


def _signal_name(number: int) -> str:
    try:
        return signals.Signals(number).name.removeprefix("SIG")
    except ValueError:
        return str(number)


def _name(pid: int) -> str:
    try:
        return read_stat(pid).name
    except OSError:
        return ""


def _start(task: _Task) -> int:
    """The start time of a task that is still there; 0 when it cannot be read any more."""
    try:
        found = read_stat(task.pid)
    except OSError:
        return 0
    tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    # Of another process when it started later than this one was forked.
    return found.start if not task.at_ns or found.start * tick_ns <= task.at_ns else 0
