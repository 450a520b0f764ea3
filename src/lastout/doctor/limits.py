"""How many runs fit: descriptors, processes, and what a cgroup allows."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator

from lastout.doctor.finding import Finding, Grade
from lastout.spawn import DESCRIPTORS

__all__ = ["check"]

_PIPES = 2  # stdin and stdout, as open_process has them by default
_PROCESSES = 3  # front, keeper, root
_FEW = 100


def check() -> Iterator[Finding]:
    """The limits of one owner process, as runs of `open_process`."""
    yield _descriptors()
    yield from _processes()


def _descriptors() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    each = DESCRIPTORS + _PIPES
    if soft == resource.RLIM_INFINITY:
        return Finding("open files", "good", "unlimited")
    fit = soft // each
    grade: Grade = "note" if fit < _FEW else "good"
    remedy = ""
    if grade == "note" and (hard == resource.RLIM_INFINITY or hard > soft):
        remedy = f"raise the soft limit (ulimit -n), up to {_said(hard)}"
    return Finding(
        "open files", grade, f"{soft} (at most {_said(hard)})",
        f"about {fit} runs at a time from one process, {each} descriptors each",
        remedy,
    )  # fmt: skip


def _processes() -> Iterator[Finding]:
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    limits = {"RLIMIT_NPROC of this user": soft} if soft != resource.RLIM_INFINITY else {}
    if os.getuid() == 0:
        limits.clear()  # it does not count for root
    if (most := _pids_max()) is not None:
        limits["pids.max of this cgroup"] = most
    for name, most in limits.items():
        fit = most // _PROCESSES
        yield Finding(
            "processes", "note" if fit < _FEW else "good", f"{name}: {most}",
            f"at most {fit} runs, with front, keeper and a command that starts nothing",
        )  # fmt: skip
    if not limits:
        yield Finding("processes", "good", "no limit was found")


def _pids_max() -> int | None:
    """The lowest pids.max of our cgroup and those above it (v2, else v1)."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8", errors="surrogateescape") as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return None
    found: list[int] = []
    for number, controllers, path in lines:
        roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] if number == "0" else []
        if "pids" in controllers.split(","):
            roots = ["/sys/fs/cgroup/pids"]
        for root in roots:
            below = path
            while True:
                try:
                    with open(f"{root}{below}/pids.max", encoding="ascii") as file:
                        found += (int(word) for word in file.read().split() if word.isdigit())
                except OSError:
                    pass
                if below in ("", "/"):
                    break
                below = os.path.dirname(below)
    return min(found, default=None)


def _said(limit: int) -> str:
    return "unlimited" if limit == resource.RLIM_INFINITY else str(limit)
