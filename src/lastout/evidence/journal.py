"""One run's record: append the owner's lines, read it back, follow it.

Reading never guesses: a torn or foreign line is reported beside the events. A file that several
runs were appended to is read as the record of one of them, the last or the one that is named.
Appending is for the owner's lines alone; the supervisor writes its own.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, Self, TypeVar

from lastout.evidence.events import (
    Event,
    Failed,
    NotALine,
    Refused,
    TreeGone,
    TreeUnproven,
    decode,
    encode,
)
from lastout.evidence.line import SUPERVISOR

__all__ = ["Contents", "Follower", "Journal", "Problem", "append", "parse", "read"]

_E = TypeVar("_E", bound=Event)

_CHUNK = 1 << 16
_LONGEST_LINE = 1 << 20
_MOST_GAPS = 1024


@dataclass(frozen=True, slots=True)
class Problem:
    """Bytes of a record that are no line of it: `torn` (no newline: cut off, or still being
    written) or `foreign`."""

    kind: Literal["torn", "foreign"]
    offset: int
    data: bytes
    message: str


@dataclass(slots=True)
class Contents:
    """What a record holds of one run: each (source, seq) once, in the order of the file, and what
    could not be read."""

    events: list[Event] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    duplicates: int = 0
    others: tuple[str, ...] = ()
    """The other runs that supervisors began in the same file, in that order."""

    @property
    def in_time_order(self) -> list[Event]:
        """Events by boottime; lines of front and keeper can interleave in the file."""
        return sorted(self.events, key=lambda event: event.boottime_ns)

    @property
    def final(self) -> Event | None:
        """The supervisor's last word, or None: then how the run ended is not known."""
        theirs = [event for event in self.events if event.source in SUPERVISOR]
        if theirs and isinstance(theirs[-1], Refused | Failed | TreeGone | TreeUnproven):
            return theirs[-1]
        return None


class Follower:
    """Decodes bytes as they come, from a file or a socket; each line of a run once. The memory that
    it takes is bounded for each run."""

    def __init__(self) -> None:
        self.duplicates = 0
        self.runs: dict[str, None] = {}
        """The runs of which a supervisor has written, in the order in which they began."""
        self.last = ""
        """The one of them that began last."""
        self.over = False
        """Whether nothing more is to come: the last run's end was told."""
        self._pending = b""
        self._offset = 0
        self._seen: dict[tuple[str, str], _Numbers] = {}
        self._skipping = False

    def feed(self, data: bytes) -> list[Event | Problem]:
        """The events and problems in these bytes; the rest of an unfinished line is kept for the
        next call."""
        found: list[Event | Problem] = []
        lines = (self._pending + data).split(b"\n")
        self._pending = lines.pop()
        for line in lines:
            self._take(line, found)
            self._offset += len(line) + 1
        if len(self._pending) > _LONGEST_LINE:
            # Nobody writes such a line: it is reported in pieces, so that a broken file cannot fill
            # the memory.
            found.append(Problem("foreign", self._offset, self._pending, "the line is too long"))
            self._offset += len(self._pending)
            self._pending = b""
            self._skipping = True
        return found

    def finish(self) -> list[Event | Problem]:
        """What is left at the end of the bytes: a line without its newline is torn."""
        rest, self._pending = self._pending, b""
        return [Problem("torn", self._offset, rest, "the line has no end")] if rest else []

    def _take(self, line: bytes, found: list[Event | Problem]) -> None:
        if self._skipping:
            self._skipping = False
            found.append(
                Problem("foreign", self._offset, line, "the end of a line that is too long")
            )
            return
        if not line:
            return  # a newline that closes somebody's torn line
        try:
            event = decode(line)
        except NotALine as error:
            found.append(Problem("foreign", self._offset, line, str(error)))
            return
        # The numbers are a run's own: the next run that is appended to the file begins at 1 again.
        if not self._seen.setdefault((event.run, event.source), _Numbers()).add(event.seq):
            self.duplicates += 1
            return
        found.append(event)
        if event.source not in SUPERVISOR:
            return
        if event.run not in self.runs:
            self.runs[event.run] = None
            self.last, self.over = event.run, False
        if event.run == self.last:
            self.over |= isinstance(event, Refused | Failed | TreeGone)


class _Numbers:
    """Sequence numbers that were seen: a high-water mark, and those above it that came early."""

    def __init__(self) -> None:
        self._below = 0
        self._above: set[int] = set()

    def add(self, number: int) -> bool:
        if number <= self._below or number in self._above:
            return False
        self._above.add(number)
        if len(self._above) > _MOST_GAPS:
            # Numbers that were dropped on the way never come: give up on the oldest, or the set
            # grows for ever.
            self._below = min(self._above)
            self._above.remove(self._below)
        while self._below + 1 in self._above:
            self._below += 1
            self._above.remove(self._below)
        return True


def parse(data: bytes, run: str | None = None) -> Contents:
    """The contents of a record that is already in memory; `run` as in `read`."""
    return _collect(iter((data,)), run)


def read(path: str | os.PathLike[str], run: str | None = None) -> Contents:
    """The contents of a record. Raises OSError when the file cannot be read.

    `run` says whose lines are wanted, where several runs were appended to one file; by default they
    are those of the run that began last.
    """
    with open(path, "rb", buffering=0) as file:
        return _collect(iter(lambda: file.read(_CHUNK), b""), run)


def append(path: str | os.PathLike[str], event_type: type[_E], run: str, **fields: Any) -> _E:
    """Append one line of the owner, as `Journal.append` does, and give it back."""
    with Journal(path, run) as journal:
        return journal.append(event_type, **fields)


class Journal:
    """Appends the owner's lines to one run's record; as many processes at a time as like.

    The owner's count goes on where the last owner stopped, under a lock of the file, so that no two
    lines share a number. The supervisor takes no lock and needs none: each line is one write in
    append mode.
    """

    def __init__(self, path: str | os.PathLike[str], run: str, source: str = "owner") -> None:
        """Opens the record, and makes it (0600) where it is missing. Raises OSError.

        `source` is `owner`, or `tracer` for the lines of evidence/trace.
        """
        self.path = os.fspath(path)
        self.run = run
        self.source = source
        self._fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._offset = 0
        self._last = 0
        self._follower = Follower()

    def append(self, event_type: type[_E], **fields: Any) -> _E:
        """Write one line, whole or not at all as far as the file system lets us. Raises OSError."""
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            ends_open = self._catch_up()
            event = event_type(
                run=self.run,
                source=self.source,
                seq=self._last + 1,
                boottime_ns=time.clock_gettime_ns(time.CLOCK_BOOTTIME),
                time=datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
                **fields,
            )
            line = encode(event)
            # Somebody's torn line (a full disk) is closed first, so that ours stays readable.
            data = b"\n" + line if ends_open else line
            written = os.write(self._fd, data)
            if written != len(data):
                os.write(self._fd, b"\n")
                raise OSError(28, f"only {written} of {len(data)} bytes were written", self.path)
            return event
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file; the lines stay."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _catch_up(self) -> bool:
        """Read what came since the last line of ours; whether the file ends in the middle of a
        line."""
        while data := os.pread(self._fd, _CHUNK, self._offset):
            self._offset += len(data)
            for found in self._follower.feed(data):
                if isinstance(found, Event) and (found.run, found.source) == (
                    self.run,
                    self.source,
                ):
                    self._last = max(self._last, found.seq)
        return self._offset > 0 and os.pread(self._fd, 1, self._offset - 1) != b"\n"


def _collect(chunks: Iterator[bytes], run: str | None) -> Contents:
    contents = Contents()
    follower = Follower()

    def sort(found: list[Event | Problem]) -> None:
        for entry in found:
            if isinstance(entry, Problem):
                contents.problems.append(entry)
            else:
                contents.events.append(entry)

    for chunk in chunks:
        sort(follower.feed(chunk))
    sort(follower.finish())
    contents.duplicates = follower.duplicates
    wanted = run if run is not None else follower.last
    contents.others = tuple(one for one in follower.runs if one != wanted)
    if run is not None or contents.others:
        contents.events = [event for event in contents.events if event.run == wanted]
    return contents
