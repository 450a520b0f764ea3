"""One activation of a service: what was asked for, durable before anybody is told of it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from typing import Final

import msgspec

from lastout.durable import now, replace, sync_directory, sync_write
from lastout.services import layout, sentences
from lastout.services.definition import VERSION, Definition, read_versioned
from lastout.services.errors import NoSuchService

__all__ = [
    "Activation",
    "Asker",
    "Attempt",
    "StopAsked",
    "asked_to_stop",
    "create",
    "find",
    "ids",
    "is_completed",
    "load",
    "newest",
    "open_ones",
    "output_path",
    "prune",
    "save",
]

_ID = re.compile(r"([1-9][0-9]{0,8})-[a-z2-7]{6}", re.ASCII)
_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz234567"


class Asker(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who asked, as the socket's peer credentials told it. `run` is the run that it is a member of."""

    pid: int = 0
    start: int = 0
    uid: int | None = None
    run: str | None = None


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One start of the supervisor: more than one only when an earlier one never came to execute
    anything."""

    epoch: int
    run: str
    record: str
    begun_at: str
    boot_id: str = ""


class Activation(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be run, with a copy of the definition of that moment."""

    version: int
    id: str
    service: str
    definition: Definition
    requested_at: str
    requested_by: Asker
    request: str | None = None
    """The caller's own name for this request: a retry with it is the same activation."""
    attempts: tuple[Attempt, ...] = ()


class StopAsked(msgspec.Struct, frozen=True, kw_only=True):
    """The owner's word that the activation is to end."""

    version: int
    reason: str
    by: str
    at: str


def number_of(activation: str) -> int:
    """The count in an id; 0 for what is none."""
    match = _ID.fullmatch(activation)
    return int(match[1]) if match else 0


def ids(state: str, name: str) -> list[str]:
    """The activations of a service, the oldest first."""
    try:
        found = os.listdir(layout.activations_directory(state, name))
    except FileNotFoundError:
        return []
    return sorted(filter(number_of, found), key=number_of)


def load(state: str, name: str, activation: str) -> Activation:
    """Raises NoSuchService, NewerDefinition, ServiceError or OSError."""
    directory = layout.activation_directory(state, name, activation)
    try:
        return read_versioned(os.path.join(directory, "activation.json"), Activation)
    except FileNotFoundError:
        raise NoSuchService(sentences.no_activation(name, activation)) from None


def newest(state: str, name: str) -> Activation | None:
    """The last one that was asked for."""
    found = ids(state, name)
    return load(state, name, found[-1]) if found else None


def open_ones(state: str, name: str) -> list[Activation]:
    """Those without a completion record, the oldest first."""
    return [
        load(state, name, one) for one in ids(state, name) if not is_completed(state, name, one)
    ]


def find(state: str, name: str, request: str) -> Activation | None:
    """The activation that a request by this name made."""
    for one in reversed(ids(state, name)):
        found = load(state, name, one)
        if found.request == request:
            return found
    return None


def is_completed(state: str, name: str, activation: str) -> bool:
    """Whether its completion record is published."""
    directory = layout.activation_directory(state, name, activation)
    return os.path.exists(os.path.join(directory, "completion.json"))


def create(state: str, definition: Definition, by: Asker, request: str | None) -> Activation:
    """Write a new one down, durably and as a whole. The steps' lock is held. Raises OSError."""
    name = definition.name
    known = ids(state, name)
    count = (number_of(known[-1]) if known else 0) + 1
    word = "".join(_ALPHABET[byte & 31] for byte in os.urandom(6))
    made = Activation(
        version=VERSION,
        id=f"{count}-{word}",
        service=name,
        definition=definition,
        requested_at=now(),
        requested_by=by,
        request=request,
    )
    directory = layout.activation_directory(state, name, made.id)
    top = layout.activations_directory(state, name)
    fresh = os.path.join(top, ".new")
    shutil.rmtree(fresh, ignore_errors=True)  # of somebody who was killed while making one
    os.mkdir(fresh, 0o700)
    sync_write(os.path.join(fresh, "activation.json"), _encode(made))
    sync_directory(fresh)
    os.rename(fresh, directory)
    sync_directory(top)
    return made


def save(state: str, activation: Activation) -> None:
    """Write it again, with one more attempt. The steps' lock is held. Raises OSError."""
    directory = layout.activation_directory(state, activation.service, activation.id)
    replace(os.path.join(directory, "activation.json"), _encode(activation))


def asked_to_stop(state: str, activation: Activation) -> StopAsked | None:
    """What the owner said, where it said something."""
    directory = layout.activation_directory(state, activation.service, activation.id)
    try:
        return read_versioned(os.path.join(directory, "stop.json"), StopAsked)
    except FileNotFoundError:
        return None


def output_path(state: str, activation: Activation) -> str:
    """The file that has the work's stdout and stderr."""
    directory = layout.activation_directory(state, activation.service, activation.id)
    return os.path.join(directory, "output.log")


def prune(state: str, definition: Definition) -> None:
    """Remove the oldest completed activations above the number that is kept. The steps' lock is
    held; a result that is not delivered yet stays."""
    from lastout.services.delivery import is_due

    done = [one for one in ids(state, definition.name) if is_completed(state, definition.name, one)]
    for one in done[: max(0, len(done) - max(1, definition.keep))]:
        directory = layout.activation_directory(state, definition.name, one)
        with contextlib.suppress(OSError):
            if not is_due(directory):
                shutil.rmtree(directory)


def _encode(activation: Activation) -> bytes:
    return msgspec.json.format(msgspec.json.encode(activation))
