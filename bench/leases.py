"""Leases: durable cycles a second, the wait for a free key, recovery of many, `ps` over many."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from lastout import identity
from lastout.graces import DEFAULT, Graces
from lastout.identity import ProcessIdentity
from lastout.leases import model
from lastout.leases.model import Holder
from lastout.leases.sqlite import SqliteStore
from lastout.recovery import case as cases
from lastout.recovery import runs
from lastout.recovery.act import recover_all
from lastout.sole_writer import acquire
from lastout.state import record_file
from lastout.supervisor import command
from lastout.verdict import Verdict

from .measure import Number

__all__ = ["measure"]

DEAD = 200
LISTED = 1000
GONE = Verdict("exited", "tree-gone", True)


def cycles(state: str, key: str, count: int) -> None:
    """Reserve, commit, prove, release: each durable before the next."""
    me = identity.take(os.getpid())
    held = Holder("run", record="/run.jsonl", owner=me)
    with SqliteStore(state) as store:
        for _ in range(count):
            epoch = store.change(
                key, lambda found, at: model.reserve(found.lease if found else None, key, held, at)
            ).epoch
            store.change(
                key,
                lambda found, at, epoch=epoch: model.commit(  # type: ignore[misc]
                    found.lease if found else None,
                    epoch,
                    at,
                    front=me,
                    keeper=me,
                    root=me,
                    max_stop_ms=5500,
                ),
            )
            store.change(
                key,
                lambda found, at, epoch=epoch: model.prove(  # type: ignore[misc]
                    found.lease if found else None, epoch, at
                ),
            )
            store.change(
                key,
                lambda found, at, epoch=epoch: model.settle(  # type: ignore[misc]
                    found.lease if found else None, epoch, GONE, at
                ),
            )


def four_bare_fsyncs(count: int = 50) -> float:
    """Milliseconds for what the disk alone needs for a cycle: four appends, each made durable."""
    spent = []
    with tempfile.TemporaryFile(prefix="leases-") as file:
        for _ in range(count):
            begin = time.monotonic()
            for _ in range(4):
                os.write(file.fileno(), bytes(4096))
                os.fdatasync(file.fileno())
            spent.append((time.monotonic() - begin) * 1000)
    return statistics.median(spent)


def throughput(processes: int, count: int) -> float:
    """Whole cycles a second from so many processes, each with a key of its own."""
    with tempfile.TemporaryDirectory(prefix="leases-") as state:
        SqliteStore(state).close()
        context = multiprocessing.get_context("fork")
        jobs = [
            context.Process(target=cycles, args=(state, f"key-{number}", count))
            for number in range(processes)
        ]
        begin = time.monotonic()
        for job in jobs:
            job.start()
        for job in jobs:
            job.join()
        spent = time.monotonic() - begin
        if any(job.exitcode for job in jobs):
            raise RuntimeError("a process of the measurement failed")
    return processes * count / spent


def waits_for_a_free_key(count: int) -> list[float]:
    """Milliseconds of `acquire` on a free key, with everything it writes and looks at."""
    spent = []
    never = Verdict("exited", "never-started", True)
    with tempfile.TemporaryDirectory(prefix="leases-") as state:
        for number in range(count + 20):
            begin = time.monotonic()
            grant = acquire(f"key-{number % 20}", state=state)
            if number >= 20:
                spent.append((time.monotonic() - begin) * 1000)
            grant.release(never)
    return spent


def start_many(state: str, count: int, argv: list[str], graces: Graces) -> list[cases.Case]:
    """So many runs of an owner that is dead by the time they are recovered."""
    folder = Path(state)
    script = (
        "import json, subprocess, sys\n"
        "for argv in json.load(sys.stdin): subprocess.Popen(argv, stdin=subprocess.DEVNULL)\n"
        "sys.stdout.write('.'); sys.stdout.flush(); sys.stdin = None\n"
        "import signal; signal.pause()\n"
    )
    names = [f"20260101T000000-{number:06d}" for number in range(count)]
    records = [record_file(name, str(folder)) for name in names]
    commands = [
        command(argv, graces=graces, run=name, record=record, stdin_end="ignore")
        for name, record in zip(names, records, strict=True)
    ]
    owner = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert owner.stdin
    assert owner.stdout
    owner.stdin.write(json.dumps(commands).encode())
    owner.stdin.close()
    owner.stdout.read(1)
    while any(not os.path.exists(path) or not runs.look(path).started for path in records):
        pass
    everybody = [cases.read(cases.of_record(path)) for path in records]
    for known in everybody:
        _signal(known.front, signal.SIGSTOP)
    for known in everybody:
        _signal(known.keeper, signal.SIGSTOP)
    owner.kill()
    owner.wait()
    owner.stdout.close()
    return [cases.of_record(path) for path in records]


def recovery(stubborn: bool, graces: Graces, count: int = DEAD) -> float:
    """Seconds for so many runs whose owner was killed: proven gone, or ignoring SIGTERM."""
    quiet = ["exec", shutil.which("sleep") or "sleep", "60"]
    argv = ["sh", "-c", " ".join(["trap '' TERM INT HUP;", *quiet] if stubborn else quiet)]
    with tempfile.TemporaryDirectory(prefix="leases-") as state:
        todo = start_many(state, count, argv, graces)
        if not stubborn:
            for case in todo:
                known = cases.read(case)
                for one in (known.front, known.keeper, known.root):
                    _signal(one, signal.SIGKILL)
            for case in todo:
                root = cases.read(case).root
                assert root is not None
                identity.wait_dead(root, 10)
        begin = time.monotonic()
        results = recover_all(todo)
        spent = time.monotonic() - begin
        bad = [one for one in results if one.verdict is None or not one.verdict.settled]
        if bad:
            raise RuntimeError(f"{len(bad)} runs have no verdict: {bad[0]}")
    return spent


def listing(rounds: int, count: int = LISTED) -> float:
    """Seconds of `lastout ps` over so many runs: the records of live ones, copied."""
    with tempfile.TemporaryDirectory(prefix="leases-") as state:
        record = record_file("20260101T000000-live00", state)
        argv = command(
            [shutil.which("sleep") or "sleep", "300"],
            run="20260101T000000-live00",
            record=record,
            stdin_end="ignore",
        )
        front = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
        try:
            while not os.path.exists(record) or not runs.look(record).started:
                pass
            text = Path(record).read_text()
            for number in range(count - 1):
                name = f"20260101T000000-{number:06d}"
                copy = text.replace("20260101T000000-live00", name)
                Path(record_file(name, state)).write_text(copy)
            spent = []
            for _ in range(rounds):
                begin = time.monotonic()
                done = subprocess.run(
                    [sys.executable, "-m", "lastout", "ps", "--state", state],
                    capture_output=True,
                    check=True,
                )
                spent.append(time.monotonic() - begin)
                if done.stdout.count(b"running") != count:
                    raise RuntimeError("not every run was listed")
        finally:
            front.terminate()
            front.wait()
    return statistics.median(spent)


def measure(rounds: int, progress: Callable[[str], None]) -> list[Number]:
    """All numbers of leases; `rounds` scales the counts."""
    numbers = []
    for processes, most in ((1, 500), (8, 300)):
        progress(f"durable lease cycles from {processes}")
        found = max(throughput(processes, max(50, rounds * 5 // processes)) for _ in range(3))
        numbers.append(
            Number(
                f"ms for a whole durable lease cycle, {processes} process(es)",
                1000 / found,
                1000 / most,
                "ms",
                f"{found:.0f} cycles a second, the best of 3 rounds; at least {most} wanted;"
                f" four bare fdatasync took {four_bare_fsyncs():.2f} ms beside it",
            )
        )
    progress("waits for a free key")
    waits = sorted(waits_for_a_free_key(max(100, rounds * 5)))
    p99 = waits[int(len(waits) * 0.99)]
    detail = f"median {statistics.median(waits):.2f} ms of {len(waits)}"
    numbers.append(Number("acquire on a free key, 99th percentile", p99, 5.0, "ms", detail))
    progress(f"recovery of {DEAD} dead runs")
    spent = recovery(False, DEFAULT)
    numbers.append(Number(f"recovery of {DEAD} runs proven gone", spent, 2.0, "s", "side by side"))
    graces = Graces(stdin=0.0, term=2.0, reap=1.0)
    spent = recovery(True, graces)
    detail = f"MAX_STOP {graces.max_stop:g} s, and 2 s"
    limit = graces.max_stop + 2
    numbers.append(
        Number(f"recovery of {DEAD} runs that ignore SIGTERM", spent, limit, "s", detail)
    )
    progress(f"ps over {LISTED} runs")
    spent = listing(max(5, rounds // 20))
    detail = "the whole command, interpreter included; median"
    numbers.append(Number(f"lastout ps over {LISTED} live runs", spent, 0.5, "s", detail))
    return numbers


def _signal(one: ProcessIdentity | None, number: int) -> None:
    if one is not None:
        try:
            identity.signal(one, number)
        except ProcessLookupError:
            pass
