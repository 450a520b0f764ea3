"""A job whose runner is our child: it ends with us, by whatever we end.

The kernel tells the runner of our death (PR_SET_PDEATHSIG), so nothing has to be arranged before
it. Should the runner be killed too, its supervisor sees its owner die.
"""

from __future__ import annotations

import os
import subprocess
from typing import Final, Literal

import anyio

from lastout.jobs.attached import prepare, start
from lastout.jobs.job import Job
from lastout.jobs.spec import Kind
from lastout.jobs.store import Jobs
from lastout.mcp.threads import in_thread

__all__ = ["BOUND", "Held"]

BOUND: Final = 10.0
"""Seconds: how long the end of a job is waited for; it goes on by itself after that."""


class Held:
    """One such job."""

    def __init__(self, job: Job, runner: subprocess.Popen[bytes]) -> None:
        self.job = job
        self._runner = runner

    @classmethod
    async def start(cls, store: Jobs, work: Kind) -> Held:
        """Write the job down, then start its runner; not to be cancelled between the two."""
        prepared = await in_thread(prepare, store.state, work)
        # Not in a thread: at its end the runner would be told of our death.
        return cls(prepared.job, start(prepared))

    async def end(self, reason: Literal["abort", "shutdown"], by: str) -> None:
        """Cancel it, and wait until its runner has published the result and is gone."""
        if self._runner.poll() is None:
            await in_thread(self.job.cancel, reason, by)
            with anyio.move_on_after(BOUND):
                await self.gone()

    async def gone(self) -> None:
        """Until its runner is gone."""
        if self._runner.poll() is not None:
            return
        fd = os.pidfd_open(self._runner.pid)
        try:
            await anyio.wait_readable(fd)
        finally:
            anyio.notify_closing(fd)
            os.close(fd)
        self._runner.poll()
