"""How fast a stop is: an obedient root, the caller's await, and a crowd of deaf leftovers."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio

import lastout

from .measure import SUPERVISOR, Number, interleaved, percentile, program, summary

CROWD = 1000
CROWD_GRACE = 0.05  # s; the leftovers are deaf, waiting longer shows nothing
SAFETY = 60.0  # s after which a hanging stop is an error of its own


@contextmanager
def stamp_file() -> Iterator[Path]:
    with tempfile.NamedTemporaryFile(prefix="stamp-") as file:
        os.ftruncate(file.fileno(), 16)
        yield Path(file.name)


def read_stamp(file: Path, index: int) -> int:
    return int(struct.unpack_from("q", file.read_bytes(), 8 * index)[0])


def term_to_wait(argv: list[str], file: Path) -> dict[str, float]:
    """Milliseconds from SIGTERM to the end of the wait, for a root that obeys at once."""
    command = [*argv, program("stamp"), str(file), "wait"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.read(1)
        begin = time.monotonic_ns()
        child.send_signal(signal.SIGTERM)
        child.wait()  # with a timeout it would poll; the root's own alarm ends a hanging stop
        return {"stop": (time.monotonic_ns() - begin) / 1e6}


def obedient(rounds: int) -> list[Number]:
    with stamp_file() as file:
        samples = interleaved(
            rounds,
            {
                "bare": lambda: term_to_wait([], file),
                "lastout": lambda: term_to_wait([str(SUPERVISOR), "--"], file),
            },
        )
    bare, ours = (summary(samples[name]["stop"]) for name in ("bare", "lastout"))
    detail = f"{ours['median']:.3f} ms with, {bare['median']:.3f} ms without, n {rounds}"
    added = ours["median"] - bare["median"]
    return [Number("SIGTERM of an obedient root, added", added, 1.0, "ms", detail)]


async def gone_to_await(file: Path) -> dict[str, float]:
    """Milliseconds from the root's last act (nothing else is in the tree) to `stop` returning."""
    async with lastout.open_process([program("stamp"), str(file), "wait"]) as process:
        assert process.stdout is not None
        await process.stdout.receive(1)
        await process.stop()
        returned = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return {"await": (returned - read_stamp(file, 1)) / 1e6}


def awaited(rounds: int) -> list[Number]:
    async def many() -> list[float]:
        with stamp_file() as file:
            return [(await gone_to_await(file))["await"] for _ in range(rounds + 3)][3:]

    found = summary(anyio.run(many))
    detail = f"p95 {found['p95']:.2f} ms, n {rounds}, asyncio"
    return [Number("last process gone to await returning", found["median"], 2.0, "ms", detail)]


def crowd_once(folder: Path) -> float:
    """Milliseconds from the SIGKILL step to the empty tree, as the run's own record has them."""
    record = folder / "record.jsonl"
    command = [
        str(SUPERVISOR), "--stdin-end", "ignore", "--term-grace", str(CROWD_GRACE),
        "--record", str(record), "--", program("leave"), str(CROWD),
    ]  # fmt: skip
    subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=SAFETY, check=False
    )
    events = [json.loads(line) for line in record.read_text().splitlines()]
    record.unlink()
    stop = next(event for event in events if event["event"] == "stop")
    gone = next(event for event in events if event["event"] == "tree-gone")
    if gone["stopped_count"] < CROWD:
        raise RuntimeError(f"only {gone['stopped_count']} of {CROWD} leftovers were there")
    return float(gone["boottime_ns"] - stop["boottime_ns"]) / 1e6 - CROWD_GRACE * 1000


def crowd(rounds: int) -> list[Number]:
    with tempfile.TemporaryDirectory(prefix="crowd-") as folder:
        values = [crowd_once(Path(folder)) for _ in range(rounds)]
    found = summary(values)
    what = f"{CROWD:,} deaf leftovers gone after the SIGKILL step"
    detail = f"n {rounds}, worst {max(values):.0f} ms"
    return [
        Number(f"{what}, median", found["median"], 100.0, "ms", detail),
        Number(f"{what}, p95", percentile(values, 95), 250.0, "ms", detail),
    ]


def measure(rounds: int, progress: Callable[[str], None]) -> list[Number]:
    numbers = []
    for part in (obedient, awaited, crowd):
        numbers += part(rounds)
        progress(f"{numbers[-1].what}: {numbers[-1].measured:.2f} {numbers[-1].unit}")
    return numbers
