"""What came of a turn: durable before anybody is told."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from lastout.identity import ProcessIdentity

__all__ = ["HeldLock", "Output", "Process", "Result", "Why", "nothing_ran"]

Why = Literal["completion", "timeout", "abort", "shutdown", "runner-lost", "not-started"]


class Process(msgspec.Struct, frozen=True, omit_defaults=True):
    """A process by its identity; `name` (comm) where somebody has seen it."""

    pid: int
    start: int
    inode: int = 0
    boot_id: str = ""
    pidns: int = 0
    name: str = ""

    @property
    def identity(self) -> ProcessIdentity:
        """For `lastout.identity`."""
        return ProcessIdentity(self.pid, self.start, self.inode, self.boot_id, self.pidns)

    @classmethod
    def of(cls, one: ProcessIdentity, name: str = "") -> Process:
        """The stored form of an identity."""
        return cls(one.pid, one.start, one.inode, one.boot_id, one.pidns, name)


class HeldLock(msgspec.Struct, frozen=True, omit_defaults=True):
    """A kernel lock that a process held just before it was killed (proc_locks(5)).

    `path` is None where no descriptor of the process names the file; `device` and `inode` do then.
    """

    pid: int
    kind: str
    mode: str
    path: str | None
    device: str
    inode: int
    name: str = ""


class Output(msgspec.Struct, frozen=True, omit_defaults=True):
    """How much of a stream there was, in bytes, and how much is kept: its beginning and its end.

    `Job.output` reads it.
    """

    total: int = 0
    head: int = 0
    tail: int = 0
    dropped: int = 0
    error: str | None = None
    """Why bytes could not be kept although there was room for them (a full disk)."""


class Result(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`result-<turn>.json`; `end.json` (turn 0) where a job ended between two turns.

    `final`: nothing comes after it, the job has ended and nothing of it is alive, or `remaining`
    says who. What was not observed is None.
    """

    version: int
    job: str
    turn: int
    final: bool
    failed: bool
    reason: str | None = None
    """Why it failed, in words for people."""
    why: Why
    """What ended the turn: itself (`completion`), its timeout, somebody's cancel (`abort`,
    `shutdown`), the death of its runner; or nothing could be started."""
    ended_by: str | None = None
    """Who asked for the end, where somebody did."""
    code: int | None = None
    signal: int | None = None
    status: str | None = None
    """The agent's own word for the end of its turn."""
    answer: str | None = None
    message: str | None = None
    """The id of the message that this turn answered; None for the job's own prompt."""
    conversation: str | None = None
    """The agent's own id of the conversation."""
    began_at: str | None = None
    ended_at: str = ""
    stdout: Output | None = None
    stderr: Output | None = None
    stopped: tuple[Process, ...] = ()
    """Whom the end of the turn had to stop (at most 256 are named)."""
    stopped_count: int = 0
    remaining: tuple[Process, ...] = ()
    """Who is still running; None left means proven empty."""
    remaining_count: int | None = None
    """0: proven. None: not known (then the job has failed)."""
    locks: tuple[HeldLock, ...] = ()
    """Kernel locks of those that were killed. Their files are left alone."""
    undelivered: tuple[str, ...] = ()
    """The ids of messages that came and were not delivered any more."""
    runs: tuple[str, ...] = ()
    """The runs of this turn: `lastout why RUN`."""
    omitted: str | None = None
    """What had to be left out of this result, and why (a full disk)."""
    detail: dict[str, Any] = {}

    @property
    def dropped(self) -> int:
        """Bytes of output that were not kept."""
        return sum(one.dropped for one in (self.stdout, self.stderr) if one is not None)

    @property
    def returncode(self) -> int | None:
        """As in subprocess: the exit code, or minus the signal; None where nobody knows."""
        return self.code if self.signal is None else -self.signal


def nothing_ran(why: Why, reason: str, by: str | None = None, *, turn: int = 0) -> Result:
    """The end of a job of which nothing was ever started."""
    return Result(
        version=0,
        job="",
        turn=turn,
        final=True,
        failed=True,
        why=why,
        ended_by=by,
        reason=reason,
        remaining_count=0,
    )
