"""One record in one row: what lists, filters, retention and exports need of a run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from lastout.evidence.claims import Reading
from lastout.evidence.events import (
    Closed,
    CommandRan,
    Dropped,
    Failed,
    Forced,
    Leftovers,
    Prepared,
    Reaped,
    Refused,
    RootExited,
    Started,
    StopBegan,
    TreeGone,
    TreeUnproven,
)
from lastout.evidence.journal import Contents
from lastout.evidence.words import command_line

__all__ = ["STATES", "Summary", "summarise"]

STATES = ("ended", "unproven", "not-started", "open")
"""`ended`: the tree was seen empty. `open`: live, or its end is not known."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A run in one row. Times are microseconds since the epoch; None is not known."""

    run: str
    state: str
    began_us: int | None = None
    ended_us: int | None = None
    duration_ms: int | None = None
    key: str | None = None
    command: str = ""
    argv0: str = ""
    host: str = ""
    boot_id: str = ""
    front: int | None = None
    verdict: str | None = None
    code: int | None = None
    signal: str | None = None
    trigger: str | None = None
    leftovers: int = 0
    stopped: int = 0
    killed: int = 0
    commands: int = 0
    commands_failed: int = 0
    lost: int = 0
    problems: int = 0
    max_rss_kib: int | None = None
    cpu_us: int | None = None
    stop_ms: int | None = None


def summarise(contents: Contents) -> Summary:
    """The row of a record. What its lines do not say stays None."""
    reading = Reading(contents)
    started, prepared = reading.first(Started), reading.first(Prepared)
    began = started or (reading.events[0] if reading.events else None)
    final = reading.final
    what = started or (final if isinstance(final, Refused | Failed) else None)
    argv = what.argv if what else prepared.argv if prepared else ()
    ended = reading.first(RootExited)
    root = next((e for e in reading.of(Reaped) if e.who == "root"), None)
    stop, left = reading.first(StopBegan), reading.first(Leftovers)
    # A forced step's own verdict, until somebody closes the run; without one it only tells of kills.
    forced = [event for event in reading.of(Forced) if event.verdict]
    closed: Sequence[Closed | Forced] = reading.of(Closed) or forced
    gone = final if isinstance(final, TreeGone) else None
    end = ended or root
    return Summary(
        run=reading.events[0].run if reading.events else "",
        state=_state(final),
        began_us=_microseconds(began.time) if began else None,
        ended_us=_microseconds(final.time) if final else None,
        duration_ms=(final.boottime_ns - began.boottime_ns) // 1_000_000
        if final and began
        else None,
        key=started.key if started else None,
        command=command_line(argv, width=200),
        argv0=argv[0].rsplit("/", 1)[-1] if argv else "",
        host=what.host if what else "",
        boot_id=what.boot_id if what else "",
        front=started.front.pid if started else None,
        verdict=closed[-1].verdict if closed else None,
        code=end.code if end else None,
        signal=end.signal if end else None,
        trigger=stop.trigger if stop else None,
        leftovers=left.count if left else 0,
        stopped=gone.stopped_count if gone else 0,
        killed=gone.killed_count if gone else 0,
        commands=len({c.item for c in reading.of(CommandRan)}),
        commands_failed=len({c.item for c in reading.of(CommandRan) if _failed(c)}),
        lost=sum(e.lines for e in reading.of(Dropped)),
        problems=len(reading.problems) + len(reading.misplaced),
        max_rss_kib=root.max_rss_kib if root else None,
        cpu_us=_sum(root.user_us, root.system_us) if root else None,
        stop_ms=gone.stop_ms if gone and stop else None,
    )


def _state(final: object) -> str:
    match final:
        case TreeGone():
            return "ended"
        case TreeUnproven():
            return "unproven"
        case Refused() | Failed():
            return "not-started"
    return "open"


def _failed(command: CommandRan) -> bool:
    return command.phase == "unfinished" or command.exit_code not in (None, 0)


def _sum(*parts: int | None) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _microseconds(time: str) -> int | None:
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        return None
    return int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() * 1_000_000)
