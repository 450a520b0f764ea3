"""The jobs of a state directory: submit, find, list."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lastout.jobs import door, layout, queue, reading, route, sentences
from lastout.jobs.errors import NoSuchJob
from lastout.jobs.job import Job
from lastout.jobs.spec import AgentTurn, Kind
from lastout.jobs.status import State, Status
from lastout.state import locate

if TYPE_CHECKING:
    from lastout.jobs.pruning import Pruned
    from lastout.jobs.recovered import Recovered

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

        Raises NameTaken, NoRoute, NoSuchJob (for what it continues), ValueError or OSError; then
        nothing was written.
        """
        from lastout.jobs.submitting import submit

        if isinstance(work, AgentTurn):
            from lastout.jobs.turns_open import checked

            if work.continues is not None:
                work = replace(work, continues=self.get(work.continues).id)
            work = checked(self.state, work)
        return Job(self.state, submit(self.state, work))

    def get(self, word: str) -> Job:
        """A job by its id, its name (the newest of that name), or the beginning of an id.

        Raises NoSuchJob.
        """
        from lastout.jobs.submitting import named

        if layout.is_id(word):
            if os.path.isdir(layout.job_directory(self.state, word)):
                return Job(self.state, word)
            raise NoSuchJob(sentences.no_such_job(word))
        job = named(self.state, word)
        if job is not None and os.path.isdir(layout.job_directory(self.state, job)):
            return Job(self.state, job)
        found = [one for one in self.ids() if one.startswith(word)] if word else []
        if len(found) > 1:
            raise NoSuchJob(sentences.too_many(word, found))
        if not found:
            raise NoSuchJob(sentences.no_such_job(word))
        return Job(self.state, found[0])

    def list(
        self, by: str | None = None, states: Iterable[State] | None = None
    ) -> Sequence[Status]:
        """Every job, the newest last."""
        with contextlib.suppress(OSError):
            route.start_runners(self.state)  # where something was left behind
        wanted = None if states is None else frozenset(states)
        places = queue.places(self.state)
        found = []
        for job in self.ids():
            try:
                status = reading.status(self.state, job, places)
            except NoSuchJob:
                continue  # it was removed meanwhile
            if (by is None or status.by == by) and (wanted is None or status.state in wanted):
                found.append(status)
        return sorted(found, key=lambda status: (status.queued_at or status.id, status.id))

    def ids(self) -> Iterator[str]:
        """Every id, in no order, without reading a job."""
        with contextlib.suppress(FileNotFoundError), os.scandir(self.directory) as entries:
            for entry in entries:
                if layout.is_id(entry.name):
                    yield entry.name

    @property
    def directory(self) -> str:
        """Where the jobs are; a change of the list is a change of this directory (inotify)."""
        return layout.jobs_directory(self.state)

    @property
    def limit(self) -> int:
        """How many run at once."""
        return door.limit(self.state)

    def set_limit(self, number: int) -> None:
        """Change how many run at once, for every caller; what runs is left alone.

        Raises ValueError, OSError.
        """
        door.set_limit(self.state, number)
        route.start_runners(self.state)

    def prune(
        self,
        older_than: float | None = None,
        keep: int | None = None,
        *,
        untaken: bool = False,
        dry_run: bool = False,
    ) -> Pruned:
        """Delete what ended more than `older_than` seconds ago, and all but the newest `keep`.

        Never deleted: what has not ended, and, unless `untaken`, what has a result that nobody has
        taken. With `dry_run` nothing is. Raises ValueError without a limit.
        """
        from lastout.jobs.pruning import prune

        return prune(self, older_than, keep, untaken=untaken, dry_run=dry_run)

    def recover(self) -> Sequence[Recovered]:
        """End what lost its runner, publish what became of it, and start runners that are due."""

        from lastout.jobs import recovered

        found = recovered.recover(self.state)
        route.start_runners(self.state)
        return found
