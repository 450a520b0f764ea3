"""Jobs in a state directory of the test's own; after it every runner has ended by itself."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.agent_jobs import AgentJobs
from harness.identity import Identity
from harness.jobs import PATIENCE, Gate, runners_end
from lastout import jobs
from lastout.jobs import Jobs, Status


@pytest.fixture(params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(tmp_path: Path, nothing_left: set[Identity]) -> Iterator[Jobs]:
    """The jobs of a fresh state directory. What is still open after the test is cancelled."""
    made = jobs.open_jobs(tmp_path / "state")
    yield made
    for status in made.list():
        if not status.ended and status.problem is None:
            jobs.Job(made.state, status.id).cancel(grace=0)
            jobs.Job(made.state, status.id).wait(PATIENCE)
    runners_end(made.state, nothing_left)


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[AgentJobs]:
    """Agents' jobs in a state directory of their own."""
    made = AgentJobs(tmp_path)
    yield made
    made.close()


@pytest.fixture
def until(store: Jobs) -> Callable[..., Status]:
    """Wait for a job's status to be as a test wants it; by inotify."""
    from lastout.jobs.waiting import Waiting

    def wait(job: jobs.Job, wanted: Callable[[Status], object]) -> Status:
        with Waiting(job.directory) as waiting:
            while not wanted(status := job.status()):
                assert not status.ended, status
                waiting.wait_blocking(PATIENCE)
            return status

    return wait


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Callable[[], str]]:
    """A FIFO `said` in tmp_path: what a job's command writes there, line by line."""
    path = tmp_path / "said"
    os.mkfifo(path)
    # Opened for both, so that neither side waits for the other to be there.
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    with open(fd, "rb", buffering=0) as file:
        yield lambda: file.readline().decode().strip()


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    """A FIFO in tmp_path by its name, from which a job's command reads a line to go on; called, what
    it gave writes that line. Opened for both: nobody waits for the other side, and nothing is lost.
    """
    fds: list[int] = []

    def make(name: str = "go") -> Callable[[], object]:
        os.mkfifo(tmp_path / name)
        fd = os.open(tmp_path / name, os.O_RDWR | os.O_CLOEXEC)
        fds.append(fd)
        return functools.partial(os.write, fd, b"\n")

    yield make
    for fd in fds:
        os.close(fd)
