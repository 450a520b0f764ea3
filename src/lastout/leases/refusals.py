"""Why a lease was refused, as errors that say how to get out of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lastout.errors import LastoutError

if TYPE_CHECKING:
    from lastout.identity import ProcessIdentity
    from lastout.leases.model import Lease
    from lastout.verdict import Verdict

__all__ = [
    "Fenced",
    "Held",
    "IdentityIncomplete",
    "LeaseError",
    "LeaseUnproven",
    "NotInOrder",
    "ReasonMissing",
    "StoreDamaged",
    "StoreReadOnly",
    "StoreUnusable",
]


class LeaseError(LastoutError):
    """The base of what can go wrong with a lease."""


class Held(LeaseError):
    """Somebody else has the key; `lease` says who."""

    def __init__(self, lease: Lease) -> None:
        super().__init__(lease)
        self.lease = lease

    def __str__(self) -> str:
        held = self.lease.holder
        if self.lease.state == "unproven" and self.lease.verdict is not None:
            return unproven_sentence(self.lease.key, self.lease.verdict)
        who = f"run {held.run}" if held else "somebody"
        if held and held.root:
            who += f" (pid {held.root.pid})"
        owner = f", owned by pid {held.owner.pid}" if held and held.owner else ""
        return (
            f"{self.lease.key!r} is held by {who}{owner} since {self.lease.since.time}; "
            f"wait for it, or stop it: lastout stop {_shell(self.lease.key)}"
        )


class LeaseUnproven(Held):
    """The earlier agent could not be stopped, and nothing was started."""

    def __init__(self, lease: Lease, verdict: Verdict) -> None:
        super().__init__(lease)
        self.verdict = verdict

    def __str__(self) -> str:
        return unproven_sentence(self.lease.key, self.verdict)


class Fenced(LeaseError):
    """This report is of an epoch that is not the current one: it changes nothing."""

    def __init__(self, lease: Lease | None, epoch: int) -> None:
        super().__init__(lease, epoch)
        self.lease = lease
        self.epoch = epoch

    def __str__(self) -> str:
        if self.lease is None:
            return f"epoch {self.epoch} was never granted"
        return (
            f"{self.lease.key!r} is at epoch {self.lease.epoch} ({self.lease.state}); "
            f"epoch {self.epoch} has nothing to say there any more"
        )


class NotInOrder(LeaseError):
    """This step does not follow the state that the lease is in."""

    def __init__(self, step: str, lease: Lease) -> None:
        super().__init__(step, lease)
        self.step = step
        self.lease = lease

    def __str__(self) -> str:
        return f"{self.step} does not follow {self.lease.state} for {self.lease.key!r}"


class IdentityIncomplete(LeaseError):
    """A process of the run could not be told from a stranger later; stop the run again."""

    def __init__(self, name: str, identity: ProcessIdentity) -> None:
        super().__init__(name, identity)
        self.name = name
        self.identity = identity

    def __str__(self) -> str:
        return (
            f"the {self.name} (pid {self.identity.pid}) has no start time or boot id that could be "
            "read: the run must be stopped, it could not be recognised later"
        )


class ReasonMissing(LeaseError):
    """An operator who releases an unproven lease says why; that stays in the history."""


class StoreUnusable(LeaseError):
    """The lease store cannot be used where it is: what is wrong with the directory, by name."""


class StoreReadOnly(StoreUnusable):
    """The store was written by a newer version: it can be read, and nothing is changed."""


class StoreDamaged(StoreUnusable):
    """The store is damaged and there is no backup to restore it from; the file was kept."""


def unproven_sentence(key: str, verdict: Verdict) -> str:
    """Why the key is refused, and the ways out."""
    from lastout.verdict import SENTENCES

    word = _shell(key)
    return (
        f"the earlier agent of {key!r} could not be stopped "
        f"({SENTENCES.get(verdict.how, verdict.how)}); nothing was started. "
        f"Asking again tries once more, and so does: lastout recover {word}. When you know that it "
        f"is gone: lastout lease release {word} --reason TEXT"
    )


def _shell(key: str) -> str:
    import shlex

    return shlex.quote(key)
