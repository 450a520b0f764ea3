"""The kernel's OOM-kill counters: of the machine, and of a process's memory cgroup (v1 and v2)."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

__all__ = ["Counters", "read"]

_V1, _V2 = "/sys/fs/cgroup/memory", ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")


class Counters(NamedTuple):
    """Kills so far; None is not known. `cgroup` is where the second one was read."""

    machine: int | None
    cgroup: str | None
    cgroup_kills: int | None


def read(pid: int, cgroup: str | None = None) -> Counters:
    """The counters for a process, or once more for a `cgroup` that an earlier call gave."""
    machine = _field("/proc/vmstat", "oom_kill")
    places = [cgroup] if cgroup else list(_files(pid))
    for place in places:
        kills = _field(place, "oom_kill")
        if kills is not None:
            return Counters(machine, place, kills)
    return Counters(machine, None, None)


def _files(pid: int) -> list[str]:
    found = []
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cgroup", encoding="utf-8") as file:
        for line in file:
            number, names, path = line.rstrip("\n").split(":", 2)
            if "memory" in names.split(","):
                found.append(f"{_V1}{path}/memory.oom_control")
            elif number == "0":
                found += [f"{root}{path}/memory.events" for root in _V2]
    return found


def _field(path: str, name: str) -> int | None:
    with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as file:
        for line in file:
            key, _, value = line.partition(" ")
            if key == name:
                return int(value)
    return None
