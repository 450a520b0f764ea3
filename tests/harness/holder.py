"""A keeper that no SIGCONT helps."""

from __future__ import annotations

import pytest

from harness.member import Member
from harness.run import Run
from harness.scene import Scene


def hold(scene: Scene, run: Run) -> Member:
    """Keeps the keeper in a ptrace stop: SIGCONT does not help, SIGKILL does."""
    popen = scene.start([*scene.program("hold"), str(run.keeper.pid)])
    scene.until(lambda: scene.all("holder") or popen.poll() is not None, "the holder holds")
    if popen.returncode is not None:
        pytest.skip("needs the right to trace its own processes")
    holder = scene.member("holder")
    scene.expect(holder)
    return holder
