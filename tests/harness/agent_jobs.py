"""Agents' jobs of one test: submitted for real, in runners of their own, and gone at its end."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import leftovers
from harness.jobs import runners_end
from lastout import jobs
from lastout.identity import Alive, still_alive
from lastout.jobs.feed import FeedEvent
from lastout.jobs.reading import final

BOUND = 60.0
"""Seconds. Nothing in these tests takes so long, on whatever machine."""


class AgentJobs:
    """A state directory with jobs in it."""

    def __init__(self, directory: Path) -> None:
        self._before = leftovers.present()
        self.directory = directory
        self.state = directory / "state"
        self.store = jobs.open_jobs(self.state)
        self.up = directory / "up"
        os.mkfifo(self.up)
        self._submitted: list[jobs.Job] = []

    def submit(self, prompt: str, agent: str = "scripted", **more: Any) -> jobs.Job:
        """A job; `keep` is 0 where nothing is said, so that it ends with its turn."""
        given = {"cwd": str(self.directory), "keep": 0.0, **more}
        job = self.store.submit(jobs.AgentTurn(agent=agent, prompt=prompt, **given))
        self._submitted.append(job)
        return job

    def wait(self, job: jobs.Job, turn: int | None = None) -> jobs.Result:
        return job.wait(BOUND, turn)

    def ended(self, job: jobs.Job) -> jobs.Result:
        """The last result of a job, when there will be no more."""
        for _ in job.follow_blocking(timeout=BOUND):
            pass
        found = final(str(self.state), job.id)
        assert found is not None
        return found

    def ended_by_cancel(self, job: jobs.Job) -> jobs.Result:
        """Cancel it, and wait for its end."""
        job.cancel(by="the test")
        return self.ended(job)

    def until(
        self, job: jobs.Job, wanted: Callable[[FeedEvent], bool], after: int = 0
    ) -> FeedEvent:
        """The first event of the feed that is wanted."""
        for event in job.follow_blocking(after, timeout=BOUND):
            if wanted(event):
                return event
        raise AssertionError(f"it did not come: {job.feed()[-5:]}")

    def wait_up(self) -> None:
        """Until a tool says in the FIFO `up` that it runs."""
        said = threading.Event()

        def read() -> None:
            with open(self.up) as fifo:
                fifo.read()
            said.set()

        threading.Thread(target=read, daemon=True).start()
        if not said.wait(BOUND):
            raise AssertionError("no tool said that it runs")

    def lines(self, run: str) -> list[dict[str, Any]]:
        """A run's record."""
        path = self.state / "runs" / run[:8] / f"{run}.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines() if line]

    def transcript(self, conversation: str | None) -> list[str]:
        """What the user has said to the scripted agent; fails when two writers have forked it."""
        name = f"rollout-{conversation}.jsonl"
        path = self.state / "scripted" / "sessions" / "0000" / "00" / "00" / name
        entries = [json.loads(line) for line in path.read_text().splitlines()]
        parents = [entry["parent"] for entry in entries]
        assert parents == [None, *(entry["id"] for entry in entries)][: len(parents)], "forked"
        return [entry["text"] for entry in entries if entry["role"] == "user"]

    def close(self) -> None:
        """End all that has not ended, and wait for the runners."""
        there = [job for job in self._submitted if os.path.isdir(job.directory)]
        for job in there:
            job.cancel(by="the end of the test", grace=0)
        for job in there:
            self.ended(job)
        runners_end(str(self.state), self._before)


def all_gone(result: jobs.Result) -> bool:
    """Whether everybody that a result names as stopped is proven dead."""
    return all(still_alive(one.identity) is Alive.NO for one in result.stopped)


def of_kind(events: list[FeedEvent], kind: type[Any]) -> list[Any]:
    """The events of one kind."""
    return [event for event in events if isinstance(event, kind)]
