"""What evidence costs: recording, telling one run among many, the index, tracing a build."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .cost import Starter
from .measure import BENCH, SUPERVISOR, Number, interleaved

RUNS = 100_000
DAYS = 100
BUILDS = 7
COPIES = 3  # each source is compiled so often: a build of some seconds
OUTPUT_MB = 256


def measure(rounds: int, progress: Callable[[str], None], runs: int = RUNS) -> list[Number]:
    """All numbers of the evidence; `runs` records are made for those among many."""
    with tempfile.TemporaryDirectory(prefix="lastout-bench-") as folder:
        numbers = _recording(Path(folder), rounds, progress)
        numbers += _among_many(Path(folder) / "state", runs, progress)
        numbers += _tracing(Path(folder), progress)
    return numbers


def _recording(folder: Path, rounds: int, progress: Callable[[str], None]) -> list[Number]:
    progress("recording: starts with and without a record")
    starter = Starter()
    counter = iter(range(1 << 30))

    def with_record() -> dict[str, float]:
        record = str(folder / f"{next(counter)}.jsonl")
        try:
            return starter.once([str(SUPERVISOR), "--record", record, "--"])
        finally:
            os.unlink(record)

    standing = str(folder / "standing.jsonl")
    samples = interleaved(
        rounds,
        {
            "without": lambda: starter.once([str(SUPERVISOR), "--"]),
            "new": with_record,
            "standing": lambda: starter.once([str(SUPERVISOR), "--record", standing, "--"]),
        },
    )
    medians = {
        (name, key): statistics.median(samples[name][key])
        for name in samples
        for key in ("exec", "wait")
    }
    numbers = []
    for name, what in (
        ("new", "recording, of a run's start"),
        ("standing", "the same without the making of a new file"),
    ):
        before, after = medians["without", "exec"], medians[name, "exec"]
        detail = (
            f"to the root's exec {before:.3f} ms without, {after:.3f} ms with; a whole run of "
            f"`true` {medians['without', 'wait']:.3f} ms and {medians[name, 'wait']:.3f} ms, since "
            f"its last line is waited for; medians of {rounds}, load {os.getloadavg()[0]:.0f}"
        )
        numbers.append(Number(what, 100 * (after - before) / before, 10.0, "%", detail))
    lines = []
    for megabytes in (0, OUTPUT_MB):
        record = folder / f"output{megabytes}.jsonl"
        command = ["head", "-c", f"{megabytes}M", "/dev/zero"]
        argv = [str(SUPERVISOR), "--record", str(record), "--stdin-end", "ignore", "--", *command]
        subprocess.run(argv, stdout=subprocess.DEVNULL, check=True)
        lines.append(len(record.read_bytes().splitlines()))
    detail = f"{lines[0]} lines for no output, {lines[1]} for {OUTPUT_MB} MB"
    numbers.append(Number("lines more for output", lines[1] - lines[0], 0, "lines", detail))
    return numbers


def _among_many(state: Path, runs: int, progress: Callable[[str], None]) -> list[Number]:
    progress(f"{runs} records")
    wanted = _fill(state, runs)
    label = f"among {runs:,} runs"
    numbers = [
        _command(f"why RUN, {label}", 0.3, state, ["why", wanted, "--no-timeline"]),
        _command(f"why with half an id, {label}", 0.3, state, ["why", wanted[:-4]]),
        _command(f"why last, {label}", 0.3, state, ["why", "last", "--no-timeline"]),
    ]
    progress("index")
    began = time.monotonic()
    _lastout(state, ["index", "rebuild"])
    seconds = time.monotonic() - began
    scaled = 60.0 * runs / RUNS
    numbers.append(Number(f"index rebuilt from {runs:,} records", seconds, scaled, "s", ""))
    numbers.append(_command(f"log of the last 20, {label}", 2.0, state, ["log"]))
    return numbers


def _fill(state: Path, runs: int) -> str:
    """Real lines of one run, copied under other ids; one of them."""
    record = state.parent / "pattern.jsonl"
    script = "setsid sleep 60 & exit 1"
    argv = [str(SUPERVISOR), "--run", "PATTERN", "--record", str(record), "--", "sh", "-c", script]
    subprocess.run(argv, stdin=subprocess.DEVNULL, check=False)
    pattern = record.read_text()
    wanted = ""
    for number in range(runs):
        day = 20250101 + number % DAYS
        run = f"{day}T{number // 3600 % 24:02}{number // 60 % 60:02}{number % 60:02}-{number:06x}"
        directory = state / "runs" / run[:8]
        if number < DAYS:
            directory.mkdir(parents=True)
        path = directory / f"{run}.jsonl"
        path.write_text(pattern.replace("PATTERN", run))
        if number == runs // 2:
            wanted = run
    # As they are a day later; what was written just now is looked at more often.
    yesterday = time.time() - 86400
    for directory in (state / "runs").iterdir():
        for path in (*directory.iterdir(), directory):
            os.utime(path, (yesterday, yesterday))
    return wanted


def _command(what: str, limit: float, state: Path, arguments: list[str]) -> Number:
    times = []
    used = []
    for _ in range(9):
        began, before = time.monotonic(), os.times()
        _lastout(state, arguments)
        times.append(time.monotonic() - began)
        after = os.times()
        used.append(
            after.children_user
            + after.children_system
            - before.children_user
            - before.children_system
        )
    detail = (
        f"the whole command, Python's start included; median of {len(times)}; "
        f"processor time {statistics.median(used):.2f} s, load {os.getloadavg()[0]:.0f}"
    )
    return Number(what, statistics.median(times), limit, "s", detail)


def _lastout(state: Path, arguments: list[str]) -> None:
    argv = [sys.executable, "-m", "lastout", *arguments, "--state", str(state)]
    subprocess.run(argv, stdout=subprocess.DEVNULL, check=True)


def _tracing(folder: Path, progress: Callable[[str], None]) -> list[Number]:
    """A build with `make -j2`: the supervisor's own sources, compiled as they are."""
    if os.geteuid() != 0 or not shutil.which("make") or not shutil.which("cc"):
        progress("tracing needs root, make and cc: left out")
        return []
    progress("tracing a build")
    sources = sorted((BENCH.parent / "native").glob("*.c")) * COPIES
    names = [f"{number}-{source.stem}.o" for number, source in enumerate(sources)]
    rules = "\n".join(
        f"{name}:\n\tcc -O1 -D_GNU_SOURCE -c {source} -o $@ && test -s $@"
        for name, source in zip(names, sources, strict=True)
    )
    makefile = f"all: {' '.join(names)}\n{rules}\nclean:\n\trm -f *.o\n"
    build = folder / "build"
    build.mkdir()
    (build / "Makefile").write_text(makefile)
    lost: list[int] = []
    forks: list[int] = []

    def once(traced: bool) -> dict[str, float]:
        record = folder / "build.jsonl"
        record.unlink(missing_ok=True)
        subprocess.run(["make", "-s", "clean"], cwd=build, check=True)
        option = ["--trace"] if traced else []
        argv = [sys.executable, "-m", "lastout", "run", "--record", str(record), *option, "--"]
        subprocess.run([*argv, "make", "-s", "-j2"], cwd=build, check=True)
        tracer_us = 0
        if traced:
            end = _trace_end(record)
            lost.append(end["lost"])
            forks.append(end["forks"])
            tracer_us = end["cpu_us"]
        at = {str(line["event"]): line for line in _lines(record)}
        seconds = (at["tree-gone"]["boottime_ns"] - at["started"]["boottime_ns"]) / 1e9
        build_us = at["reaped"]["user_us"] + at["reaped"]["system_us"]
        return {"wall": seconds, "cpu": (build_us + tracer_us) / 1e6, "tracer": tracer_us / 1e6}

    samples = interleaved(
        BUILDS, {"without": lambda: once(False), "with": lambda: once(True)}, warm=1
    )
    before, after = ({key: statistics.median(values) for key, values in samples[name].items()}
                     for name in ("without", "with"))  # fmt: skip
    detail = (
        f"processor time {before['cpu']:.2f} s without, {after['cpu']:.2f} s with, of it the "
        f"tracer {after['tracer']:.3f} s; by the clock "
        f"{before['wall']:.2f} s and {after['wall']:.2f} s; medians of {BUILDS} pairs; "
        f"{statistics.median(forks):.0f} forks a build"
    )
    # Pair by pair: the two builds of a round see the same noise of the machine.
    pairs = zip(samples["without"]["cpu"], samples["with"]["cpu"], strict=True)
    percent = statistics.median(100 * (traced - plain) / plain for plain, traced in pairs)
    return [
        Number("tracing, of `make -j2`", percent, 5.0, "%", detail),
        Number("events lost in the builds", sum(lost), 0, "events", "the kernel's own count"),
    ]


def _lines(record: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in record.read_text().splitlines()]


def _trace_end(record: Path) -> dict[str, Any]:
    """The tracer's last line; it comes a moment after the run's."""
    limit = time.monotonic() + 10
    while time.monotonic() < limit:
        for line in _lines(record):
            if str(line["event"]) == "trace-ended":
                return line
        time.sleep(0.05)
    raise RuntimeError("the tracer did not end")
