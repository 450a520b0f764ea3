"""What every measurement shares: programs, interleaved rounds, medians."""

from __future__ import annotations

import random
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

BENCH = Path(__file__).parent
BUILD = BENCH.parent / "build"
PEERS = BUILD / "peers"
SUPERVISOR = Path(str(files("lastout") / "_bin" / "lastout-supervisor"))


def program(name: str) -> str:
    """The path of bench/programs/NAME.c, compiled statically so that no loader is measured."""
    source, output = BENCH / "programs" / f"{name}.c", BUILD / "bench" / name
    if not output.exists() or output.stat().st_mtime < source.stat().st_mtime:
        output.parent.mkdir(parents=True, exist_ok=True)
        compiler = next(cc for cc in ("musl-gcc", "cc", "gcc", "clang") if shutil.which(cc))
        command = [compiler, "-O2", "-static", "-D_GNU_SOURCE", "-o", str(output), str(source)]
        subprocess.run(command, check=True)
    return str(output)


def variant(link: str) -> Path:
    """Our supervisor linked as `musl`, `static` or `dynamic`. Raises RuntimeError if it cannot."""
    output = BUILD / "variants" / link / "lastout-supervisor"
    script = BENCH.parent / "hatch_build.py"
    command = [sys.executable, str(script), "--link", link, "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return output


def interleaved(
    rounds: int, things: Mapping[str, Callable[[], Mapping[str, float]]], *, warm: int = 3
) -> dict[str, dict[str, list[float]]]:
    """Call each thing once a round, in a new random order every time, and gather what they return.

    Only so do all of them see the same noise of the machine. The first `warm` rounds do not count.
    """
    order = list(things)
    samples: dict[str, dict[str, list[float]]] = {name: {} for name in things}
    for number in range(rounds + warm):
        random.shuffle(order)
        for name in order:
            for what, value in things[name]().items():
                if number >= warm:
                    samples[name].setdefault(what, []).append(value)
    return samples


def percentile(values: Iterable[float], percent: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def summary(values: Sequence[float]) -> dict[str, float]:
    return {
        "n": len(values),
        "median": statistics.median(values),
        "p95": percentile(values, 95),
        "min": min(values),
    }


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A markdown table; floats get two decimals, or none from 100 on."""

    def text(value: object) -> str:
        if isinstance(value, float):
            return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"
        return str(value)

    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    lines += ["| " + " | ".join(text(value) for value in row) + " |" for row in rows]
    return "\n".join(lines)


@dataclass(frozen=True)
class Number:
    """One promise with what was measured for it; `limit` is the largest value that keeps it."""

    what: str
    measured: float
    limit: float
    unit: str
    detail: str

    @property
    def kept(self) -> bool:
        return self.measured <= self.limit
