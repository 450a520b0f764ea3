"""What is on the picture, whatever draws it.

Lines end where an end was seen. What is only known to have been over by then, or not known at all,
is marked so: a drawing must not say more than the record either.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

from lastout.evidence.claims import Reading
from lastout.evidence.events import (
    CommandRan,
    Event,
    Leftovers,
    Reaped,
    RootExited,
    Signalled,
    Started,
    StopBegan,
    Takeover,
    TracedExit,
    TracedOom,
    TracedSignal,
    TreeGone,
    TreeUnproven,
)
from lastout.evidence.journal import Contents
from lastout.evidence.words import command_line, visible

__all__ = ["Arrow", "Band", "Lane", "Mark", "Picture", "picture"]

_MOST_MEMBERS = 12
_MOST_COMMANDS = 12
_MS = 1_000_000


@dataclass(slots=True)
class Lane:
    """One process (or one command): where its line begins and ends.

    `sure_from` is from when it was seen; before that the line is a guess and drawn thin. `end` None
    means that no end is known; `end_sure` False that it was over by then.
    """

    name: str
    role: str
    begin: int
    sure_from: int
    end: int | None = None
    end_sure: bool = True
    label: str = ""


@dataclass(frozen=True, slots=True)
class Arrow:
    """A signal: at a moment, to a lane, from one (None: from outside, or nobody knows)."""

    at: int
    label: str
    target: int
    source: int | None = None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Band:
    """A stage of the ladder."""

    name: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment of the whole run."""

    at: int
    label: str


@dataclass(slots=True)
class Picture:
    """Everything that is drawn; times are CLOCK_BOOTTIME in nanoseconds."""

    title: str
    run: str
    begin: int = 0
    end: int = 0
    lanes: list[Lane] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)
    bands: list[Band] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    omitted: int = 0

    def place(self) -> Axis:
        """Where a moment is, from 0 to 1."""
        times = {self.begin, self.end}
        times |= {arrow.at for arrow in self.arrows} | {mark.at for mark in self.marks}
        times |= {edge for band in self.bands for edge in (band.begin, band.end)}
        times |= {lane.end for lane in self.lanes if lane.end is not None}
        times |= {lane.sure_from for lane in self.lanes}
        return Axis(times)


class Axis:
    """An axis on which quiet hours do not hide a stop's milliseconds: gaps count by logarithm."""

    def __init__(self, times: Iterable[int]) -> None:
        self.times = sorted(times)
        places = [0.0]
        for before, after in zip(self.times, self.times[1:], strict=False):
            places.append(places[-1] + 0.35 + math.log1p((after - before) / _MS))
        whole = places[-1] or 1.0
        self._places = [place / whole for place in places]

    def __call__(self, at: int) -> float:
        index = bisect_left(self.times, at)
        if index == len(self.times):
            return 1.0
        if self.times[index] == at or index == 0:
            return self._places[index]
        before, after = self.times[index - 1], self.times[index]
        share = (at - before) / (after - before)
        return self._places[index - 1] + share * (self._places[index] - self._places[index - 1])


def picture(contents: Contents) -> Picture:
    """The picture of a record; of one that says too little, an empty one."""
    reading = Reading(contents)
    started = reading.first(Started)
    run = contents.events[0].run if contents.events else ""
    if started is None:
        return Picture("nothing was started", run)
    drawn = Picture(command_line(started.argv, 80), run, started.boottime_ns)
    drawn.end = max(event.boottime_ns for event in reading.events)
    if drawn.end == drawn.begin:
        drawn.end += _MS
    _processes(reading, started, drawn)
    _members(reading, drawn)
    _commands(reading, drawn)
    _ladder(reading, drawn)
    _signals(reading, drawn)
    _moments(reading, drawn)
    return drawn


def _processes(reading: Reading, started: Started, drawn: Picture) -> None:
    begin = drawn.begin
    owner = started.owner or started.parent
    stop = reading.first(StopBegan)
    if owner is not None:
        lane = Lane(f"owner {owner.pid}", "owner", begin, begin)
        if stop is not None and stop.trigger == "owner-died":
            lane.end, lane.label = stop.boottime_ns, "died"
        drawn.lanes.append(lane)
    final = reading.final
    for role, process in (("front", started.front), ("keeper", started.keeper)):
        lane = Lane(f"{role} {process.pid}", role, begin, begin)
        lost = _lost(reading, role)
        if lost is not None:
            lane.end, lane.label, lane.end_sure = lost, "lost", False
        elif isinstance(final, TreeGone):
            lane.end, lane.end_sure = final.boottime_ns, False
        drawn.lanes.append(lane)
    name = visible(started.argv[0].rsplit("/", 1)[-1]) if started.argv else "root"
    root = Lane(f"{name} {started.root.pid}", "root", begin, begin)
    ended = reading.first(RootExited)
    if ended is not None:
        root.end, root.label = ended.boottime_ns, _end_label(ended.code, ended.signal)
    drawn.lanes.append(root)


def _lost(reading: Reading, role: str) -> int | None:
    for event in reading.events:
        if role == "keeper" and isinstance(event, Takeover) and event.why == "keeper-lost":
            return event.boottime_ns
        if isinstance(event, StopBegan) and event.trigger == "peer-lost" and event.which == role:
            return event.boottime_ns
    return None


def _members(reading: Reading, drawn: Picture) -> None:
    """Leftovers from when they were seen; their end by their reap, by tracing, or by the tree's."""
    lanes: dict[int, Lane] = {}
    for event in reading.of(Leftovers):
        drawn.omitted += event.count - len(event.members[:_MOST_MEMBERS])
        for member in event.members[:_MOST_MEMBERS]:
            lanes[member.pid] = Lane(
                f"{visible(member.name)} {member.pid}", "member", drawn.begin, event.boottime_ns
            )
    for unproven in reading.of(TreeUnproven):
        for remaining in unproven.remaining[:_MOST_MEMBERS]:
            lanes.setdefault(
                remaining.pid,
                Lane(
                    f"{visible(remaining.name)} {remaining.pid}",
                    "member",
                    drawn.begin,
                    unproven.boottime_ns,
                ),
            )
    for exited in reading.of(TracedExit):
        if exited.who != "member" or exited.at_ns < drawn.begin:
            continue
        lane = lanes.get(exited.process.pid)
        if lane is None and len(lanes) < _MOST_MEMBERS and exited.signal:
            name = f"{visible(exited.process.name)} {exited.process.pid}"
            lane = lanes[exited.process.pid] = Lane(name, "member", drawn.begin, exited.at_ns)
        if lane is not None:
            lane.end, lane.label = exited.at_ns, _end_label(exited.code, exited.signal)
    for reaped in reading.of(Reaped):
        lane = lanes.get(reaped.pid)
        if lane is not None and reaped.who == "leftover":
            lane.end, lane.label = reaped.boottime_ns, _end_label(reaped.code, reaped.signal)
    gone = reading.final if isinstance(reading.final, TreeGone) else None
    stop = reading.first(StopBegan)
    if gone is not None and stop is not None:
        # Signalled in the stop, so they were alive then; nobody wrote down their names.
        unnamed = [one.pid for one in gone.stopped if one.pid not in lanes]
        drawn.omitted += max(0, len(lanes) + gone.stopped_count - _MOST_MEMBERS)
        for pid in unnamed[: max(0, _MOST_MEMBERS - len(lanes))]:
            lanes[pid] = Lane(f"pid {pid}", "member", drawn.begin, stop.boottime_ns)
    for lane in lanes.values():
        if lane.end is None and gone is not None:
            lane.end, lane.end_sure = gone.boottime_ns, False
    drawn.lanes += lanes.values()


def _commands(reading: Reading, drawn: Picture) -> None:
    ended = [c for c in reading.of(CommandRan) if c.phase == "completed"]
    drawn.omitted += max(0, len(ended) - _MOST_COMMANDS)
    for command in ended[:_MOST_COMMANDS]:
        length = (command.duration_ms or 0) * _MS
        begin = max(drawn.begin, command.boottime_ns - length)
        # Without a reported duration only the moment of the report is known.
        name = visible(command.command or "command")
        label = "" if command.exit_code is None else f"exit {command.exit_code}"
        drawn.lanes.append(
            Lane(name[:24], "command", begin, begin, command.boottime_ns, True, label)
        )


def _ladder(reading: Reading, drawn: Picture) -> None:
    stop = reading.first(StopBegan)
    if stop is None:
        return
    final = reading.final
    end = final.boottime_ns if final is not None else drawn.end
    term = next((e for e in reading.of(Signalled) if e.signal == "TERM" and not e.forwarded), None)
    kill = next((e for e in reading.of(Signalled) if e.target == "tree"), None)
    at = stop.boottime_ns
    if stop.stdin_grace_ms and term is not None and term.boottime_ns > at:
        drawn.bands.append(Band("stdin end", at, term.boottime_ns))
        at = term.boottime_ns
    elif stop.stdin_grace_ms and term is None:
        drawn.bands.append(Band("stdin end", at, end))
        return
    # The sweep's line is written when it is over: it began when the grace was.
    killed_from = end
    if kill is not None:
        killed_from = min(at + (stop.term_grace_ms or 0) * _MS, kill.boottime_ns)
    drawn.bands.append(Band("SIGTERM", at, killed_from))
    if kill is not None:
        drawn.bands.append(Band("SIGKILL", killed_from, end))


def _signals(reading: Reading, drawn: Picture) -> None:
    roles = {lane.role: index for index, lane in enumerate(drawn.lanes)}
    by_pid = {
        lane.name.rsplit(" ", 1)[-1]: index
        for index, lane in enumerate(drawn.lanes)
        if lane.role != "command"
    }
    sweep = next((band.begin for band in drawn.bands if band.name == "SIGKILL"), drawn.begin)
    keeper = roles.get("keeper")
    root = roles["root"]
    for event in reading.of(Signalled):
        failed = event.result not in (None, "delivered")
        targets = [root]
        if event.target in ("members", "tree"):
            targets = [i for i, lane in enumerate(drawn.lanes) if lane.role == "member"]
            if event.target == "tree" and event.root is not False:
                targets.append(root)
        for target in targets:
            # The sweep's line is written when it is over; who ended in it was hit before.
            since = sweep if event.target == "tree" else event.boottime_ns
            ended = drawn.lanes[target].end
            if ended is not None and ended < since:
                continue
            at = min(event.boottime_ns, ended or event.boottime_ns)
            drawn.arrows.append(Arrow(at, f"SIG{event.signal}", target, keeper, failed))
    for stop in reading.of(StopBegan):
        if stop.trigger == "signal" and "front" in roles:
            sender = by_pid.get(str(stop.sender.pid)) if stop.sender else None
            drawn.arrows.append(
                Arrow(stop.boottime_ns, f"SIG{stop.signal}", roles["front"], sender)
            )
    ours = {str(lane.name.rsplit(" ", 1)[-1]) for lane in drawn.lanes if lane.role in _OURS}
    for traced in reading.of(TracedSignal):
        target_lane = by_pid.get(str(traced.target.pid))
        pid = str(traced.sender.pid) if traced.sender else ""
        if target_lane is None or pid in ours or traced.at_ns < drawn.begin:
            continue  # what we sent ourselves is drawn from our own lines
        name = "kernel" if traced.by == "kernel" else ""
        if traced.sender is not None and pid not in by_pid:
            name = f"{visible(traced.sender.name)} {pid}"
        label = f"SIG{traced.signal}" + (f" ({name})" if name else "")
        drawn.arrows.append(Arrow(traced.at_ns, label, target_lane, by_pid.get(pid)))


_OURS = ("front", "keeper")


def _moments(reading: Reading, drawn: Picture) -> None:
    for event in reading.events:
        label = _moment(event)
        if label:
            drawn.marks.append(Mark(event.boottime_ns, label))
    for oom in reading.of(TracedOom):
        drawn.marks.append(Mark(oom.at_ns, "out of memory"))


def _moment(event: Event) -> str:
    match event:
        case Started():
            return "started"
        case StopBegan():
            return f"stop: {event.trigger}"
        case Takeover():
            return "front takes over"
        case TreeGone():
            return "tree gone"
        case TreeUnproven():
            return "not proven"
    return ""


def _end_label(code: int | None, signal: str | None) -> str:
    if signal:
        return f"SIG{signal}"
    return "ended" if code is None else f"exit {code}"
