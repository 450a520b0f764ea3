"""A job that somebody waits for: what to look at, whom to watch, and what to do when it stalls."""

from __future__ import annotations

import contextlib
import math
import os
import time
from typing import Self

from lastout.jobs import door, feed, layout, reading, recovered, route, sentences
from lastout.jobs.errors import NoResult, NoSuchJob
from lastout.jobs.result import Result
from lastout.jobs.waiting import Waiting

__all__ = ["Awaited"]

_LAST_EVENT = 1.0
"""Seconds: how long the feed's last line may come after the result, which is durable before it."""

_STALLED = 1.0
"""Seconds between two looks at a job that lost its runner and cannot be recovered from here, or
while somebody has a slot who has not said who he is (his starter was killed)."""


class Awaited:
    """Between a look (`result`, `ended`) and a wait nothing is missed."""

    def __init__(self, state: str, job: str, timeout: float | None) -> None:
        if timeout is not None and math.isnan(timeout):
            raise ValueError(f"timeout is a number of seconds, not {timeout}")
        self._state = state
        self._job = job
        self._timeout = timeout
        self._due = None if timeout is None else time.monotonic() + timeout
        self._directory = layout.job_directory(state, job)
        if not os.path.isdir(self._directory):
            raise NoSuchJob(sentences.no_such_job(job))
        self._waiting = Waiting(self._directory)
        self._last_seen_at: float | None = None
        self._stalled = False
        self._nameless = False
        self._tries = 0
        self._again_at = 0.0
        self._see_to_it()
        self.arm()

    def result(self, turn: int | None) -> Result | None:
        """The result that is waited for. Raises NoResult when it will never be."""
        self.arm()
        last = reading.final(self._state, self._job)
        turns = layout.result_turns(self._directory)
        if turn is not None:
            if turn in turns:
                return reading.result(self._state, self._job, turn)
            if last is not None:
                raise NoResult(sentences.no_result(self._job, turn, ended=True))
            return None
        if last is None:
            status = reading.status(self._state, self._job)
            if status.state != "idle" or status.waiting_messages or not turns:
                return None
        return reading.result(self._state, self._job, turns[-1])

    def ended(self) -> bool:
        """Whether the job has ended and its feed is complete."""
        self.arm()
        if reading.final(self._state, self._job) is None:
            return False
        now = time.monotonic()
        if self._last_seen_at is None:
            self._last_seen_at = now
        return now >= self._last_seen_at + _LAST_EVENT or self._feed_complete()

    def wait_blocking(self) -> None:
        """Wait until it is time to look again. Raises TimeoutError."""
        self._check()
        if not self._recover_due():
            self._waiting.wait_blocking(self._seconds())
            return
        self._stalled = recovered.recover_job(self._state, self._job) is None

    async def wait(self) -> None:
        """`wait_blocking` on a loop."""
        import anyio
        import anyio.to_thread

        self._check()
        if not self._recover_due():
            with anyio.move_on_after(self._seconds()):
                await self._waiting.wait()
            return
        found = await anyio.to_thread.run_sync(recovered.recover_job, self._state, self._job)
        self._stalled = found is None

    def close(self) -> None:
        """Wait for nothing any more."""
        self._waiting.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def arm(self) -> None:
        """Watch whoever has to do with the job now."""
        stored = reading.stored(self._state, self._job)
        self._nameless = False
        if stored is not None:
            self._waiting.watch([stored.runner])
            return
        # Whoever has a slot may be the one that takes this job next. One that has ended, or nobody
        # at all, means that a runner is due, and then it is that one who is to be watched.
        for _ in range(2):
            with door.door(self._state):
                runners = [slot.runner for slot in door.slots(self._state)]
            gone = bool(self._waiting.gone)
            self._waiting.watch(runners)
            if runners and not gone and not self._waiting.gone:
                break
            if time.monotonic() < self._again_at:
                self._nameless = True  # runners that cannot start are not started all the time
                return
            self._see_to_it()
            self._tries += 1
            self._again_at = time.monotonic() + min(_STALLED, 0.01 * 2**self._tries)
        self._nameless = not runners or None in runners

    def _recover_due(self) -> bool:
        """Whether the job's own runner is gone, and what it left is ours to see to."""
        if not self._waiting.gone or self._stalled:
            self._stalled = False
            return False
        return reading.stored(self._state, self._job) is not None

    def _seconds(self) -> float | None:
        left = None if self._due is None else self._due - time.monotonic()
        for seconds in (
            _LAST_EVENT if self._last_seen_at is not None else None,
            _STALLED if self._waiting.gone or self._nameless else None,
        ):
            if seconds is not None:
                left = seconds if left is None else min(left, seconds)
        return left

    def _check(self) -> None:
        if self._due is not None and time.monotonic() >= self._due:
            raise TimeoutError(sentences.still_running(self._job, self._timeout or 0.0))

    def _feed_complete(self) -> bool:
        """The last line, without reading all of them."""
        try:
            with open(os.path.join(self._directory, layout.FEED), "rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - 4096))
                tail = file.read().rsplit(b"\n", 2)
        except FileNotFoundError:
            return False
        if len(tail) < 2:
            return False
        with contextlib.suppress(ValueError):
            return isinstance(feed.decode(tail[-2]), feed.Ended)
        return False

    def _see_to_it(self) -> None:
        with contextlib.suppress(OSError):
            route.start_runners(self._state)
