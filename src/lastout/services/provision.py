"""What the owner alone does with a service: provision it, replace it, forget it."""

from __future__ import annotations

import contextlib
import getpass
import os
import secrets
import shutil
from collections.abc import Mapping

import msgspec

from lastout.above import run_above
from lastout.durable import sync_directory
from lastout.graces import resolve
from lastout.services import activation as activations
from lastout.services import layout, sentences, steps, systemd
from lastout.services.definition import Definition, account_of, load, store, token_digest
from lastout.services.errors import AlreadyRunning, NameTaken, NoRoute, NotItsOwner, ServiceError
from lastout.services.steps import Found, State
from lastout.supervisor import seconds

__all__ = ["add", "environment", "live", "owner_asks", "remove", "umask", "user_name"]

_BASE_ENV = ("PATH", "LANG", "LC_ALL", "TZ")


def add(state: str, wanted: Definition, *, replacing: bool, token: str | None) -> str:
    """Write a definition down; the owner's token. Raises what `Services.add` raises."""
    name = wanted.name
    before = load(state, name) if name in layout.names(state) else None
    owner_asks("adding a service", before, token)
    if before is not None and not replacing:
        raise NameTaken(sentences.taken(name))
    _check(wanted)
    token = secrets.token_hex(16) if before is None or token is None else token
    definition = msgspec.structs.replace(wanted, token_sha256=token_digest(token))
    layout.make(state)
    fresh = not os.path.isdir(layout.service_directory(state, name))
    layout.make(state, name)
    try:
        with layout.alone(state, name):
            if before is None and name in layout.names(state):
                raise NameTaken(sentences.taken(name))  # somebody was faster
            if before is not None and before.manager != definition.manager:
                _refuse_live(state, name)
                _unlink(state, before)
            if definition.manager != "lastout":
                systemd.install(state, definition)
            store(state, definition)
            sync_directory(layout.services_directory(state))
            sync_directory(state)
    except NameTaken:
        raise
    except BaseException:
        if fresh:
            shutil.rmtree(layout.service_directory(state, name), ignore_errors=True)
        raise
    return token


def remove(state: str, name: str, token: str | None) -> None:
    """Forget it. Raises what `Services.remove` raises."""
    definition = load(state, name)
    owner_asks("removing a service", definition, token)
    with layout.alone(state, name):
        _refuse_live(state, name)
        _unlink(state, definition)
        directory = layout.service_directory(state, name)
        # First the file that makes it a service: a removal that is cut short leaves no half one.
        os.unlink(os.path.join(directory, "definition.json"))
        shutil.rmtree(directory, ignore_errors=True)
        sync_directory(layout.services_directory(state))


def live(state: str, name: str) -> Found | None:
    """The activation that is not over. The steps' lock is held."""
    for one in activations.open_ones(state, name):
        found = steps.settle(state, one)
        if found.state is not State.ENDED:
            return found
    return None


def owner_asks(what: str, definition: Definition | None, token: str | None) -> None:
    """Members of a run are not the owner, unless they have its token. Raises NotItsOwner."""
    if token is not None and definition is not None:
        if not secrets.compare_digest(token_digest(token), definition.token_sha256):
            raise NotItsOwner(sentences.WRONG_TOKEN)
        return
    run = run_above()
    if run is not None:
        raise NotItsOwner(sentences.member_asks(what, run, token=definition is not None))


def environment(named: Mapping[str, str]) -> dict[str, str]:
    """The little that is taken from this process, below what the owner named."""
    return {key: os.environ[key] for key in _BASE_ENV if key in os.environ} | dict(named)


def umask() -> int:
    """This process's file mode mask, read without touching it (proc_pid_status(5))."""
    with open("/proc/self/status", "rb") as file:
        for line in file:
            if line.startswith(b"Umask:"):
                return int(line[6:], 8)
    return 0o077


def user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def _refuse_live(state: str, name: str) -> None:
    found = live(state, name)
    if found is not None:
        one = found.activation.id
        raise AlreadyRunning(sentences.already_running(name, one), one)


def _check(definition: Definition) -> None:
    """Whatever can be known to fail is refused when it is provisioned, not when it is needed."""
    if definition.timeout_s is not None:
        seconds("the deadline", definition.timeout_s)
        if not definition.timeout_s:
            raise ValueError(sentences.NO_TIME)
    resolve(definition.budget)
    if definition.manager not in ("lastout", "systemd", "systemd-user"):
        raise ValueError(sentences.no_such("manager", definition.manager))
    if definition.contain not in ("subreaper", "cgroup", "pidns"):
        raise ValueError(sentences.no_such("tier", definition.contain))
    if definition.keep < 1:
        raise ValueError("at least 1 completed activation is kept")
    account_of(definition)
    if not os.path.isdir(definition.cwd):
        raise FileNotFoundError(2, "the service's directory is not there", definition.cwd)
    path = definition.env.get("PATH")
    program = definition.argv[0]
    found = shutil.which(
        os.path.join(definition.cwd, program) if "/" in program else program, path=path
    )
    if found is None:
        raise ServiceError(sentences.no_program(program, path))
    if definition.result is not None:
        place = os.path.dirname(definition.result)
        if not os.path.isdir(place):
            raise ServiceError(sentences.result_directory(definition.result, "no such directory"))
        if os.path.isdir(definition.result):
            raise ServiceError(sentences.result_directory(definition.result, "it is a directory"))


def _unlink(state: str, definition: Definition) -> None:
    if definition.manager == "lastout":
        return
    if not systemd.available(definition.manager):
        raise NoRoute(sentences.no_manager(definition.manager))
    systemd.remove(state, definition)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(systemd.unit_path(state, definition.name))
