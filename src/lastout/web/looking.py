"""The processes of a run as they are now, for a run that somebody has open on a page.

Nobody tells an unprivileged process of the forks of others, so they are looked at: once a second,
once for all pages, and only while a page shows that run.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from lastout.evidence.events import Started
from lastout.identity import Alive, ProcessIdentity, boot_id, pidns, still_alive
from lastout.tree import Member, below
from lastout.web.board import Board
from lastout.web.following import Following
from lastout.web.plain import plain

__all__ = ["Looking", "Watched", "look"]

EVERY_S: Final = 1.0
_MOST: Final = 1000


@dataclass(slots=True)
class Watched:
    """What the pages that show a run are told of it; `version` grows with each change."""

    pages: int = 0
    version: int = 0
    size: int = 0
    tree: Any = None


class Looking:
    """The runs that pages have open."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._watched: dict[str, Watched] = {}
        self._task: asyncio.Task[None] | None = None
        self._now = asyncio.Event()
        self.following: Following | None = None

    def open(self, run: str) -> Watched:
        """A page shows this run from here on, until `leave`."""
        watched = self._watched.setdefault(run, Watched())
        watched.pages += 1
        self.grew(run)
        if self._task is None:
            self._task = asyncio.create_task(self._look())
        return watched

    def watched(self, run: str) -> Watched | None:
        """What is known of a run that is open."""
        return self._watched.get(run)

    def leave(self, run: str) -> None:
        """One page less."""
        watched = self._watched.get(run)
        if watched is not None:
            watched.pages -= 1
            if not watched.pages:
                del self._watched[run]
        if not self._watched and self._task is not None:
            self._task.cancel()
            self._task = None

    def grew(self, run: str) -> None:
        """The record of a run has changed."""
        watched = self._watched.get(run)
        if watched is None:
            return
        view = self.following.view(run) if self.following else None
        watched.size = view.offset if view else 0
        watched.version += 1
        self._board.changed.announce()
        self._now.set()

    async def _look(self) -> None:
        while True:
            self._now.clear()
            for run, watched in list(self._watched.items()):
                view = self.following.view(run) if self.following else None
                if view is None or view.started is None:
                    continue
                found = None if view.over else await asyncio.to_thread(look, view.started)
                if found != watched.tree:
                    watched.tree = found
                    watched.version += 1
                    self._board.changed.announce()
            try:
                async with asyncio.timeout(EVERY_S):
                    await self._now.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(EVERY_S / 10)  # a line is often followed by others


def look(started: Started) -> dict[str, Any]:
    """The living processes of a run. Without any, `why` says what stands in the way."""
    if started.boot_id and boot_id() and started.boot_id != boot_id():
        return {"members": [], "more": 0, "why": "boot"}
    if started.pidns and started.pidns != pidns():
        return {"members": [], "more": 0, "why": "namespace"}
    tops = []
    for role in ("front", "keeper"):
        one = getattr(started, role)
        whole = ProcessIdentity(one.pid, one.start, one.inode, started.boot_id, started.pidns)
        if still_alive(whole) is Alive.YES:
            tops.append((role, one.pid))
    if not tops:
        return {"members": [], "more": 0, "why": "gone"}
    # The keeper is below the front; it is a top of its own where the front is gone.
    pids = [pid for _, pid in tops]
    try:
        found = [one for one in below(pids[:1]) if not one.dead]
    except ProcessLookupError:
        return {"members": [], "more": 0, "why": "gone"}
    except OSError:
        return {"members": [], "more": 0, "why": "unreadable"}
    roles = {pid: role for role, pid in tops} | {started.root.pid: "root"}
    if started.init is not None:
        roles[started.init.pid] = "init"
    members = [_row(one, roles) for one in found[:_MOST]]
    if pids[0] == started.front.pid:
        members.insert(0, {"pid": pids[0], "parent": 0, "name": "", "role": "front"})
    else:
        members.insert(0, {"pid": pids[0], "parent": 0, "name": "", "role": "keeper"})
    return {"members": members, "more": max(0, len(found) - _MOST), "why": None}


def _row(one: Member, roles: dict[int, str]) -> dict[str, Any]:
    stat = one.stat
    return {
        "pid": one.pid,
        "parent": stat.ppid,
        "name": plain(stat.name),
        "state": stat.state,
        "group": stat.pgid,
        "session": stat.session,
        "role": roles.get(one.pid, "member"),
    }


def encode(run: str, watched: Watched) -> bytes:
    """What a page is told."""
    return msgspec.json.encode({"run": run, "size": watched.size, "tree": watched.tree})
