"""One run, folded line by line into the row that the page shows: nothing is read twice."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any, Final

from lastout.evidence.claims import in_place
from lastout.evidence.events import (
    Closed,
    CommandRan,
    Dropped,
    Event,
    Failed,
    Leftovers,
    Prepared,
    Refused,
    RootExited,
    Started,
    StopBegan,
    TreeGone,
    TreeUnproven,
)
from lastout.evidence.index import Row
from lastout.evidence.journal import Follower, Problem
from lastout.evidence.line import SUPERVISOR
from lastout.identity import Alive, ProcessIdentity, still_alive
from lastout.web.ladder import Ladder
from lastout.web.plain import command, plain

__all__ = ["SLICE", "View", "row_of", "wall_ms"]

SLICE: Final = 256 << 10
"""So much of one record is read at a time: a big one holds up no other."""

_COMMAND: Final = 200


class View:
    """A record that is followed, and what its lines say so far."""

    def __init__(self, path: str, run: str | None = None) -> None:
        """`run` is its id; by default what the file is named after."""
        self.path = path
        self.run = run or os.path.basename(path).removesuffix(".jsonl")
        self._forget()

    def _forget(self) -> None:
        self.offset = 0
        """How far the record was read, in bytes."""
        self._follower = Follower()
        self._shown = ""
        self._clear()

    def _clear(self) -> None:
        self.started: Started | None = None
        self.ladder: Ladder | None = None
        self.final: Event | None = None
        self.lost = False
        """The supervisors are gone, and no last word came."""
        self._argv: tuple[str, ...] = ()
        self._first: Event | None = None
        self._last: Event | None = None
        self._ended: RootExited | None = None
        self._closed: str | None = None
        self._counts = {"left": 0, "commands": 0, "failed": 0, "missing": 0, "problems": 0}
        self._items: set[str] = set()

    def read(self) -> bool:
        """Read on from where the last reading ended, at most a slice; whether there is more.
        Raises OSError."""
        with open(self.path, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            if size < self.offset:
                self._forget()  # cut off or replaced: what was read is not what stands there
            file.seek(self.offset)
            data = file.read(SLICE)
        self.offset += len(data)
        lines, last = self._follower.feed(data), self._follower.last
        if last != self._shown:
            if self._shown:
                self._clear()  # another run was appended: what was told is not of this one
            self._shown = last
        for found in lines:
            if isinstance(found, Event) and last and found.run != last:
                continue
            if isinstance(found, Problem) or not in_place(found):
                self._counts["problems"] += 1
            else:
                self._take(found)
        return bool(data) and self.offset < size

    def _take(self, event: Event) -> None:
        self._first = self._first or event
        self._last = event
        if event.source in SUPERVISOR:
            last_word = isinstance(event, TreeGone | TreeUnproven | Refused | Failed)
            self.final = event if last_word else None
        match event:
            case Started():
                self.started, self._argv = event, event.argv
            case Prepared() if not self._argv:
                self._argv = event.argv
            case StopBegan():
                self.ladder = Ladder(event, wall_ms(event.time) or 0.0)
            case RootExited():
                self._ended = event
            case Leftovers():
                self._counts["left"] = event.count
            case CommandRan():
                self._command(event)
            case Dropped():
                self._counts["missing"] += event.lines
            case Closed():
                self._closed = event.verdict
        if self.ladder is not None:
            self.ladder.take(event)

    def _command(self, event: CommandRan) -> None:
        if event.item is not None and event.item in self._items:
            return  # reported again
        self._items.add(event.item or "")
        self._counts["commands"] += 1
        self._counts["failed"] += event.phase == "unfinished" or event.exit_code not in (None, 0)

    @property
    def over(self) -> bool:
        """Whether the record says that nothing of the run is left, or that nothing was started."""
        return isinstance(self.final, TreeGone | Refused | Failed) or (
            self.lost and self._closed in ("exited", "killed")
        )

    def supervisor(self) -> ProcessIdentity | None:
        """The first of front and keeper that is not known to be dead; None when both are, or when
        the record names nobody."""
        for one in self._supervisors():
            if still_alive(one) is not Alive.NO:
                return one
        return None

    def _supervisors(self) -> list[ProcessIdentity]:
        event = self.started
        if event is None:
            return []
        return [
            ProcessIdentity(one.pid, one.start, one.inode, event.boot_id, event.pidns)
            for one in (event.front, event.keeper)
        ]

    @property
    def state(self) -> str:
        """One of starting, running, stopping, unproven, lost, ended, not-started."""
        match self.final:
            case TreeGone():
                return "ended"
            case Refused() | Failed():
                return "not-started"
        if self.lost:
            return "ended" if self.over else "lost"
        if isinstance(self.final, TreeUnproven):
            return "unproven"
        if self.started is None:
            return "starting"
        return "stopping" if self.ladder is not None else "running"

    def row(self) -> dict[str, Any]:
        """The form for the page; times are milliseconds since the epoch."""
        event, ended = self.started, self._ended
        began = event or self._first
        final = self.final if self.over else None
        duration = (final.boottime_ns - began.boottime_ns) / 1e6 if final and began else None
        gone = self.final if isinstance(self.final, TreeGone) else None
        return {
            "id": self.run,
            "state": self.state,
            "command": command(self._argv, _COMMAND),
            "key": event.key and plain(event.key) if event else None,
            "epoch": event.epoch if event else None,
            "root": event.root.pid if event else None,
            "began": wall_ms(began.time) if began else None,
            "ended": wall_ms(final.time) if final else None,
            "took": round(duration) if duration is not None else None,
            "code": ended.code if ended else None,
            "signal": plain(ended.signal) if ended and ended.signal else None,
            "verdict": self._closed and plain(self._closed),
            "stopped": gone.stopped_count if gone else 0,
            "killed": gone.killed_count if gone else 0,
            "stop": self.ladder.to_json() if self.ladder else None,
            "why": plain(self.final.message) if isinstance(self.final, Refused | Failed) else None,
            "last": wall_ms(self._last.time) if self._last else None,
            **self._counts,
        }


def row_of(found: Row) -> dict[str, Any]:
    """The same form from the index: of a run that is over and was not followed."""
    stop = None
    if found.trigger is not None:
        stop = {"trigger": plain(found.trigger), "stage": "gone", "took": found.stop_ms}
    return {
        "id": plain(found.run),
        "state": "lost" if found.state == "open" else found.state,
        "command": plain(found.command),
        "key": found.key and plain(found.key),
        "epoch": None,
        "root": None,
        "began": found.began_us and found.began_us / 1000,
        "ended": found.ended_us and found.ended_us / 1000,
        "took": found.duration_ms,
        "code": found.code,
        "signal": found.signal and plain(found.signal),
        "verdict": found.verdict and plain(found.verdict),
        "stopped": found.stopped,
        "killed": found.killed,
        "stop": stop,
        "why": None,
        "last": None,
        "left": found.leftovers,
        "commands": found.commands,
        "failed": found.commands_failed,
        "missing": found.lost,
        "problems": found.problems,
    }


def wall_ms(time: str) -> float | None:
    """Milliseconds since the epoch of a line's wall time."""
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        return None
    return round(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() * 1000, 1)
