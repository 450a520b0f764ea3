"""`make load`: the tests on a machine that is against them.

Everything at once, each part bounded in time: the suite runs at nice +10 beside one endless loop for
each core and a writer that syncs, its processes are stopped and continued at random
and now and then all of it is frozen for a second or two, as a machine is that sleeps (harness/pauses.py).
Whatever fails is a defect, of a test or of lastout.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.pauses import FD
from harness.tiers import can_make_cgroups, own_cgroup

TESTS = Path(__file__).resolve().parents[1]
NICE = 10

# Both end with their starter, and with their time.
BUSY = """
import os, sys, time
parent, due = os.getppid(), time.monotonic() + float(sys.argv[1])
while os.getppid() == parent and time.monotonic() < due:
    for _ in range(1_000_000):
        pass
"""
WRITING = """
import os, sys, time
parent, due = os.getppid(), time.monotonic() + float(sys.argv[1])
block = os.urandom(1 << 20)
with open(sys.argv[2], "wb", buffering=0) as file:
    while os.getppid() == parent and time.monotonic() < due:
        file.seek(0)
        for _ in range(32):
            file.write(block)
            os.fdatasync(file.fileno())
"""


@contextlib.contextmanager
def load(cores: int, writers: int, seconds: float) -> Iterator[None]:
    """The other work of the machine."""
    with tempfile.TemporaryDirectory(prefix="lastout-load-") as scratch:
        programs = [["-c", BUSY, str(seconds)]] * cores
        programs += [["-c", WRITING, str(seconds), f"{scratch}/{n}"] for n in range(writers)]
        made = [subprocess.Popen([sys.executable, "-S", "-E", *program]) for program in programs]
        try:
            yield
        finally:
            for one in made:
                one.kill()
            for one in made:
                one.wait()


@contextlib.contextmanager
def own_place() -> Iterator[Path | None]:
    """A cgroup for the suite, in which all of it can be frozen; None where none can be made."""
    here = own_cgroup()
    if here is None or not can_make_cgroups():
        yield None
        return
    path = here / f"load-{os.getpid()}"
    path.mkdir()
    try:
        yield path
    finally:
        (path / "cgroup.freeze").write_text("0")
        with contextlib.suppress(OSError):  # somebody is still in it: the suite has said so
            path.rmdir()


def run_suite(arguments: list[str], seed: int, place: Path | None) -> int:
    """pytest's status; its processes are stopped and frozen at random meanwhile."""

    def before_exec() -> None:
        os.nice(NICE)
        if place is not None:
            (place / "cgroup.procs").write_text("0")

    code = (
        f"import sys; sys.path.insert(0, {str(TESTS)!r}); from harness import pauses; pauses.main()"
    )
    ours, theirs = socket.socketpair()
    with ours, theirs:
        suite = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", *arguments],
            pass_fds=[theirs.fileno()],
            env={**os.environ, FD: str(theirs.fileno())},
            preexec_fn=before_exec,
        )
        words = [str(suite.pid), str(ours.fileno()), str(seed)]
        words += [str(place)] if place is not None else []
        pauses = subprocess.Popen([sys.executable, "-c", code, *words], pass_fds=[ours.fileno()])
    try:
        return suite.wait()
    finally:
        pauses.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cores", type=int, default=os.cpu_count(), help="endless loops")
    parser.add_argument("--writers", type=int, default=1, help="programs that write and sync")
    parser.add_argument(
        "--minutes", type=float, default=60, help="the load ends then at the latest"
    )
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("pytest", nargs="*", metavar="-- PYTEST-ARGUMENT")
    options = parser.parse_args()
    print(f"seed {options.seed}: {options.cores} busy, {options.writers} writing", flush=True)
    with load(options.cores, options.writers, options.minutes * 60), own_place() as place:
        return run_suite(options.pytest, options.seed, place)


if __name__ == "__main__":
    sys.exit(main())
