"""Background jobs: what a submit costs, how many short ones get done, what a runner keeps."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import lastout
from lastout.identity import wait_dead
from lastout.jobs import AgentTurn, Command, Job, Jobs, Process, door, open_jobs, route
from lastout.supervisor import command

from .measure import Number, percentile

_QUEUED = 200
_AT_ONCE = 4
_ROUNDS = 3
_SHORT = ("sleep", "0.1")
_QUIET = 1.5  # seconds, after which a runner without capture has given its memory back


def measure(rounds: int, progress: Callable[[str], None]) -> list[Number]:
    """All of them; `rounds` is for the submits alone."""
    numbers = [*_submits(rounds, progress), *_throughput(progress), *_memory(progress)]
    return [number for number in numbers if number is not None]


@contextmanager
def _store() -> Iterator[Jobs]:
    with tempfile.TemporaryDirectory() as name:
        store = open_jobs(Path(name) / "state")
        yield store
        with door.door(store.state):
            runners = [slot.runner for slot in door.slots(store.state)]
        for runner in runners:
            if runner is not None:
                wait_dead(runner.identity, 10.0)


@contextmanager
def _held_back(store: Jobs) -> Iterator[None]:
    """Nothing is run meanwhile: all slots are ours."""
    held = []
    with door.door(store.state):
        while (slot := door.free_slot(store.state)) is not None:
            held.append(slot[1])
            door.note_slot(slot[1], job="-")
    try:
        yield
    finally:
        for fd in held:
            os.close(fd)


# --- submit --------------------------------------------------------------------------------------


def _submits(rounds: int, progress: Callable[[str], None]) -> Iterator[Number]:
    progress(f"jobs: {rounds} submits from Python, and the same from a shell")
    source = str(Path(lastout.__file__).parent.parent)
    env = {**os.environ, "PYTHONPATH": source}
    calls: list[float] = []
    commands: list[float] = []
    with _store() as store:
        job = store.submit(Command(["true"]))  # the directories are there from now on
        job.wait()
        argv = [sys.executable, "-m", "lastout", "job", "submit", "--state", store.state, "--"]
        for number in range(rounds):
            began = time.perf_counter()
            job = store.submit(Command(["true"]))
            calls.append((time.perf_counter() - began) * 1000)
            job.wait()
            if number % 5 == 0:
                began = time.perf_counter()
                done = subprocess.run([*argv, "true"], env=env, capture_output=True, check=True)
                commands.append((time.perf_counter() - began) * 1000)
                store.get(done.stdout.decode().strip()).wait()
    for what, times in (("from Python", calls), ("by `lastout job submit`", commands)):
        median, late = statistics.median(times), percentile(times, 95)
        how = f"median of {len(times)}, each with the start of its runner; 95 %: {late:.1f} ms"
        yield Number(f"jobs: submit, durable, {what}", median, 100.0, "ms", how)


# --- many short ones -----------------------------------------------------------------------------


def _throughput(progress: Callable[[str], None]) -> Iterator[Number]:
    if shutil.which("parallel") is None:
        progress("jobs: GNU parallel is not installed: its throughput was not compared")
        return
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(_ROUNDS):
        progress(f"jobs: {_QUEUED} short jobs, {_AT_ONCE} at once ({number + 1} of {_ROUNDS})")
        theirs.append(_with_parallel())
        ours.append(_with_jobs())
    ratio = statistics.median(ours) / statistics.median(theirs)
    yield Number(
        f"jobs: time for {_QUEUED} queued jobs (`{' '.join(_SHORT)}`), {_AT_ONCE} at once, "
        "over GNU parallel's with the supervisor",
        ratio,
        1 / 0.9,
        "x",
        f"medians of {_ROUNDS}, in turns: {statistics.median(ours):.2f} s, from the start of the "
        f"first runner, and {statistics.median(theirs):.2f} s: {1 / ratio:.2f} of its throughput",
    )


def _with_parallel() -> float:
    with tempfile.TemporaryDirectory() as name:
        argv = command(_SHORT, stdin_end="ignore")
        place = argv.index("--")
        argv[place:place] = ["--record", f"{name}/{{#}}.jsonl"]
        began = time.perf_counter()
        subprocess.run(
            ["parallel", "--will-cite", "-j", str(_AT_ONCE), "-N0", *argv],
            input="x\n" * _QUEUED,
            text=True,
            check=True,
            capture_output=True,
        )
        took = time.perf_counter() - began
        assert len(os.listdir(name)) == _QUEUED
        return took


def _with_jobs() -> float:
    with _store() as store:
        store.set_limit(_AT_ONCE)
        with _held_back(store):
            queued = [store.submit(Command(_SHORT)) for _ in range(_QUEUED)]
        began = time.perf_counter()
        route.start_runners(store.state)
        results = [job.wait() for job in queued]
        took = time.perf_counter() - began
        assert not any(result.failed for result in results)
        return took


# --- memory --------------------------------------------------------------------------------------


def _memory(progress: Callable[[str], None]) -> Iterator[Number]:
    progress("jobs: a runner's private memory")
    with _store() as store:
        job = store.submit(Command(["sh", "-c", "head -c 8000000 /dev/zero; exec sleep 60"]))
        _until(job, lambda: job.output()[1] > 0)
        yield _number("a command whose output is captured", _runner(job), 20.0, "after 8 MB of it")
        _end(job)
        job = store.submit(Command(["sleep", "60"], capture=False))
        time.sleep(_QUIET)
        _until(job, lambda: "python" not in os.readlink(f"/proc/{_runner(job).pid}/exe"))
        yield _number("a command without capture", _runner(job), 1.0, "a shell that waits")
        _end(job)
        turn = AgentTurn(agent="scripted", prompt="/run sleep 60")
        job = store.submit(turn)
        _until(job, lambda: any(type(one).__name__ == "Text" for one in job.feed())
               or job.status().state == "running")  # fmt: skip
        time.sleep(_QUIET)
        yield _number("an agent's turn", _runner(job), 30.0, "the scripted agent, in its turn")
        _end(job)


def _until(job: Job, true: Callable[[], bool]) -> None:
    from lastout.jobs.waiting import Waiting

    with Waiting(job.directory) as waiting:
        while job.status().state not in ("running", "idle") or not true():
            assert not job.status().ended, job.result()
            waiting.wait_blocking(1.0)


def _runner(job: Job) -> Process:
    runner = job.status().runner
    assert runner is not None
    return runner


def _end(job: Job) -> None:
    job.cancel(grace=0)
    job.wait()


def _number(what: str, runner: Process, limit: float, how: str) -> Number:
    lines = Path(f"/proc/{runner.pid}/smaps_rollup").read_text().splitlines()
    kib = sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
    return Number(f"jobs: a runner's private memory, {what}", kib / 1024, limit, "MB", how)
