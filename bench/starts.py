"""How fast a start is through Python and through the command line, and that idling is free."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import lastout

from .measure import SUPERVISOR, Number, interleaved, program, summary
from .stops import stamp_file

IDLE_SECONDS = 10.0
TRUE = shutil.which("true") or "/bin/true"
# Records go to memory here: how busy the disk is at this moment is not what is measured.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def through_python(rounds: int) -> list[Number]:
    """`open_process` to exit over `asyncio.create_subprocess_exec` to exit, in one event loop."""

    async def plain() -> None:
        child = await asyncio.create_subprocess_exec(
            TRUE, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        await child.wait()

    async def ours() -> None:
        async with lastout.open_process([TRUE], state=state) as process:
            await process.wait()

    def timed(runner: asyncio.Runner, what: Callable[[], object]) -> dict[str, float]:
        begin = time.monotonic_ns()
        runner.run(what())  # type: ignore[arg-type]
        return {"ms": (time.monotonic_ns() - begin) / 1e6}

    with ExitStack() as stack:
        state = stack.enter_context(tempfile.TemporaryDirectory(prefix="state-", dir=MEMORY))
        runner = stack.enter_context(asyncio.Runner())
        samples = interleaved(
            rounds, {"plain": lambda: timed(runner, plain), "ours": lambda: timed(runner, ours)}
        )
    one, two = (summary(samples[name]["ms"]) for name in ("plain", "ours"))
    detail = f"{two['median']:.2f} ms over {one['median']:.2f} ms, n {rounds}"
    ratio = two["median"] / one["median"]
    return [Number("open_process over create_subprocess_exec", ratio, 2.0, "times", detail)]


def through_command_line(rounds: int) -> list[Number]:
    """`lastout run -- true` over `true`: an interpreter starts, and is replaced."""
    command = Path(sys.executable).with_name("lastout")

    def timed(argv: list[str]) -> dict[str, float]:
        begin = time.monotonic_ns()
        subprocess.run(argv, stdin=subprocess.DEVNULL, check=True)
        return {"ms": (time.monotonic_ns() - begin) / 1e6}

    with tempfile.TemporaryDirectory(prefix="state-", dir=MEMORY) as state:
        samples = interleaved(
            rounds,
            {
                "bare": lambda: timed([TRUE]),
                "ours": lambda: timed([str(command), "run", "--state", state, "--", TRUE]),
                "python": lambda: timed([sys.executable, "-c", "pass"]),
            },
        )
    bare, ours, python = (summary(samples[name]["ms"]) for name in ("bare", "ours", "python"))
    detail = (
        f"{ours['median']:.1f} ms over {bare['median']:.1f} ms; "
        f"an empty Python alone takes {python['median']:.1f} ms; n {rounds}"
    )
    added = ours["median"] - bare["median"]
    return [Number("lastout run -- true, added to true", added, 60.0, "ms", detail)]


def switches(pid: int) -> int:
    """Context switches of a process so far, from /proc/PID/status; ours have one thread."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)


def idle(rounds: int) -> list[Number]:
    """Context switches of front and keeper together while nothing happens. `rounds` is not used."""
    with stamp_file() as file:
        command = [str(SUPERVISOR), "--", program("stamp"), str(file), "wait"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            child.stdout.read(1)
            children = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
            ours = [child.pid, *map(int, children)]
            time.sleep(0.5)  # the start's own last steps
            before = sum(map(switches, ours))
            time.sleep(IDLE_SECONDS)
            count = sum(map(switches, ours)) - before
            child.terminate()
    detail = f"front and keeper, {IDLE_SECONDS:.0f} s, {len(ours)} processes"
    return [Number("context switches while idle", float(count), 0.0, "", detail)]


def measure(rounds: int, progress: Callable[[str], None]) -> list[Number]:
    numbers = []
    for part in (through_python, through_command_line, idle):
        numbers += part(rounds)
        progress(f"{numbers[-1].what}: {numbers[-1].measured:.2f} {numbers[-1].unit}")
    return numbers
