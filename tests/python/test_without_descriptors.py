"""A program that has run out of descriptors still hears what became of its run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_LOSE = """
import resource, sys
import lastout
from lastout import identity

def whole(one, started):
    return identity.ProcessIdentity(one.pid, one.start, one.inode, started.boot_id, started.pidns)

def lose_both(started):
    front, keeper = (whole(one, started) for one in (started.front, started.keeper))
    for one, number in ((front, 19), (keeper, 19), (keeper, 9), (front, 9)):
        identity.signal(one, number)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    return soft, hard
"""
_ASYNC = (
    _LOSE
    + """
import anyio

async def main():
    async with lastout.open_process(["sleep", "60"], state=sys.argv[1]) as process:
        limits = lose_both(process.started)
        try:
            outcome = await process.wait()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    print(outcome.verdict, process.outcome == outcome)

anyio.run(main, backend=sys.argv[2])
"""
)
_POPEN = (
    _LOSE
    + """
with lastout.Popen(["sleep", "60"], state=sys.argv[1]) as process:
    limits = lose_both(process.started)
    try:
        process.wait(30)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
print(process.outcome.verdict, True)
"""
)


@pytest.mark.parametrize("how", ["asyncio", "trio", "popen"])
def test_a_lost_supervisor_is_unproven_and_no_error(tmp_path: Path, how: str) -> None:
    code = _POPEN if how == "popen" else _ASYNC
    argv = [sys.executable, "-c", code, str(tmp_path), how]
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
    )
    assert (done.stdout.split(), done.returncode) == (["unproven", "True"], 0), done.stderr
