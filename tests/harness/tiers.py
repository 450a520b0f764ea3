"""What the tests of the stronger tiers need to know of this machine."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest

from harness.identity import children, read_stat
from harness.member import Process
from harness.run import Run
from harness.scene import Scene

_CLONE_NEWNS, _CLONE_NEWPID = 0x00020000, 0x20000000


def cgroup_of(run: Run) -> Path:
    """The run's own cgroup directory."""
    return Path(run.started["cgroup"])


def below(scene: Scene, front: int, name: str) -> Process:
    """The front's child of that name, once it has given itself that name."""
    found: list[int] = []

    def named() -> bool:
        stats = [read_stat(pid) for pid in children(front)]
        found[:] = [stat.pid for stat in stats if stat is not None and stat.comm == name]
        return bool(found)

    scene.hub.look(named, f"{name} below pid {front}")
    return Process.of(scene.hub, found[0], name)


def own_cgroup() -> Path | None:
    """Where this process is in the cgroup2 tree; None where there is no such tree."""
    mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    points = [m[4] for m in mounts if m[m.index("-") + 1] == "cgroup2" and m[3] == "/"]
    mine = [t for t in Path("/proc/self/cgroup").read_text().splitlines() if t.startswith("0::")]
    return Path(points[0] + mine[0].removeprefix("0::")) if points and mine else None


def can_make_cgroups() -> bool:
    here = own_cgroup()
    return here is not None and os.access(here, os.W_OK) and (here / "cgroup.procs").exists()


def _can_make_namespaces() -> bool:
    """Tried in a child: unshare changes whoever calls it."""
    pid = os.fork()
    if pid == 0:
        failed = ctypes.CDLL(None).unshare(_CLONE_NEWPID | _CLONE_NEWNS)
        os._exit(1 if failed else 0)
    return os.waitpid(pid, 0)[1] == 0


needs_cgroup = pytest.mark.skipif(
    not can_make_cgroups(), reason="no writable cgroup2 tree on this machine"
)
needs_pidns = pytest.mark.skipif(
    not _can_make_namespaces(), reason="no pid namespaces on this machine"
)
