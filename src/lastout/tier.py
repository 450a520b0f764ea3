"""What a stronger tier left in the record, for ending a run from outside: its cgroup, its init."""

from __future__ import annotations

import contextlib
import os
import signal as signals
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lastout.identity import Alive, IdentityUnknown, ProcessIdentity, signal, still_alive

if TYPE_CHECKING:
    from lastout.evidence.events import Started

__all__ = ["NONE", "Tier", "of_started"]


@dataclass(frozen=True, slots=True)
class Tier:
    """The init of the run's pid namespace, and the run's cgroup by path and inode: a directory of
    that name with another inode is another cgroup."""

    init: ProcessIdentity | None = None
    cgroup: str | None = None
    cgroup_id: int = 0

    def alive(self) -> Alive | None:
        """Whether anything lives in it; None where there is neither (cgroups(7), "populated")."""
        found = [still_alive(self.init)] if self.init is not None else []
        if self._is_ours():
            found.append(Alive.YES if self.pids() else Alive.NO)
        if not found:
            return None
        if Alive.YES in found:
            return Alive.YES
        return Alive.UNKNOWN if Alive.UNKNOWN in found else Alive.NO

    def pids(self) -> tuple[int, ...]:
        """The processes in the run's cgroup, and its init."""
        found: list[int] = []
        if self.cgroup is not None and self._is_ours():
            with contextlib.suppress(OSError, ValueError):
                with open(os.path.join(self.cgroup, "cgroup.procs"), "rb") as file:
                    found += [int(word) for word in file.read().split()]
        if self.init is not None and still_alive(self.init) is Alive.YES:
            found.append(self.init.pid)
        return tuple(found)

    def kill(self) -> None:
        """Kill all of it at once: the kernel ends a namespace with its init, a cgroup as a whole."""
        if self.init is not None:
            with contextlib.suppress(OSError, IdentityUnknown):
                signal(self.init, signals.SIGKILL)
        if self.cgroup is not None and self._is_ours():
            with contextlib.suppress(OSError):
                fd = os.open(os.path.join(self.cgroup, "cgroup.kill"), os.O_WRONLY | os.O_CLOEXEC)
                try:
                    os.write(fd, b"1")
                finally:
                    os.close(fd)

    def _is_ours(self) -> bool:
        if not self.cgroup or not self.cgroup_id:
            return False
        try:
            return os.stat(self.cgroup).st_ino == self.cgroup_id
        except OSError:
            return False


NONE = Tier()


def of_started(started: Started) -> Tier:
    """What the `started` line says of the tier."""
    one = started.init
    init = None
    if one is not None:
        init = ProcessIdentity(one.pid, one.start, one.inode, started.boot_id, started.pidns)
    return Tier(init, started.cgroup, started.cgroup_id or 0)
