"""What a caller of services can be told. Each says what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lastout.errors import LastoutError

if TYPE_CHECKING:
    from lastout.services.store import Begun

__all__ = [
    "AlreadyRunning",
    "Busy",
    "NameTaken",
    "NewerDefinition",
    "NoRoute",
    "NoSuchService",
    "NotItsOwner",
    "NotRunning",
    "ServiceError",
    "StillWaiting",
]


class ServiceError(LastoutError):
    """The base of what goes wrong with services. The text is one sentence for people."""


class NoSuchService(ServiceError, LookupError):
    """No service, or no activation of it, has this name."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else "there is no such service"


class NameTaken(ServiceError):
    """A service of this name is there already; it was left as it is."""


class NewerDefinition(ServiceError):
    """A later version of lastout has written this file: it is left as it is."""


class NoRoute(ServiceError):
    """Nobody outside of the caller's tree is there to start the work; nothing was written."""


class NotItsOwner(ServiceError):
    """A member of a run asked for what is the owner's alone; nothing was changed."""


class AlreadyRunning(ServiceError):
    """An activation is under way. `activation` is its id."""

    def __init__(self, message: str, activation: str) -> None:
        super().__init__(message)
        self.activation = activation


class NotRunning(ServiceError):
    """No activation is under way."""


class StillWaiting(ServiceError):
    """The activation has not been completed yet; it goes on, or waits for its service process.

    `begun` says which, where the same call has triggered it.
    """

    begun: Begun | None = None


class Busy(ServiceError):
    """Somebody else is taking a step with this service and does not finish; ask again."""
