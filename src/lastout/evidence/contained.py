"""The line of a stronger tier that comes before anything is started."""

from __future__ import annotations

from lastout.evidence.line import Event, Identity

__all__ = ["Contained"]


class Contained(Event, frozen=True, kw_only=True, tag="contained"):
    """The cgroup of a run: without its inode while it is about to be made, then with it.

    Written before a keeper exists, so that a crash during the start leaves no directory that
    nobody knows of.
    """

    contain: str = ""
    cgroup: str | None = None
    cgroup_id: int | None = None
    front: Identity | None = None
    boot_id: str = ""
    pidns: int = 0
