"""What a wrapper costs: time added to a start, and memory while the command idles."""

from __future__ import annotations

import os
import signal
import statistics
import struct
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from .measure import PEERS, interleaved, program, summary, table, variant
from .peers import Wrapper, all_wrappers
from .peers.cell import descendants

SETTLE = 0.5  # s for an interpreter to finish starting before its memory is read
INSTANCES = 5
SIZES = ("private", "pss", "processes")
HEADS = (
    "wrapper",
    "ms to the root's exec",
    "ms from spawn to wait",
    "of tini's, exec",
    "of tini's, wait",
    "private KiB, idle",
    "PSS KiB",
    "processes",
)

RESET = [signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT]


class Starter:
    """Starts stamp programs behind wrappers, with /dev/null for stdio."""

    def __init__(self) -> None:
        self.stamp = program("stamp")
        self.file = tempfile.NamedTemporaryFile(prefix="stamp-")  # noqa: SIM115 - closed with us
        os.ftruncate(self.file.fileno(), 16)
        self.nowhere = os.open(os.devnull, os.O_RDWR)
        self.actions = [(os.POSIX_SPAWN_DUP2, self.nowhere, fd) for fd in (0, 1, 2)]

    def spawn(self, argv: list[str], *more: str) -> int:
        command = [*argv, self.stamp, self.file.name, *more]
        return os.posix_spawn(
            command[0], command, os.environ, file_actions=self.actions, setsigdef=RESET
        )

    def stamped(self) -> int:
        return int(struct.unpack("q", os.pread(self.file.fileno(), 8, 0))[0])

    def once(self, argv: list[str]) -> dict[str, float]:
        """Milliseconds from the spawn to the root's first instruction, and to the wait's end."""
        begin = time.monotonic_ns()
        pid = self.spawn(argv)
        status = os.waitpid(pid, 0)[1]
        end = time.monotonic_ns()
        if status:
            raise RuntimeError(f"{argv}: status {status}")
        return {"exec": (self.stamped() - begin) / 1e6, "wait": (end - begin) / 1e6}

    def memory(self, argv: list[str]) -> dict[str, float] | None:
        """KiB private to the wrapper's processes, and their Pss, while the command idles."""
        os.pwrite(self.file.fileno(), bytes(16), 0)
        pid = self.spawn(argv, "wait")
        wrapper = os.pidfd_open(pid)
        while not self.stamped():
            os.sched_yield()
        time.sleep(SETTLE)
        family = [pid, *descendants(pid)]
        root = [each for each in family if is_running(each, self.stamp)]
        fds = [os.pidfd_open(each) for each in family[1:]]
        rollups = [rollup(each) for each in family if each not in root]
        for fd in [*fds, wrapper]:
            try:
                signal.pidfd_send_signal(fd, signal.SIGKILL)
            except ProcessLookupError:
                pass
            os.close(fd)
        os.waitpid(pid, 0)
        if not rollups:
            return None
        totals = {key: float(sum(each[key] for each in rollups)) for key in ("private", "pss")}
        return {**totals, "processes": float(len(rollups))}


def is_running(pid: int, path: str) -> bool:
    return os.path.realpath(f"/proc/{pid}/exe") == os.path.realpath(path)


def rollup(pid: int) -> dict[str, int]:
    """From /proc/PID/smaps_rollup (proc(5)), in KiB."""
    values = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, amount = line.split()[:2]
        values[name] = int(amount)
    return {
        "private": values["Private_Clean:"] + values["Private_Dirty:"],
        "pss": values["Pss:"],
    }


def candidates(progress: Callable[[str], None]) -> dict[str, list[str]]:
    """argv by row: the peers, then our own three builds and one run with a record."""
    rows = {
        each.name: each.argv()
        for each in all_wrappers(PEERS)
        if isinstance(each, Wrapper) and not each.ours
    }
    for link in ("musl", "static", "dynamic"):
        try:
            rows[f"**lastout** ({link})"] = [str(variant(link)), "--"]
        except RuntimeError as problem:
            progress(f"lastout ({link}) is not measured: {problem}")
    return rows


def measure(rounds: int, progress: Callable[[str], None]) -> tuple[str, dict[str, object]]:
    """The table as markdown and as data."""
    starter, rows = Starter(), candidates(progress)
    progress(f"cost: {len(rows)} rows, {rounds} starts each")
    things = {name: partial(starter.once, argv) for name, argv in rows.items()}
    samples = interleaved(rounds, things)
    medians = {
        name: {what: statistics.median(values) for what, values in found.items()}
        for name, found in samples.items()
    }
    bare = medians["none"]
    tini = next((name for name in rows if name.startswith("tini")), "none")
    lines: list[list[object]] = []
    data: dict[str, object] = {}
    for name, argv in rows.items():
        added = {what: medians[name][what] - bare[what] for what in bare}
        yardstick = {what: medians[tini][what] - bare[what] for what in bare}
        ratios = {what: added[what] / yardstick[what] for what in bare if yardstick[what] > 0}
        memory = idle_memory(starter, argv)
        data[name] = {
            "ms": {what: summary(values) for what, values in samples[name].items()},
            "added_ms": added,
            "of_tini": ratios,
            "kib": memory,
        }
        times = [*(f"{bare[what]:.2f}" for what in bare), "-", "-"]
        if name != "none":
            times = [f"+{added[what]:.2f}" for what in bare]
            times += [f"{ratios[what]:.2f}" if what in ratios else "-" for what in bare]
        sizes = [f"{memory[key]:,.0f}" if memory else "-" for key in SIZES]
        lines.append([name, *times, *sizes])
        progress(" | ".join(map(str, lines[-1])))
    return table(HEADS, lines), data


def idle_memory(starter: Starter, argv: list[str]) -> dict[str, float]:
    """Medians over a few instances; empty where the wrapper has no process of its own."""
    found = [each for _ in range(INSTANCES) if (each := starter.memory(argv))]
    return {key: statistics.median(each[key] for each in found) for key in SIZES} if found else {}
