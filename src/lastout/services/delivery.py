"""The copy of a completion record at the place that the definition names: once, whoever is killed.

The copy is written beside its place under a name of its own; `delivery.json` says so before it is
renamed into place. Whoever comes next finds the fresh file (not renamed yet: it goes on) or finds
it gone (renamed: delivered), so a reader that has taken the result never finds it a second time.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import msgspec

from lastout.durable import replace, sync_directory, sync_write
from lastout.services import layout, sentences
from lastout.services.activation import Activation
from lastout.services.completion import completion_path
from lastout.services.definition import VERSION, Account, account_of, read_versioned
from lastout.services.errors import ServiceError

__all__ = ["Delivery", "deliver", "is_due", "look"]


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """How far the copy is. `state` is `writing`, `renaming`, `done` or `failed`."""

    version: int
    state: str
    fresh: str = ""
    why: str = ""


def look(directory: str) -> Delivery | None:
    """What is known of an activation's copy."""
    try:
        return read_versioned(os.path.join(directory, "delivery.json"), Delivery)
    except (FileNotFoundError, ServiceError):
        return None


def is_due(directory: str) -> bool:
    """Whether a copy was begun, or failed, and is still to be made."""
    found = look(directory)
    return found is not None and found.state != "done"


def deliver(state: str, activation: Activation) -> Delivery | None:
    """Bring the copy to its place, or on its way from wherever it was left.

    None without a place. The steps' lock is held, the completion is published. Raises OSError when
    the state directory itself cannot be written; a place that cannot be is told, not raised.
    """
    place = activation.definition.result
    if place is None:
        return None
    directory = layout.activation_directory(state, activation.service, activation.id)
    before = look(directory)
    if before is not None and before.state == "done":
        return before
    with open(completion_path(state, activation.service, activation.id), "rb") as file:
        data = file.read()
    fresh = f"{place}.{activation.id}.new"
    try:
        with _as(account_of(activation.definition)):
            renamed = before is not None and before.state == "renaming" and not _there(fresh)
            if not renamed:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(fresh)
                sync_write(fresh, data)
                sync_directory(os.path.dirname(fresh))
    except (OSError, ServiceError) as error:
        return _note(directory, "failed", why=sentences.result_directory(place, error))
    if not renamed:
        _note(directory, "renaming", fresh=fresh)
        try:
            with _as(account_of(activation.definition)):
                os.rename(fresh, place)
                sync_directory(os.path.dirname(place))
        except (OSError, ServiceError) as error:
            return _note(directory, "failed", why=sentences.result_directory(place, error))
    return _note(directory, "done")


def _note(directory: str, state: str, fresh: str = "", why: str = "") -> Delivery:
    noted = Delivery(version=VERSION, state=state, fresh=fresh, why=why)
    if noted != look(directory):
        replace(os.path.join(directory, "delivery.json"), msgspec.json.encode(noted) + b"\n")
    return noted


def _there(path: str) -> bool:
    try:
        os.lstat(path)
    except FileNotFoundError:
        return False
    return True


@contextlib.contextmanager
def _as(account: Account) -> Iterator[None]:
    """Touch the file system as the work's own account: its directory may hold any link."""
    if account.uid is None or account.gid is None or os.geteuid() != 0:
        yield
        return
    groups = os.getgroups()
    gid = os.getegid()
    os.setgroups(account.groups or ())
    os.setegid(account.gid)
    os.seteuid(account.uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(gid)
        os.setgroups(groups)
