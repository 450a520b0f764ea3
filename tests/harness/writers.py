"""Owners that race for a key with a writer that never rests, and the proof that no two met.

Every grant and every write stands in one file with its CLOCK_MONOTONIC time. The proof reads only
that file: a write of an older epoch after a newer one was granted is the accident.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.programs import program
from lastout import sole_writer
from lastout.evidence import journal
from lastout.evidence.events import Started, TreeGone
from lastout.graces import Graces
from lastout.identity import ProcessIdentity
from lastout.sole_writer import Grant
from lastout.supervisor import command

GRACES = Graces(stdin=0.0, term=0.05, reap=5.0)
_POINT = Callable[[str], None]


@dataclass
class Writer:
    """One supervised writer, as its owner sees it."""

    grant: Grant
    front: subprocess.Popen[bytes]

    def started(self) -> Started | None:
        """The record's `started` line, once it is there."""
        events = journal.read(str(self.grant.record)).events
        return next((event for event in events if isinstance(event, Started)), None)

    def wait_started(self) -> Started | None:
        """Until it has started, or the front has ended without."""
        while self.front.poll() is None:
            if os.path.exists(str(self.grant.record)) and (found := self.started()):
                return found
        return self.started() if os.path.exists(str(self.grant.record)) else None

    def stop(self) -> None:
        """Ask the supervisor, wait for the front's end, and for its last word in the record: a front
        does not wait for long until a busy disk has that."""
        self.front.send_signal(signal.SIGTERM)
        self.front.send_signal(signal.SIGCONT)
        self.front.wait()
        due = time.monotonic() + 30.0
        while not any(
            isinstance(event, TreeGone) for event in journal.read(str(self.grant.record)).events
        ):
            assert time.monotonic() < due, "no tree-gone in the record"


def note_grant(log: Path, epoch: int) -> None:
    """Say in the log that an epoch was granted, with the moment."""
    fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, f"G {epoch} {time.monotonic_ns()}\n".encode())
    os.close(fd)


def launch(grant: Grant, log: Path, *, wrapper: bool = False, graces: Graces = GRACES) -> Writer:
    """Start the writer under a grant; the owner is this process."""
    argv = [program("appender"), str(log), str(grant.epoch), *(["wrapper"] if wrapper else [])]
    words = command(argv, owner="self", graces=graces, stdin_end="ignore", **grant.options())
    environment = {**os.environ, "LASTOUT_TEST_TTL": "60"}
    front = subprocess.Popen(words, stdin=subprocess.DEVNULL, env=environment)
    return Writer(grant, front)


def wait_write(log: Path, epoch: int, seconds: float = 30.0) -> None:
    """Until an epoch has written: looked at in its file, which nothing else announces."""
    due = time.monotonic() + seconds
    while f"W {epoch} ".encode() not in log.read_bytes():
        assert time.monotonic() < due, f"epoch {epoch} never wrote"


def live(
    key: str,
    state: Path,
    log: Path,
    point: _POINT,
    *,
    wait: float | None = None,
    wrapper: bool = False,
) -> None:
    """A whole life of an owner; `point` is called at every step and may end it there."""
    point("asking")
    grant = sole_writer.acquire(key, state=state, wait=wait)
    note_grant(log, grant.epoch)
    point("reserved")
    writer = launch(grant, log, wrapper=wrapper)
    point("spawned")
    started = writer.wait_started()
    if started is None:
        grant.release()
        return
    grant.commit(started)
    point("committed")
    grant.prove()
    point("running")
    writer.front.send_signal(signal.SIGTERM)
    point("stopping")
    writer.front.wait()
    point("stopped")
    grant.release()
    point("released")


def forked(job: Callable[[], None]) -> int:
    """Run a job in a child of this process; ends with 0, or 1 when it raised."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        job()
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def kill(one: ProcessIdentity, number: int = signal.SIGKILL) -> None:
    """By identity; that it is gone already is what some of these tests want."""
    from lastout import identity

    try:
        identity.signal(one, number)
    except ProcessLookupError:
        pass


@dataclass
class Story:
    """The log, read back: grants by epoch, and first and last write of each epoch."""

    grants: dict[int, int]
    writes: dict[int, tuple[int, int]]

    @classmethod
    def read(cls, log: Path) -> Story:
        grants: dict[int, int] = {}
        writes: dict[int, tuple[int, int]] = {}
        for line in log.read_text().splitlines():
            kind, epoch, moment = line.split()
            number, when = int(epoch), int(moment)
            if kind == "G":
                assert number not in grants, f"epoch {number} was granted twice"
                grants[number] = when
            else:
                first, last = writes.get(number, (when, when))
                writes[number] = (min(first, when), max(last, when))
        return cls(grants, writes)

    def check(self) -> None:
        """No granted epoch overlaps a write of an older one, and epochs rise with time."""
        order = sorted(self.grants, key=lambda epoch: self.grants[epoch])
        assert order == sorted(self.grants), "an epoch was granted after a greater one"
        assert set(self.writes) <= set(self.grants), "somebody wrote without a grant"
        for epoch, (_, last) in self.writes.items():
            later = [moment for other, moment in self.grants.items() if other > epoch]
            if later and last >= min(later):
                over = (last - min(later)) / 1e6
                raise AssertionError(f"epoch {epoch} wrote {over:.3f} ms after a newer grant")


def settle_all(state: Path) -> Mapping[str, str]:
    """Bring every key to its end, whoever held it; the state of each."""
    from lastout.leases import locks
    from lastout.recovery import case as cases
    from lastout.recovery.act import recover
    from lastout.recovery.case import Asker

    store = sole_writer.open_store(state)
    for lease in store.leases():
        if not lease.free:
            one = cases.of_lease(lease, locks.directory(state, lease.key))
            recover(one, asker=Asker(stop=True), store=store)
    return {lease.key: lease.state for lease in store.leases()}
