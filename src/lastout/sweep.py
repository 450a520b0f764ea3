"""Killing everything below the supervisors, round after round, until nothing is alive."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Sequence
from typing import Any

from lastout import tree
from lastout.identity import Alive, IdentityUnknown, ProcessIdentity, open_pidfd, still_alive
from lastout.pause import Pause
from lastout.proctable import children, read_stat
from lastout.tier import NONE, Tier
from lastout.tree import Member

__all__ = ["Sweep"]

_BETWEEN_ROUNDS_MS = 5
_STOP_FIRST_AFTER = 4  # rounds; a bomb of forks is held still before it is killed


class Sweep:
    """One forced step's kills. Everything it found out is in its attributes."""

    def __init__(
        self,
        root: ProcessIdentity,
        writer: ProcessIdentity | None,
        keeper: ProcessIdentity,
        supervisors: Sequence[ProcessIdentity],
        pause: Pause,
        tier: Tier = NONE,
        inherited: int | None = None,
    ) -> None:
        self._root, self._writer, self._keeper = root, writer, keeper
        self._supervisors = tuple(supervisors)
        self._pause = pause
        self._tier = tier
        self._inherited = inherited
        self.rounds = 0
        self._signalled: dict[tuple[int, int], dict[str, Any]] = {}
        self._unreached: set[tuple[int, int]] = set()
        self.remaining: list[dict[str, Any]] = []
        self.delivered_to_root = False
        self.stranger = False
        """The root is alive and not below the supervisors that are said to be its own."""
        self.unverified = False
        """Somebody lives, in the root's group or below the front, and nobody can say whose it is."""
        self.why: str | None = None

    @property
    def signalled(self) -> list[dict[str, Any]]:
        """Who was signalled, each once, with what came of it."""
        return list(self._signalled.values())

    @property
    def refused(self) -> bool:
        """Whether a signal to somebody of the run was not permitted."""
        return any(one["result"] != "delivered" for one in self._signalled.values())

    @property
    def undelivered(self) -> bool:
        """Whether somebody who was found has got no SIGKILL: refused, or alive and not signalled."""
        return self.refused or bool(self._unreached)

    def run(self, due: float) -> bool:
        """Kill until `due` (monotonic seconds). True: everything below the supervisors is dead,
        seen while they were alive. Without supervisors there is no such proof."""
        if self._supervisors and not self._root_is_below():
            self.stranger, self.why = True, "the root is not below the supervisors"
            return False
        quiet = 0
        while True:
            self._pause.check()
            members = self._members()
            alive = [member for member in members if not member.dead]
            self._unreached = {(one.pid, one.stat.start) for one in alive} - set(self._signalled)
            if not alive:
                quiet += 1
                # Twice: a listing can miss what changes parents in that moment.
                if quiet == 2:
                    return not self.unverified and self._proven()
                continue
            quiet = 0
            self.remaining = [member.to_json() for member in alive]
            if time.monotonic() >= due:
                self.why = "the bound was over"
                return False
            self._kill(alive, members)
            self.rounds += 1
            _wait_for_one(alive)

    def _root_is_below(self) -> bool:
        if still_alive(self._root) is not Alive.YES:
            return True
        tops = {one.pid for one in self._supervisors}
        pid = self._root.pid
        try:
            while pid > 1:
                pid = read_stat(pid).ppid
                if pid in tops:
                    return True
        except ProcessLookupError:
            # Something ended on the way: then the next listing has it below a supervisor.
            return still_alive(self._root) is not Alive.YES or self._listed()
        return False

    def _listed(self) -> bool:
        return any(member.pid == self._root.pid for member in self._members())

    def _members(self) -> list[Member]:
        """Everything below the keeper, or below the front once that has adopted the tree."""
        for one in reversed(self._supervisors):
            if still_alive(one) is not Alive.YES:
                continue
            try:
                return tree.below([one.pid], without=self._foreign(one))
            except ProcessLookupError:
                continue  # it ended in between
        return self._without_supervisors()

    def _without_supervisors(self) -> list[Member]:
        """Root, writer and the root's group; and whatever is below these."""
        found: dict[int, Member] = {}
        for one in (self._root, self._writer):
            if one is not None and still_alive(one) is Alive.YES:
                found[one.pid] = Member(one.pid, read_stat(one.pid))
        for pid in self._tier.pids():
            with contextlib.suppress(ProcessLookupError):
                found[pid] = Member(pid, read_stat(pid))
        group = tree.group_alive(self._root)
        self.unverified = group is None
        for member in group or ():
            found[member.pid] = member
        for pid in list(found):
            try:
                found.update((member.pid, member) for member in tree.below([pid]))
            except ProcessLookupError:
                continue
        return list(found.values())

    def _foreign(self, top: ProcessIdentity) -> set[int]:
        """Children that the front had before it became a supervisor: they are none of the run."""
        if top == self._keeper or self._inherited == 0:
            return set()
        named = {one.pid for one in (self._root, self._writer) if one is not None}
        younger = {
            pid: tree.started_after(pid, self._keeper) for pid in set(children(top.pid)) - named
        }
        older = {pid for pid, known in younger.items() if known is False}
        # Of the keeper's own clock tick, where there is no pidfs to tell (before Linux 6.9).
        unsure = {pid for pid, known in younger.items() if known is None and _exists(pid)}
        if self._inherited is not None and len(older) >= self._inherited:
            unsure.clear()  # all that were inherited are found: these are not
        self.unverified = bool(unsure)
        return older | unsure

    def _kill(self, alive: list[Member], members: list[Member]) -> None:
        parents = {member.pid for member in members} | {one.pid for one in self._supervisors}
        if not self._supervisors:
            parents |= {member.stat.ppid for member in members} | {1}
        newest_first = sorted(alive, key=lambda member: -member.stat.start)
        if self.rounds >= _STOP_FIRST_AFTER:
            for member in newest_first:
                tree.send(member, signal.SIGSTOP, parents=parents)
        # The root by itself first: with its keeper running, its group's kill is not seen to reach it.
        for member in newest_first:
            if member.pid == self._root.pid:
                self._note(member, tree.send(member, signal.SIGKILL, parents=parents))
        self._tier.kill()
        self._kill_root_group()
        for member in newest_first:
            if member.pid != self._root.pid:
                self._note(member, tree.send(member, signal.SIGKILL, parents=parents))

    def _kill_root_group(self) -> None:
        """The root's own group at once, also when the root is reaped and others live in it."""
        try:
            fd = open_pidfd(self._root)
        except (OSError, IdentityUnknown):
            return
        try:
            tree.signal_group(fd, signal.SIGKILL)
        except OSError:
            pass  # it leads none, or the kernel is older than 6.9: the members follow one by one
        finally:
            os.close(fd)

    def _note(self, member: Member, result: str) -> None:
        self.delivered_to_root |= result == "delivered" and member.pid == self._root.pid
        if result != "gone":
            self._signalled[member.pid, member.stat.start] = {**member.to_json(), "result": result}

    def _proven(self) -> bool:
        """Nothing was seen below them: a proof if they were there to adopt it all the while."""
        self.remaining = []
        return any(still_alive(one) is Alive.YES for one in self._supervisors)


def _exists(pid: int) -> bool:
    try:
        read_stat(pid)
    except ProcessLookupError:
        return False
    return True


def _wait_for_one(alive: Sequence[Member]) -> None:
    """Until one of those that were killed is dead, or a moment is over."""
    for member in reversed(alive):
        try:
            fd = os.pidfd_open(member.pid)
        except OSError:
            return
        try:
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            poll.poll(_BETWEEN_ROUNDS_MS)
            return
        finally:
            os.close(fd)
