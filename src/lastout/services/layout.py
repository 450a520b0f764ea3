"""Where everything is below `<state>/services`, and the lock under which a service's steps are taken.

services/serve.lock                   flock of the service process, for as long as it lives
services/socket                       where it listens (0600)
services/NAME/definition.json         written by the owner
services/NAME/steps                   flock: one process at a time takes a step
services/NAME/locks/EPOCH             flock of the supervisor of one attempt
services/NAME/activations/ID/         activation.json, stop.json, output.log, completion.json,
                                      delivery.json
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Iterator
from typing import Final

from lastout.services import sentences
from lastout.services.errors import Busy, NoSuchService

__all__ = [
    "STEP_BOUND",
    "activation_directory",
    "activations_directory",
    "alone",
    "check_name",
    "locks_directory",
    "make",
    "names",
    "service_directory",
    "services_directory",
]

STEP_BOUND: Final = 10.0
"""Seconds: how long to wait for somebody else's step with the same service."""

_AGAIN_EVERY = 0.01  # flock has no wait with a bound
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,47}", re.ASCII)


def check_name(name: str) -> str:
    """The name itself. Raises ValueError for what is none."""
    if _NAME.fullmatch(name) is None:
        raise ValueError(sentences.bad_name(name))
    return name


def services_directory(state: str) -> str:
    """Below a state directory."""
    return os.path.join(state, "services")


def service_directory(state: str, name: str) -> str:
    """The directory of one service."""
    return os.path.join(state, "services", check_name(name))


def activations_directory(state: str, name: str) -> str:
    """The activations of a service."""
    return os.path.join(service_directory(state, name), "activations")


def activation_directory(state: str, name: str, activation: str) -> str:
    """One activation. Raises ValueError for what is no id."""
    if "/" in activation or activation.startswith("."):
        raise NoSuchService(sentences.no_activation(name, activation))
    return os.path.join(activations_directory(state, name), activation)


def locks_directory(state: str, name: str) -> str:
    """The lock files of the supervisors, one for each epoch."""
    return os.path.join(service_directory(state, name), "locks")


def make(state: str, name: str | None = None) -> str:
    """The services' directory, or one service's with what belongs in it, for us alone (0700)."""
    paths = [services_directory(state)]
    if name is not None:
        paths += [
            service_directory(state, name),
            activations_directory(state, name),
            locks_directory(state, name),
        ]
    for path in paths:
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
    return paths[min(1, len(paths) - 1)]


def names(state: str) -> list[str]:
    """Every service that has a definition, by name."""
    try:
        found = os.listdir(services_directory(state))
    except FileNotFoundError:
        return []
    return sorted(
        name
        for name in found
        if _NAME.fullmatch(name)
        and os.path.exists(os.path.join(services_directory(state), name, "definition.json"))
    )


@contextlib.contextmanager
def alone(state: str, name: str, seconds: float = STEP_BOUND) -> Iterator[None]:
    """Take a step with a service, one process at a time; the lock ends with its holder.

    Raises NoSuchService, and Busy when somebody else's step is not over in time.
    """
    due = time.monotonic() + seconds
    while True:
        fd = _open_steps(state, name)
        try:
            while not _locked(fd):
                if time.monotonic() >= due:
                    raise Busy(sentences.busy(name, seconds))
                time.sleep(_AGAIN_EVERY)
            # The service may have been removed meanwhile, and another made with a file of its own.
            if _is_there(fd, state, name):
                yield
                return
        finally:
            os.close(fd)


def _open_steps(state: str, name: str) -> int:
    path = os.path.join(service_directory(state, name), "steps")
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileNotFoundError:
        raise NoSuchService(sentences.no_service(name)) from None


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_there(fd: int, state: str, name: str) -> bool:
    try:
        found = os.stat(os.path.join(service_directory(state, name), "steps"))
    except FileNotFoundError:
        return False
    return os.path.samestat(found, os.fstat(fd))
