"""What a look at the exited root adds to the exit report, and how fast a terminal of ours is."""

from __future__ import annotations

import asyncio
import os
import pty
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import lastout
from lastout.evidence.events import Reaped, RootExited

from .measure import Number, interleaved, summary
from .starts import switches

TRUE = shutil.which("true") or "/bin/true"
SIZE = 8 << 20  # bytes through the terminal in one round
CHUNK = 65536
IDLE_SECONDS = 5.0


def observed(rounds: int) -> list[Number]:
    """From seeing the root's end to its reap, which the exit report waits for, by the clock of the
    supervisor's own lines: without an observer, and with one that acknowledges at once."""

    async def seen(observer: lastout.ExitObserver | None, state: Path) -> float:
        argv = [TRUE]
        async with lastout.open_process(argv, state=state, observer=observer) as process:
            if observer is not None:
                await (await observer.opportunity()).acknowledge()
            await process.wait()
            lines = [line async for line in process.events()]
        (ended,) = (line for line in lines if isinstance(line, RootExited))
        (reaped,) = (line for line in lines if isinstance(line, Reaped))
        return (reaped.boottime_ns - ended.boottime_ns) / 1e6

    with tempfile.TemporaryDirectory(prefix="state-") as folder, asyncio.Runner() as runner:
        state = Path(folder)
        samples = interleaved(
            rounds,
            {
                "bare": lambda: {"ms": runner.run(seen(None, state))},
                "looked at": lambda: {"ms": runner.run(seen(lastout.ExitObserver(), state))},
            },
        )
    one, two = (summary(samples[name]["ms"])["median"] for name in ("bare", "looked at"))
    detail = f"{two:.3f} ms over {one:.3f} ms, n {rounds}"
    return [Number("a look at the exited root, added to its report", two - one, 0.5, "ms", detail)]


def throughput(rounds: int) -> list[Number]:
    """The time for the same output: `open_terminal` over a loop of read(2) after pty.fork.

    The shortest of all rounds: writer, kernel and reader take turns on few cores, so that a median
    says more about what else runs than about the reader.
    """
    argv = ["head", "-c", str(SIZE), "/dev/zero"]

    def bare() -> dict[str, float]:
        begin = time.monotonic_ns()
        pid, master = pty.fork()
        if pid == 0:
            os.execvp(argv[0], argv)
        got, first = 0, begin
        try:
            while data := os.read(master, CHUNK):
                first = first if got else time.monotonic_ns()
                got += len(data)
        except OSError:
            pass  # EIO: the end
        end = time.monotonic_ns()
        os.close(master)
        os.waitpid(pid, 0)
        assert got == SIZE, got
        return {"ms": (end - first) / 1e6}

    async def ours_async() -> float:
        async with lastout.open_terminal(argv, record=None) as terminal:
            got, first = 0, 0
            async for data in terminal.stdout:
                first = first if got else time.monotonic_ns()
                got += len(data)
            end = time.monotonic_ns()
        assert got == SIZE, got
        return (end - first) / 1e6

    def threads() -> dict[str, float]:
        with lastout.TerminalPopen(argv, record=None) as terminal:
            got, first = 0, 0
            while data := terminal.read(CHUNK):
                first = first if got else time.monotonic_ns()
                got += len(data)
            end = time.monotonic_ns()
        assert got == SIZE, got
        return {"ms": (end - first) / 1e6}

    with asyncio.Runner() as runner:
        samples = interleaved(
            max(10, rounds // 4),
            {
                "bare": bare,
                "ours": lambda: {"ms": runner.run(ours_async())},
                "threads": threads,
            },
            warm=1,
        )
    base = summary(samples["bare"]["ms"])
    numbers = []
    for name, what in (("ours", "open_terminal"), ("threads", "TerminalPopen")):
        mine = summary(samples[name]["ms"])
        detail = (
            f"{SIZE >> 20} MiB in {mine['min']:.1f} ms, bare {base['min']:.1f} ms (medians "
            f"{mine['median']:.0f}, {base['median']:.0f}), n {mine['n']:.0f}, chunk {CHUNK}"
        )
        what = f"{what}, output over a bare pty.fork reader"
        numbers.append(Number(what, mine["min"] / base["min"], 1 / 0.95, "times", detail))
    return numbers


def idle(rounds: int) -> list[Number]:
    """Context switches of front and keeper below a terminal that is quiet. `rounds` is not used."""

    async def count() -> int:
        async with lastout.open_terminal(["sleep", "60"], record=None) as terminal:
            ours = [terminal.front.pid, terminal.keeper.pid]
            await asyncio.sleep(0.5)  # the start's own last steps
            before = sum(map(switches, ours))
            await asyncio.sleep(IDLE_SECONDS)
            return sum(map(switches, ours)) - before

    what = "context switches while a terminal is quiet"
    detail = f"front and keeper, {IDLE_SECONDS:.0f} s"
    return [Number(what, float(asyncio.run(count())), 0.0, "", detail)]


def measure(rounds: int, progress: Callable[[str], None]) -> list[Number]:
    """Every number of this file."""
    numbers: list[Number] = []
    for part in (observed, throughput, idle):
        progress(part.__doc__.splitlines()[0] if part.__doc__ else part.__name__)
        numbers += part(rounds)
    return numbers
