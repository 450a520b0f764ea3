"""What a caller of jobs can be told. Each says what to do next."""

from __future__ import annotations

from lastout.errors import LastoutError

__all__ = [
    "AlreadyTaken",
    "DamagedJob",
    "JobBusy",
    "JobEnded",
    "JobsError",
    "NameTaken",
    "NewerSpec",
    "NoResult",
    "NoRoute",
    "NoSuchJob",
    "NotQuestioned",
    "NotTaken",
    "OwnershipFailed",
]


class JobsError(LastoutError):
    """The base of what goes wrong with jobs. The text is one sentence for people."""


class NoSuchJob(JobsError, LookupError):
    """No job, or more than one, is meant by what was given."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else "there is no such job"


class DamagedJob(NoSuchJob):
    """A file of the job cannot be read: the text says which. All of it is left where it is."""


class NameTaken(JobsError):
    """A job that has not ended has this name; nothing was written. `job` is its id."""

    def __init__(self, message: str, job: str) -> None:
        super().__init__(message)
        self.job = job


class NoRoute(JobsError):
    """The caller is a member of a run, and nobody outside it is there to start the job; nothing was
    written."""


class NewerSpec(JobsError):
    """A later version of lastout has written this job: it is left as it is."""


class JobEnded(JobsError):
    """The job has ended and takes no more messages, answers or cancels."""


class JobBusy(JobsError):
    """The job has not ended: it cannot be removed."""


class NotTaken(JobsError):
    """The job's result has not been taken yet: it is kept."""


class NoResult(JobsError):
    """No result of this turn has been published yet."""


class AlreadyTaken(JobsError):
    """Somebody else has taken this result. `taker` says who."""

    def __init__(self, message: str, taker: str) -> None:
        super().__init__(message)
        self.taker = taker


class NotQuestioned(JobsError):
    """The job is not waiting for an answer to this question."""


class OwnershipFailed(JobsError):
    """A runner could not make sure that what it was about to start would be stopped: nothing was
    started. The job's result says so too."""
