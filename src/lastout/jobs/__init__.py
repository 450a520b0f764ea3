"""Background jobs: a command or an agent's turn that outlives whoever asked for it.

    from lastout import jobs

    store = jobs.open_jobs()
    job = store.submit(jobs.Command(["make", "test"], timeout=600))
    print(job.wait().failed)

Plain files below `<state>/jobs`; each job has a runner of its own. The names load when they are
used.
"""

from __future__ import annotations

from lastout.lazy import lazy

TYPE_CHECKING = False  # typing's own costs more to import than all of this
if TYPE_CHECKING:
    from lastout.jobs.errors import (
        AlreadyTaken,
        DamagedJob,
        JobBusy,
        JobEnded,
        JobsError,
        NameTaken,
        NewerSpec,
        NoResult,
        NoRoute,
        NoSuchJob,
        NotQuestioned,
        NotTaken,
        OwnershipFailed,
    )
    from lastout.jobs.feed import FeedEvent
    from lastout.jobs.job import Job
    from lastout.jobs.pruning import Pruned
    from lastout.jobs.recovered import Recovered, recover
    from lastout.jobs.result import HeldLock, Output, Process, Result
    from lastout.jobs.spec import AgentTurn, Command, Spec
    from lastout.jobs.status import Question, Status
    from lastout.jobs.store import Jobs, open_jobs

__all__ = [
    "AgentTurn",
    "AlreadyTaken",
    "Command",
    "DamagedJob",
    "FeedEvent",
    "HeldLock",
    "Job",
    "JobBusy",
    "JobEnded",
    "Jobs",
    "JobsError",
    "NameTaken",
    "NewerSpec",
    "NoResult",
    "NoRoute",
    "NoSuchJob",
    "NotQuestioned",
    "NotTaken",
    "Output",
    "OwnershipFailed",
    "Process",
    "Pruned",
    "Question",
    "Recovered",
    "Result",
    "Spec",
    "Status",
    "open_jobs",
    "recover",
]

_HOMES = {
    "AgentTurn": "spec",
    "AlreadyTaken": "errors",
    "Command": "spec",
    "DamagedJob": "errors",
    "FeedEvent": "feed",
    "HeldLock": "result",
    "Job": "job",
    "JobBusy": "errors",
    "JobEnded": "errors",
    "Jobs": "store",
    "JobsError": "errors",
    "NameTaken": "errors",
    "NewerSpec": "errors",
    "NoResult": "errors",
    "NoRoute": "errors",
    "NoSuchJob": "errors",
    "NotQuestioned": "errors",
    "NotTaken": "errors",
    "Output": "result",
    "OwnershipFailed": "errors",
    "Process": "result",
    "Pruned": "pruning",
    "Question": "status",
    "Recovered": "recovered",
    "Result": "result",
    "Spec": "spec",
    "Status": "status",
    "open_jobs": "store",
    "recover": "recovered",
}

__getattr__, __dir__ = lazy("lastout.jobs", _HOMES)
