"""What a service is, as its owner wrote it down: durable, and the only place that names a command."""

from __future__ import annotations

import contextlib
import grp
import hashlib
import os
import pwd
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from lastout.durable import replace
from lastout.services import layout, sentences
from lastout.services.errors import NewerDefinition, NoSuchService, ServiceError

__all__ = [
    "VERSION",
    "Account",
    "Definition",
    "account_of",
    "environment_of",
    "load",
    "read_versioned",
    "store",
    "token_digest",
]

VERSION: Final = 1
_T = TypeVar("_T")


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """One service. `timeout_s` is its deadline in seconds from the start, `result` the place for
    a copy of each completion record, `manager` who starts it (`lastout`, `systemd`,
    `systemd-user`)."""

    version: int
    name: str
    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str]
    manager: str = "lastout"
    user: str | None = None
    group: str | None = None
    timeout_s: float | None = None
    result: str | None = None
    budget: str = "default"
    contain: str = "subreaper"
    umask: int = 0o077
    keep: int = 20
    token_sha256: str = ""
    added_at: str = ""


@dataclass(frozen=True, slots=True)
class Account:
    """Who the work runs as. All None: as whoever starts it."""

    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] | None = None
    name: str = ""
    home: str = ""
    shell: str = ""


class _Version(msgspec.Struct):
    version: int


def read_versioned(path: str, kind: type[_T]) -> _T:
    """Read a file of ours. Raises FileNotFoundError, NewerDefinition, ServiceError when damaged."""
    with open(path, "rb") as file:
        data = file.read()
    try:
        version = msgspec.json.decode(data, type=_Version).version
        if version > VERSION:
            raise NewerDefinition(sentences.newer(path, version))
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ServiceError(sentences.damaged(path, error)) from error


def load(state: str, name: str) -> Definition:
    """Raises NoSuchService, NewerDefinition, ServiceError or OSError."""
    path = _path(state, name)
    try:
        return read_versioned(path, Definition)
    except FileNotFoundError:
        raise NoSuchService(sentences.no_service(name)) from None


def store(state: str, definition: Definition) -> None:
    """Write it, durably, as a whole or not at all. Raises OSError."""
    replace(_path(state, definition.name), msgspec.json.format(msgspec.json.encode(definition)))


def account_of(definition: Definition) -> Account:
    """The account that is meant, as the machine has it now. Raises ServiceError when it has not."""
    if definition.user is None and definition.group is None:
        found = None
        with contextlib.suppress(KeyError):
            found = pwd.getpwuid(os.getuid())
        if found is None:
            return Account()
        return Account(name=found.pw_name, home=found.pw_dir, shell=found.pw_shell)
    uid = os.getuid()
    try:
        user = pwd.getpwnam(definition.user) if definition.user else pwd.getpwuid(uid)
    except KeyError:
        raise ServiceError(sentences.no_account("user", definition.user or str(uid))) from None
    gid = user.pw_gid
    if definition.group is not None:
        try:
            gid = grp.getgrnam(definition.group).gr_gid
        except KeyError:
            raise ServiceError(sentences.no_account("group", definition.group)) from None
    told = Account(name=user.pw_name, home=user.pw_dir, shell=user.pw_shell)
    if uid != 0:
        if user.pw_uid != uid or gid != os.getgid():
            raise ServiceError(sentences.not_root(definition.group or user.pw_name))
        return told
    groups = tuple(sorted({gid, *os.getgrouplist(user.pw_name, gid)}))
    return Account(user.pw_uid, gid, groups, user.pw_name, user.pw_dir, user.pw_shell)


def environment_of(definition: Definition, account: Account, activation: str) -> dict[str, str]:
    """The whole environment of the work: nothing of whoever asked for it gets in."""
    base = {"HOME": account.home, "USER": account.name, "LOGNAME": account.name}
    base["SHELL"] = account.shell
    told = {"LASTOUT_SERVICE": definition.name, "LASTOUT_ACTIVATION": activation}
    return {name: value for name, value in base.items() if value} | definition.env | told


def token_digest(token: str) -> str:
    """What is kept of the owner's token."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def _path(state: str, name: str) -> str:
    return os.path.join(layout.service_directory(state, name), "definition.json")
