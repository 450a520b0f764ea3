"""The jobs of a state directory: submit, find, list."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from lastout.jobs.job import Job
from lastout.jobs.recovered import Recovered
from lastout.jobs.spec import Kind
from lastout.jobs.status import State, Status
from lastout.state import locate

__all__ = ["Jobs", "open_jobs"]


def open_jobs(state: str | os.PathLike[str] | None = None) -> Jobs:
    """The jobs of a state directory. Raises OSError where it cannot be used."""
    return Jobs(locate(state))


class Jobs:
    """Stateless: any number of them, in as many processes and threads as like."""

    def __init__(self, state: str) -> None:
        self.state = state

    def submit(self, work: Kind) -> Job:
        """Queue a job, durably, and see to it that somebody runs it.

        Raises NameTaken, NoRoute, ValueError or OSError; then nothing was written.
        """
        raise NotImplementedError

    def get(self, word: str) -> Job:
        """A job by its id, its name (the newest of that name), or the beginning of an id.

        Raises NoSuchJob.
        """
        raise NotImplementedError

    def list(self, by: str | None = None, states: Iterable[State] | None = None) -> list[Status]:
        """Every job, the newest last."""
        raise NotImplementedError

    def ids(self) -> Iterator[str]:
        """Every id, in no order, without reading a job."""
        raise NotImplementedError

    @property
    def directory(self) -> str:
        """Where the jobs are; a change of the list is a change of this directory (inotify)."""
        return os.path.join(self.state, "jobs")

    @property
    def limit(self) -> int:
        """How many run at once."""
        raise NotImplementedError

    def set_limit(self, number: int) -> None:
        """Change how many run at once, for every caller; what runs is left alone."""
        raise NotImplementedError

    def recover(self) -> list[Recovered]:
        """End what lost its runner, publish what became of it, and start runners that are due.

        Called by `submit`, `list`, `get` and every wait.
        """
        raise NotImplementedError
