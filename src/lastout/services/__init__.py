"""Services: work that must outlive the agent that asks for it.

    from lastout import services

    owner = services.open_services()
    owner.add("nightly", ["make", "report"], timeout=3600)      # by its owner, once
    begun = owner.start("nightly")                              # by anybody, by name alone
    print(owner.wait("nightly", begun.activation).failed)

Plain files below `<state>/services`. The names load when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lastout.lazy import lazy

if TYPE_CHECKING:
    from lastout.services.completion import Completion
    from lastout.services.definition import Definition
    from lastout.services.errors import (
        AlreadyRunning,
        NameTaken,
        NewerDefinition,
        NoRoute,
        NoSuchService,
        NotItsOwner,
        NotRunning,
        ServiceError,
        StillWaiting,
    )
    from lastout.services.server import Server
    from lastout.services.starter import request_runner, runner_route
    from lastout.services.store import Begun, Services, Status, open_services

__all__ = [
    "AlreadyRunning",
    "Begun",
    "Completion",
    "Definition",
    "NameTaken",
    "NewerDefinition",
    "NoRoute",
    "NoSuchService",
    "NotItsOwner",
    "NotRunning",
    "Server",
    "ServiceError",
    "Services",
    "Status",
    "StillWaiting",
    "open_services",
    "request_runner",
    "runner_route",
]

_HOMES = {
    "AlreadyRunning": "errors",
    "Begun": "store",
    "Completion": "completion",
    "Definition": "definition",
    "NameTaken": "errors",
    "NewerDefinition": "errors",
    "NoRoute": "errors",
    "NoSuchService": "errors",
    "NotItsOwner": "errors",
    "NotRunning": "errors",
    "Server": "server",
    "ServiceError": "errors",
    "Services": "store",
    "Status": "store",
    "StillWaiting": "errors",
    "open_services": "store",
    "request_runner": "starter",
    "runner_route": "starter",
}

__getattr__, __dir__ = lazy("lastout.services", _HOMES)
