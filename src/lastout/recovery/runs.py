"""The runs of a state directory, as their records and their processes tell: no index is needed."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from lastout.evidence.events import (
    Contained,
    Failed,
    NotALine,
    Refused,
    Started,
    StopBegan,
    decode,
    encode,
)
from lastout.evidence.line import SUPERVISOR, several_runs
from lastout.identity import Alive, ProcessIdentity, still_alive
from lastout.recovery.supervisors import START_BOUND

__all__ = ["Run", "State", "find_record", "look", "records", "unfinished"]

State = Literal["starting", "running", "stopping", "unproven", "lost", "over", "unreadable"]

_HEAD = 16 << 10  # `started` is among the first lines; argv is bounded to 8 KiB
_TAIL = 4 << 10
_LAST_WORDS = (b'"event":"tree-gone"', b'"event":"refused"', b'"event":"failed"')


@dataclass(frozen=True, slots=True)
class Run:
    """A run as it can be seen at this moment."""

    run: str
    record: str
    state: State
    started: Started | None = None

    @property
    def root(self) -> ProcessIdentity | None:
        """The root's identity."""
        return _whole(self.started, "root")

    @property
    def age(self) -> float | None:
        """Seconds since the start, by the clock that runs on while the machine sleeps."""
        if self.started is None:
            return None
        now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        return max(0.0, (now - self.started.boottime_ns) / 1e9)

    def to_json(self) -> dict[str, Any]:
        """The form of `lastout ps --json`."""
        found: dict[str, Any] = {"run": self.run, "state": self.state, "record": self.record}
        if (event := self.started) is not None:
            found |= {
                "key": event.key,
                "epoch": event.epoch,
                "argv": list(event.argv),
                "cwd": event.cwd,
                "age_s": round(self.age or 0.0, 3),
                **{
                    name: {"pid": one.pid, "start": one.start, "inode": one.inode}
                    for name in ("front", "keeper", "root", "owner")
                    if (one := getattr(event, name)) is not None
                },
            }
        return found


def records(state: str) -> Iterator[str]:
    """The paths of all records below a state directory, oldest day first."""
    top = os.path.join(state, "runs")
    try:
        days = sorted(os.listdir(top))
    except FileNotFoundError:
        return
    for day in days:
        try:
            names = sorted(os.listdir(os.path.join(top, day)))
        except (NotADirectoryError, FileNotFoundError):
            continue
        for name in names:
            if name.endswith(".jsonl"):
                yield os.path.join(top, day, name)


def unfinished(state: str, extra: list[str] | None = None) -> list[Run]:
    """Every run that is not known to be over; `extra` are records that lie elsewhere."""
    found = {}
    for path in (*records(state), *(extra or ())):
        run = look(path)
        if run.state != "over":
            found[run.run] = run
    return list(found.values())


def look(path: str) -> Run:
    """One run: its `started` line, its last word, and whether its supervisors are alive. Of several
    runs in one record, the one that began last."""
    name = os.path.basename(path).removesuffix(".jsonl")
    try:
        with open(path, "rb", buffering=0) as file:
            head = file.read(_HEAD)
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL))
            tail = head if size <= len(head) else file.read(_TAIL)
            written = os.fstat(file.fileno()).st_mtime
    except OSError:
        return Run(name, path, "unreadable")
    if several_runs(head, tail):
        from lastout.evidence import journal

        try:
            contents = journal.read(path)
        except OSError:
            return Run(name, path, "unreadable")
        head = tail = b"".join(map(encode, contents.events))
    if any(word in tail for word in _LAST_WORDS) and _is_last_word(tail):
        return Run(name, path, "over")
    started, stopping = _read_head(head)
    if started is None and (made := _contained(head)) is not None:
        return Run(made.run, path, "starting" if _alive(made, "front") else "lost")
    if started is None:
        if b'"event"' in head and any(b'"from":"' + who in head for who in (b"front", b"keeper")):
            return Run(name, path, "unreadable")
        # For people only: a start takes milliseconds, and nobody else can tell from here.
        return Run(name, path, "starting" if abs(time.time() - written) < START_BOUND else "lost")
    if any(_alive(started, who) for who in ("front", "keeper")):
        unproven = b'"event":"tree-unproven"' in tail
        stopping = stopping or b'"event":"stop"' in tail
        state: State = "unproven" if unproven else "stopping" if stopping else "running"
        return Run(started.run, path, state, started)
    if _has_end(path):
        return Run(started.run, path, "over", started)
    return Run(started.run, path, "lost", started)


def find_record(state: str, word: str) -> list[str]:
    """The records whose run id is `word` or begins with it."""
    found = [path for path in records(state) if os.path.basename(path).startswith(word)]
    exact = [path for path in found if os.path.basename(path) == word + ".jsonl"]
    return exact or found


def _is_last_word(tail: bytes) -> bool:
    for line in reversed(tail.splitlines()):
        try:
            event = decode(line)
        except NotALine:
            continue
        if event.source in SUPERVISOR:
            return type(event).__name__ == "TreeGone" or isinstance(event, Refused | Failed)
    return False


def _has_end(path: str) -> bool:
    """The whole record: lines of the owner (an agent's commands) can stand after the last word."""
    from lastout.evidence import journal
    from lastout.evidence.events import Closed, TreeGone

    try:
        events = journal.read(path).events
    except OSError:
        return False
    return any(
        isinstance(event, TreeGone | Refused | Failed)
        or (isinstance(event, Closed) and event.verdict != "unproven")
        for event in events
    )


def _read_head(head: bytes) -> tuple[Started | None, bool]:
    started, stopping = None, False
    for line in head.splitlines():
        try:
            event = decode(line)
        except NotALine:
            continue
        if isinstance(event, Started):
            started = event
        stopping = stopping or isinstance(event, StopBegan)
    return started, stopping


def _contained(head: bytes) -> Contained | None:
    """The line before anything is started, with the tier that has one."""
    for line in head.splitlines():
        with contextlib.suppress(NotALine):
            if isinstance(event := decode(line), Contained):
                return event
    return None


def _alive(started: Started | Contained, who: str) -> bool:
    one = _whole(started, who)
    return one is not None and still_alive(one) is not Alive.NO


def _whole(started: Started | Contained | None, who: str) -> ProcessIdentity | None:
    one = getattr(started, who, None)
    if started is None or one is None:
        return None
    return ProcessIdentity(one.pid, one.start, one.inode, started.boot_id, started.pidns)
