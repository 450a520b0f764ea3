"""The members of a run as they are seen from outside, and killing them by verified identity.

Whoever is no parent of these processes cannot keep their numbers from being given away, so nothing
here trusts a listing: a process is opened first and compared afterwards.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from lastout import identity, pidfs
from lastout.identity import ProcessIdentity
from lastout.proctable import ProcessStat, children, read_stat

__all__ = [
    "GROUP",
    "Member",
    "Table",
    "below",
    "group_alive",
    "send",
    "signal_group",
    "started_after",
]

GROUP = 4  # PIDFD_SIGNAL_PROCESS_GROUP, linux/pidfd.h, since 6.9


@dataclass(frozen=True, slots=True)
class Member:
    """A process of the run, as it was listed."""

    pid: int
    stat: ProcessStat

    @property
    def dead(self) -> bool:
        """A zombie without any other thread: it needs no signal."""
        return self.stat.state == "X" or (self.stat.state == "Z" and self.stat.threads <= 1)

    @property
    def leads(self) -> bool:
        """Whether it leads its process group."""
        return self.stat.pgid == self.pid

    def to_json(self) -> dict[str, object]:
        """The form in the record's `forced` line."""
        return {
            "pid": self.pid,
            "start": self.stat.start,
            "name": self.stat.name,
            "pgid": self.stat.pgid,
            "session": self.stat.session,
            "state": self.stat.state,
        }


def below(tops: Iterable[int], without: Collection[int] = ()) -> list[Member]:
    """Everything that descends from `tops`, parents before children; `without` cuts branches off.

    Raises ProcessLookupError when a top is gone, another OSError when the table is unreadable.
    """
    found: list[Member] = []
    seen = {*tops, *without}
    pending = [child for top in tops for child in children(top)]
    while pending:
        deeper: list[int] = []
        for pid in pending:
            if pid in seen:
                continue
            seen.add(pid)
            try:
                found.append(Member(pid, read_stat(pid)))
                deeper += children(pid)
            except ProcessLookupError:
                continue  # it ended: what was below it has moved, and the next listing has it
        pending = deeper
    return found


def started_after(pid: int, other: ProcessIdentity) -> bool | None:
    """Whether the process that has this pid is younger than another; None when nobody can tell."""
    try:
        found = identity.take(pid)
    except ProcessLookupError:
        return None
    if found.inode and other.inode:
        return found.inode > other.inode  # pidfs counts upwards for the whole boot
    return None if found.start == other.start else found.start > other.start


def send(member: Member, number: int, *, parents: Collection[int]) -> str:
    """Signal a listed process, and the group that it leads, if it still is who was listed.

    `parents` are the pids that a member's parent can have by now. Gives "delivered", "gone", or an
    errno's name.
    """
    try:
        fd = os.pidfd_open(member.pid)
    except OSError as error:
        if error.errno in (errno.ESRCH, errno.EINVAL, errno.ENOENT):
            return "gone"
        return errno.errorcode.get(error.errno or 0, "EIO")
    try:
        now = read_stat(member.pid)
        if now.start != member.stat.start or now.ppid not in parents:
            return "gone"
        # The pidfd is older than this reading: when it still answers, it is the process just read.
        signal.pidfd_send_signal(fd, number)
        if now.pgid == member.pid:
            with contextlib.suppress(OSError):
                signal_group(fd, number)
        return "delivered"
    except ProcessLookupError:
        return "gone"
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, "EIO")
    finally:
        os.close(fd)


def signal_group(fd: int, number: int) -> None:
    """Signal the group that the process of a pidfd leads, or led before it was reaped.

    Exact: the pidfd stands for the group itself, not for its number. Raises ProcessLookupError for
    an empty group, OSError (EINVAL) before Linux 6.9.
    """
    signal.pidfd_send_signal(fd, number, None, GROUP)


@dataclass(frozen=True, slots=True)
class Table:
    """Who is alive in which session and group, from one reading of the whole process table.

    It speaks for the moment of its reading: what it is used for must have been observed before.
    """

    members: Mapping[int, tuple[Member, ...]]

    @classmethod
    def read(cls) -> Table:
        """Read it now. Raises OSError when the table is unreadable."""
        found: dict[int, list[Member]] = {}
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                stat = read_stat(entry)
            except ProcessLookupError:
                continue
            member = Member(stat.pid, stat)
            if not member.dead:
                for number in {stat.session, stat.pgid}:
                    found.setdefault(number, []).append(member)
        return cls({number: tuple(there) for number, there in found.items()})


def group_alive(root: ProcessIdentity, table: Table | None = None) -> tuple[Member, ...] | None:
    """Who lives in the root's session or group, when these are verified to be the root's own.

    A number stays the root's as long as anybody is in its group or session, but the reverse needs
    proof: a reaped root whose inode can be reopened still names them (pidfs). Without that proof,
    and with somebody there, the answer is None.
    """
    suspects = (table or Table.read()).members.get(root.pid, ())
    if not suspects:
        return ()
    return suspects if _still_named(root) else None


def _still_named(root: ProcessIdentity) -> bool:
    if not pidfs.has_handles() or not root.inode:
        return identity.still_alive(root) is identity.Alive.YES
    try:
        os.close(identity.open_pidfd(root))
    except (OSError, identity.IdentityUnknown):
        return False
    return True
