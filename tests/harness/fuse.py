"""A real FUSE file system, served by bindfs: what a remote home directory looks like."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

_MNT_DETACH = 2


@contextlib.contextmanager
def fuse(tmp_path: Path) -> Iterator[Path]:
    """The mount point; unmounted, and its server waited for, at the end."""
    program = shutil.which("bindfs")
    if program is None or not os.access("/dev/fuse", os.W_OK):
        pytest.skip("needs bindfs and /dev/fuse")
    behind, point = tmp_path / "behind", tmp_path / "mounted"
    behind.mkdir()
    point.mkdir()
    # It goes into the background when the mount is there; in the foreground nothing says when.
    done = subprocess.run([program, str(behind), str(point)], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot mount here: {done.stderr.decode().strip()}")
    server = _server(point)
    try:
        yield point
    finally:
        ctypes.CDLL(None, use_errno=True).umount2(os.fsencode(point), _MNT_DETACH)
        os.waitpid(server, 0)


def _server(point: Path) -> int:
    """The background process is a child of ours: the tests are a subreaper."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    for pid in map(int, children):
        if os.fsencode(point) in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
            return pid
    raise AssertionError("bindfs has no process")
