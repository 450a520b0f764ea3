"""A thousand runs at a time from one asyncio owner, and what importing lastout costs."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import lastout
from lastout.spawn import DESCRIPTORS

from .measure import Number, interleaved, summary

RUNS = 1000
PIPES = 2  # stdin and stdout
WAIT = [shutil.which("sleep") or "/bin/sleep", "300"]  # longer than any of this takes


async def plain(count: int) -> Mapping[str, float]:
    """Bare children: started, terminated, waited for."""
    begin = time.monotonic()
    children = await asyncio.gather(
        *(
            asyncio.create_subprocess_exec(
                *WAIT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
            )
            for _ in range(count)
        )
    )
    for child in children:
        child.terminate()
    await asyncio.gather(*(child.wait() for child in children))
    return {"s": time.monotonic() - begin}


async def ours(count: int, state: Path) -> Mapping[str, float]:
    """Runs: started, all alive at a time, stopped, and each proven to have left nobody."""
    ready = asyncio.Semaphore(0)
    go = asyncio.Event()

    async def one() -> None:
        async with lastout.open_process(WAIT, state=state) as process:
            ready.release()
            await go.wait()
            outcome = await process.stop()
            if not outcome.tree_gone:
                raise RuntimeError(f"{outcome} is no proof")

    before = len(os.listdir("/proc/self/fd"))
    begin = time.monotonic()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(count):
            tasks.create_task(one())
        for _ in range(count):
            await ready.acquire()
        looked = time.monotonic()
        descriptors = len(os.listdir("/proc/self/fd")) - before
        threads = len(os.listdir("/proc/self/task"))
        looked = time.monotonic() - looked
        go.set()
    spent = time.monotonic() - begin - looked
    return {"s": spent, "descriptors": descriptors / count, "threads": float(threads)}


def many(rounds: int, count: int = RUNS) -> list[Number]:
    """So many runs at a time over so many bare children, in turns."""
    with tempfile.TemporaryDirectory(prefix="state-") as folder, asyncio.Runner() as runner:

        def timed(what: Callable[[], Awaitable[Mapping[str, float]]]) -> Mapping[str, float]:
            return runner.run(what())  # type: ignore[arg-type]

        samples = interleaved(
            rounds,
            {
                "plain": lambda: timed(lambda: plain(count)),
                "ours": lambda: timed(lambda: ours(count, Path(folder))),
            },
            warm=1,
        )
    bare, run = (summary(samples[name]["s"]) for name in ("plain", "ours"))
    detail = f"{run['median']:.2f} s over {bare['median']:.2f} s, n {rounds}"
    return [
        Number(f"{count:,} runs at a time over bare children", run["median"] / bare["median"], 3.0,
               "times", detail),
        Number("descriptors a run", max(samples["ours"]["descriptors"]), DESCRIPTORS + PIPES, "",
               f"{DESCRIPTORS} and the two pipes"),
        Number("threads of the owner", max(samples["ours"]["threads"]), 1.0, "", "no thread a run"),
    ]  # fmt: skip


def imported(rounds: int) -> list[Number]:
    """What `import lastout` adds to an empty interpreter, and what its first use does."""

    def timed(source: str) -> Mapping[str, float]:
        # Processor time: an import waits for nobody, and a busy machine only adds to the clock's.
        child = subprocess.Popen([sys.executable, "-c", source], stdin=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            raise RuntimeError(f"{source!r} ended with {child.returncode}")
        return {"ms": (used.ru_utime + used.ru_stime) * 1e3}

    samples = interleaved(
        rounds,
        {
            "empty": lambda: timed("pass"),
            "name": lambda: timed("import lastout"),
            "used": lambda: timed("import lastout; lastout.open_process"),
        },
    )
    empty, name, used = (summary(samples[what]["ms"])["median"] for what in samples)
    detail = f"processor time; an empty Python takes {empty:.0f} ms, n {rounds}"
    return [
        Number("import lastout", name - empty, 120.0, "ms", detail),
        Number("import of open_process", used - empty, 120.0, "ms", detail),
    ]


def measure(rounds: int, progress: Callable[[str], None]) -> list[Number]:
    """All of it. A round of starts is a thousand of them here, so far fewer rounds."""
    progress(f"{RUNS} runs at a time, and as many bare children")
    numbers = many(max(3, rounds // 40))
    progress("import")
    return numbers + imported(max(10, rounds // 5))
