"""Whether records and locks have a place where they mean something."""

from __future__ import annotations

import os
from collections.abc import Iterator

from lastout.doctor.finding import Finding
from lastout.leases.filesystem import refuse_foreign, type_of
from lastout.leases.refusals import StoreUnusable
from lastout.state import locate

__all__ = ["check"]

_LITTLE = 50 * 1024 * 1024


def check(state: str | None) -> Iterator[Finding]:
    """The state directory: where, on what, with locks, writable, with room."""
    subject = "state directory"
    try:
        path = locate(state)
    except OSError as error:
        yield Finding(
            subject, "bad", str(error), "no records, no leases",
            "name another directory (--state DIR)",
        )  # fmt: skip
        return
    kind = type_of(path) or "an unknown file system"
    try:
        refuse_foreign(path)
    except StoreUnusable as error:
        yield Finding(
            subject, "bad", f"{path} on {kind}", str(error),
            "name a directory on a local file system (--state DIR)",
        )  # fmt: skip
        return
    if not os.access(path, os.W_OK | os.X_OK):
        yield Finding(
            subject, "bad", f"{path} cannot be written", "no records, no leases",
            "name another directory (--state DIR)",
        )  # fmt: skip
        return
    volatile = kind in ("tmpfs", "ramfs", "overlay")
    yield Finding(
        subject, "note" if volatile else "good", f"{path} on {kind}",
        "locks hold here, and records do not outlive this container or boot" if volatile
        else "locks hold here",
        "a directory on a disk (--state DIR), if records are to be kept" if volatile else "",
    )  # fmt: skip
    mode = os.stat(path).st_mode & 0o777
    if mode & 0o077:
        yield Finding(
            "its mode", "weak", f"{mode:04o}", "others can read command lines, or hold your locks",
            f"chmod 700 {path}",
        )  # fmt: skip
    room = os.statvfs(path)
    if (free := room.f_bavail * room.f_frsize) < _LITTLE:
        yield Finding(
            "its room", "weak", f"{free // 1024} KiB left",
            "a record that cannot be written ends without its last line: not known",
        )  # fmt: skip
