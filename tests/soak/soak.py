"""`make soak`: runs that start, stop, are killed and frozen at random, for minutes; nothing may grow.

Beside them one run lives through all of it and is asked things. After each handful of runs nobody
may be left below this process, and at the end memory and descriptors of this process (the owner) and
of the long-lived supervisor must be what they were when a quarter of the time was over.
"""

from __future__ import annotations

import argparse
import collections
import gc
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import lastout
from harness import leftovers
from harness.kernels import has_inodes
from harness.tiers import can_make_cgroups
from lastout import identity, supervisor
from lastout.graces import FORCED_STEP, MARGIN, Graces
from lastout.identity import ProcessIdentity

GRACES = Graces(stdin=0.1, term=0.3, reap=1.5)
BOUND = GRACES.max_stop + MARGIN + FORCED_STEP + MARGIN + 10.0  # and what a busy machine takes
TOGETHER = 3
LIFE = 300  # seconds: nothing that is started lives longer, whatever happens to us

POLITE = f"sleep {LIFE}; :"  # a shell, and its child
ALONE = f"exec sleep {LIFE}"  # without pidfs nobody can say whose the group of a dead root is
RUDE = (
    f"trap '' TERM; setsid sh -c \"trap '' TERM; exec sleep {LIFE}\" & "
    f"(setsid sleep {LIFE} & exit 0); sleep {LIFE} & wait; wait"
)
MOST_OWNER_KIB = 8192  # the allocator's own unrest
MOST_SUPERVISOR_KIB = 64


@dataclass(frozen=True)
class Sample:
    """What may not grow, at one moment with nothing under way."""

    owner_fds: int
    owner_kib: int
    supervisor_fds: int
    supervisor_kib: int

    @classmethod
    def take(cls, resident: lastout.Process) -> Sample:
        gc.collect()
        pair = (resident.front.pid, resident.keeper.pid)
        return cls(
            _fds(os.getpid()),
            _kib(os.getpid(), "Rss:"),
            sum(map(_fds, pair)),
            # Shared memory is a ring of fixed size that fills as it goes.
            sum(_kib(pid, "Private_Dirty:") for pid in pair),
        )

    def grown(self, first: Sample) -> list[str]:
        """In what this is more than `first` allows, in words."""
        found = []
        for name, most in (
            ("owner_fds", 0), ("owner_kib", MOST_OWNER_KIB),
            ("supervisor_fds", 0), ("supervisor_kib", MOST_SUPERVISOR_KIB),
        ):  # fmt: skip
            before, now = getattr(first, name), getattr(self, name)
            if now > before + most:
                found.append(f"{name} grew from {before} to {now}")
        return found


def _fds(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def _kib(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1])
    raise LookupError(field)


class Soak:
    """The plans, and what came of them."""

    def __init__(self, state: Path, rng: random.Random) -> None:
        self.state, self.rng = state, rng
        self.counts: collections.Counter[str] = collections.Counter()
        self.wrong: list[str] = []
        self.plans: list[Callable[[], Awaitable[None]]] = [
            partial(self._run, "exits by itself", "exit 3", self._nothing, code=3),
            partial(self._run, "is stopped", RUDE, self._stop),
            partial(self._run, "is left", RUDE, self._leave),
            partial(self._run, "loses its stdin", RUDE, self._close_stdin),
            partial(self._run, "loses its root", RUDE, partial(self._kill, "root")),
            partial(self._run, "loses its front", RUDE, partial(self._kill, "front")),
            partial(self._run, "loses its keeper", RUDE, partial(self._kill, "keeper")),
            partial(self._run, "front frozen", RUDE, partial(self._freeze, "front")),
            partial(self._run, "keeper frozen", RUDE, partial(self._freeze, "keeper")),
            partial(self._run, "front frozen for a while", RUDE, partial(self._thaw, "front")),
            partial(self._run, "keeper frozen for a while", RUDE, partial(self._thaw, "keeper")),
            partial(self._run, "loses both", POLITE if has_inodes() else ALONE, self._kill_both),
            self._lose_the_owner,
        ]
        if can_make_cgroups():
            more = {"contain": "cgroup"}
            self.plans += [
                partial(self._run, "cgroup: is stopped", RUDE, self._stop, **more),
                partial(self._run, "cgroup: loses both", RUDE, self._kill_both, **more),
            ]

    async def batch(self) -> None:
        """A few at a time, then nobody may be left of them."""
        before = leftovers.present()
        async with anyio.create_task_group() as group:
            for plan in self.rng.choices(self.plans, k=TOGETHER):
                group.start_soon(plan)
        await anyio.to_thread.run_sync(_wait_for_all, before)
        for stat in leftovers.living(before):
            self.wrong.append(f"left: {leftovers.describe(stat)}")
        leftovers.sweep(before)  # of those that came to us: whoever is dead must be reaped
        shutil.rmtree(self.state / "runs", ignore_errors=True)

    async def _run(
        self,
        name: str,
        script: str,
        act: Callable[[lastout.Process], Awaitable[None]],
        code: int | None = None,
        **options: Any,
    ) -> None:
        self.counts[name] += 1
        try:
            with anyio.fail_after(BOUND):
                async with lastout.open_process(
                    ["sh", "-c", script], state=self.state, graces=GRACES, **options
                ) as process:
                    await anyio.sleep(self.rng.choice([0, 0, 0.01, 0.05, 0.2]))
                    await act(process)
                outcome = process.outcome
        except TimeoutError:
            self.wrong.append(f"{name}: took more than {BOUND} s")
            return
        assert outcome is not None
        if outcome.verdict == "unproven":
            self.wrong.append(f"{name}: {outcome}")
        if code is not None and outcome.returncode != code:
            self.wrong.append(f"{name}: {outcome.returncode} is not {code}")
        cgroup = process.started.cgroup
        if cgroup and not await anyio.to_thread.run_sync(_removed, cgroup):
            self.wrong.append(f"{name}: {cgroup} stays")

    async def _nothing(self, process: lastout.Process) -> None:
        await process.wait()

    async def _leave(self, process: lastout.Process) -> None:
        pass

    async def _stop(self, process: lastout.Process) -> None:
        await process.stop()

    async def _close_stdin(self, process: lastout.Process) -> None:
        assert process.stdin is not None
        await process.stdin.aclose()
        await process.wait()

    async def _kill(self, who: str, process: lastout.Process) -> None:
        _signal(getattr(process, who), signal.SIGKILL)
        if who == "root":
            await process.wait()

    async def _kill_both(self, process: lastout.Process) -> None:
        both = [process.front, process.keeper]
        self.rng.shuffle(both)
        for one in both:
            _signal(one, signal.SIGKILL)

    async def _freeze(self, who: str, process: lastout.Process) -> None:
        _signal(getattr(process, who), signal.SIGSTOP)
        await process.stop()

    async def _thaw(self, who: str, process: lastout.Process) -> None:
        _signal(getattr(process, who), signal.SIGSTOP)
        async with anyio.create_task_group() as group:
            group.start_soon(process.stop)
            await anyio.sleep(self.rng.random() / 2)
            _signal(getattr(process, who), signal.SIGCONT)

    async def _lose_the_owner(self) -> None:
        """A shell is the owner, and is killed."""
        self.counts["loses its owner"] += 1
        command = supervisor.command(["sh", "-c", RUDE], graces=GRACES, stdin_end="ignore")
        owner = subprocess.Popen(
            ["sh", "-c", '"$@" & echo; wait', "sh", *map(os.fspath, command)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert owner.stdout is not None
        with owner.stdout:
            await anyio.to_thread.run_sync(owner.stdout.readline)
        await anyio.sleep(self.rng.random() / 5)
        owner.kill()
        owner.wait()


def _signal(one: ProcessIdentity, number: signal.Signals) -> None:
    try:
        identity.signal(one, number)
    except ProcessLookupError:
        pass  # it was over already: that is chance, too


def _wait_for_all(before: set[Any]) -> None:
    """Until everybody has ended that is not from before, at most `BOUND`."""
    due = time.monotonic() + BOUND
    while (found := leftovers.living(before)) and time.monotonic() < due:
        try:
            fd = os.pidfd_open(found[0].pid)
        except ProcessLookupError:
            continue
        try:
            ended = select.poll()
            ended.register(fd, select.POLLIN)
            ended.poll(1000)
        finally:
            os.close(fd)


def _removed(path: str) -> bool:
    """Whether a cgroup goes: the guard of a killed front does that, a moment after us."""
    due = time.monotonic() + BOUND
    while os.path.exists(path):
        if time.monotonic() > due:
            return False
        try:
            with open(f"{path}/cgroup.events", "rb") as events:
                changed = select.poll()
                changed.register(events, select.POLLPRI)
                changed.poll(100)
        except FileNotFoundError:
            pass
    return True


async def soak(seconds: float, seed: int, rest: float) -> int:
    """The number of things that were wrong."""
    due = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="lastout-soak-") as scratch:
        made = Soak(Path(scratch), random.Random(seed))
        resident_script = "trap : USR1; while :; do sleep 300 & wait; kill $! 2>/dev/null; done"
        first: Sample | None = None
        async with lastout.open_process(
            ["sh", "-c", resident_script], record=f"{scratch}/resident.jsonl", graces=GRACES
        ) as resident:
            quarter = time.monotonic() + seconds / 4
            while time.monotonic() < due:
                await made.batch()
                await anyio.sleep(rest)
                for _ in range(20):
                    await resident.members()
                resident.send_signal(signal.SIGUSR1)
                if first is None and time.monotonic() > quarter:
                    first = Sample.take(resident)
            last = Sample.take(resident)
        if first is not None:
            made.wrong += last.grown(first)
    print(f"{sum(made.counts.values())} runs, seed {seed}")
    for name, count in sorted(made.counts.items()):
        print(f"  {count:5}  {name}")
    print(f"after a quarter  {first}\nat the end       {last}")
    for sentence in made.wrong:
        print(f"WRONG  {sentence}")
    return len(made.wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--rest", type=float, default=0, help="seconds between two handfuls")
    options = parser.parse_args()
    leftovers.become_subreaper()
    print(
        f"{options.minutes:g} minutes with {supervisor.binary()}, seed {options.seed}", flush=True
    )
    return 1 if anyio.run(soak, options.minutes * 60, options.seed, options.rest) else 0


if __name__ == "__main__":
    sys.exit(main())
