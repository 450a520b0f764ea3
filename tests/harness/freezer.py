"""Processes that cannot be killed now: a cgroup v1 freezer holds even SIGKILL back until it thaws."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_MOUNT = Path("/sys/fs/cgroup/freezer")


class Freezer:
    """One group; what is put into it freezes."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def freeze(self, pid: int) -> None:
        (self._path / "cgroup.procs").write_text(str(pid))
        (self._path / "freezer.state").write_text("FROZEN")

    def thaw(self) -> None:
        (self._path / "freezer.state").write_text("THAWED")


@contextmanager
def freezer() -> Iterator[Freezer]:
    """A fresh group, thawed and removed at the end."""
    path = _MOUNT / f"lastout-test-{os.getpid()}-{secrets.token_hex(3)}"
    try:
        path.mkdir()
    except OSError as error:
        pytest.skip(f"needs a writable cgroup v1 freezer: {error}")
    made = Freezer(path)
    try:
        yield made
    finally:
        made.thaw()
        for pid in (path / "cgroup.procs").read_text().split():
            try:
                (_MOUNT / "cgroup.procs").write_text(pid)
            except ProcessLookupError:
                pass
        path.rmdir()
