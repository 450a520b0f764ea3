"""A kill -9 of the owner at any moment leaves a record that tells the whole story."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness import leftovers
from harness.identity import Identity

from .live import Told, settle

OWNER = """
import anyio, sys, lastout
async def main():
    async with lastout.open_process(
        ["sh", "-c", "setsid sleep 60 & echo up; sleep 60"], record=sys.argv[1]
    ) as process:
        print("up", flush=True)
        await process.wait()
anyio.run(main)
"""


@pytest.mark.parametrize("delay_ms", [None, 0, 20, 60, 120, 200, 300, 450])
def test_owner_killed_at_any_moment(
    tmp_path: Path, delay_ms: int | None, nothing_left: set[Identity]
) -> None:
    path = tmp_path / "r.jsonl"
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(path)], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    if delay_ms is None:
        assert owner.stdout.readline() == b"up\n"
    else:
        # The moment is what varies here; nothing waits for it to be enough.
        time.sleep(delay_ms / 1000)
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    settle(nothing_left)
    assert not leftovers.living(nothing_left)
    if not path.exists() or not path.read_bytes():
        assert delay_ms is not None, "killed before anything was written: nothing was started"
        return
    told = Told(owner.returncode, path)
    kinds = told.kinds()
    if "started" not in kinds:
        # Not even a supervisor: the record says that nobody knows, or that nothing was started.
        assert {"start-not-known", "not-started"} & set(kinds)
        return
    assert {"root-killed", "root-exited"} & set(kinds)
    # Its pipe, its socket and its life end at once; whichever was seen first began the stop.
    triggers = ("owner-died", "owner-hung-up", "stdin-ended")
    assert told.claim("stop").facts["trigger"] in triggers
    assert "tree-gone" in kinds
    assert not {"lines-missing", "unreadable", "no-end"} & set(kinds)


def test_a_full_disk_delays_no_stop_and_the_gap_is_named(tmp_path: Path) -> None:
    """/dev/full takes no line; a record on it must cost the stop nothing."""
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(small)], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("no file system of one page can be mounted here")
    try:
        path = small / "r.jsonl"
        path.write_bytes(b"x" * 3000 + b"\n")
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "lastout", "run", "--record", str(path), "--timeout", "0.3",
             "--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8; do setsid sleep 60 & done; wait"],
            capture_output=True, timeout=30,
        )  # fmt: skip
        assert done.returncode == 124
        assert time.monotonic() - began < 5.5 + 0.5 + 2
        told = Told(done.returncode, path)
        assert {"dropped", "no-end", "lines-missing", "unreadable"} & set(told.kinds())
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_torn_last_line_costs_that_line_only(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    subprocess.run(
        [sys.executable, "-m", "lastout", "run", "--record", str(path), "--", "true"], check=True
    )
    whole = Told(0, path)
    assert "no-end" not in whole.kinds()
    os.truncate(path, path.stat().st_size - 20)
    torn = Told(0, path)
    assert {"no-end", "unreadable"} <= set(torn.kinds())
    assert "started" in torn.kinds()
