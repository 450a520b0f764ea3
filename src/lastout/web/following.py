"""All runs of a state directory, kept up to date: each record is read on where it grew.

At the start the index tells which runs are not over, and the last ones that are; from then on the
kernel tells which record changed (inotify) and which supervisor ended (pidfds).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from lastout.evidence.find import directories, records_in
from lastout.evidence.index import Index, Row
from lastout.evidence.settled import SETTLES
from lastout.recovery.runs import unfinished
from lastout.recovery.supervisors import START_BOUND
from lastout.state import valid_run
from lastout.web.board import Board
from lastout.web.ends import Ends
from lastout.web.view import View, row_of

__all__ = ["RECENT", "Following"]

RECENT: Final = 200
"""So many runs that are over stay on the page; the others are found by asking for them."""

_TURN_S: Final = 0.02  # so long at most before others have their turn on the loop
_SUFFIX: Final = ".jsonl"


class Following:
    """The rows of the kind `runs`."""

    def __init__(self, state: str, board: Board, grew: Callable[[str], None]) -> None:
        """`grew` is called with the id of a run whose row or record changed."""
        self.state = state
        self._board = board
        self._grew = grew
        self._views: dict[str, View] = {}
        self._paths: dict[str, str] = {}
        self._over: OrderedDict[str, None] = OrderedDict()
        self._ends = Ends(self._died)
        self._dirty: OrderedDict[str, None] = OrderedDict()
        self._turn: asyncio.Handle | None = None
        self._caught_up = asyncio.Event()
        self._caught_up.set()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    # ---- the beginning ------------------------------------------------------------------------

    async def load(self) -> None:
        """Find the runs that are there. What changes meanwhile must be told by `touch` already."""
        ended, live = await asyncio.to_thread(self._known)
        for found in reversed(ended):
            if found.path not in self._views and valid_run(found.run):
                self._paths[found.run] = found.path
                self._board.put("runs", found.run, row_of(found))
                self._keep(found.run)
        for path in live:
            self.touch(path)
        await self.caught_up()

    def _known(self) -> tuple[list[Row], list[str]]:
        try:
            with Index(self.state) as index:
                index.refresh()
                live = [row.path for row in index.open_or_unproven()]
                rows = index.rows(limit=RECENT + len(live))
        except Exception:  # whatever is wrong with the index: the records themselves are there
            return [], [run.record for run in unfinished(self.state)]
        return [row for row in rows if row.state in ("ended", "not-started")][:RECENT], live

    # ---- what happens -------------------------------------------------------------------------

    def touch(self, path: str, run: str | None = None) -> None:
        """This record is new or has changed. `run` is the id of one that lies elsewhere."""
        before = self._views.get(path)
        if before is not None and run not in (None, before.run):
            self._remove(before)  # the next run was appended to the same file
            before = None
        if before is None:
            name = run or os.path.basename(path).removesuffix(_SUFFIX)
            if (not path.endswith(_SUFFIX) and run is None) or not valid_run(name):
                return
            self._views[path] = View(path, name)
            self._paths[name] = path
        self._dirty[path] = None
        self._caught_up.clear()
        if self._turn is None:
            self._turn = asyncio.get_running_loop().call_soon(self._go_on)

    async def caught_up(self) -> None:
        """Wait until everything that was told has been read."""
        await self._caught_up.wait()

    def touch_directory(self, path: str) -> None:
        """This day's directory is new: look what is in it already."""
        for record in records_in(path):
            self.touch(record.path)

    def touch_all(self) -> None:
        """News were lost: look at everything that may have changed or come."""
        for path, view in self._views.items():
            if not view.over:
                self.touch(path)
        newest = sorted(directories(self.state), key=lambda one: one[1])[-2:]
        for path, _ in newest:
            self.touch_directory(path)

    def _go_on(self) -> None:
        self._turn = None
        until = time.monotonic() + _TURN_S
        while self._dirty and time.monotonic() < until:
            path, _ = self._dirty.popitem(last=False)
            view = self._views.get(path)
            if view is None:
                continue  # it was over, and others that ended meanwhile took its place
            try:
                more = view.read()
            except FileNotFoundError:
                self._remove(view)
                continue
            except OSError:
                continue
            self._update(view)
            if more:
                self._dirty[path] = None
        if self._dirty:
            self._turn = asyncio.get_running_loop().call_soon(self._go_on)
        else:
            self._caught_up.set()

    def _update(self, view: View) -> None:
        path = view.path
        if not view.over:
            self._look_after(view)
        if view.over:
            self._ends.forget(path)
            self._cancel(path)
            self._keep(view.run)
        else:
            self._over.pop(view.run, None)
        self._board.put("runs", view.run, view.row())
        self._grew(view.run)

    def _look_after(self, view: View) -> None:
        """Have it told when the supervisor of this run ends without a word."""
        if view.started is None:
            self._later(view, START_BOUND)
            return
        supervisor = view.supervisor()
        if supervisor is not None:
            view.lost = False
            self._cancel(view.path)
            self._ends.watch(view.path, supervisor)
        elif not view.lost:
            # Its last lines may still be on their way to the disk.
            self._later(view, SETTLES)

    def _died(self, path: str) -> None:
        view = self._views.get(path)
        if view is not None:
            self.touch(path)

    def _later(self, view: View, seconds: float) -> None:
        """The run counts as lost when nothing comes within so long after its last line."""
        self._cancel(view.path)
        with contextlib.suppress(OSError):
            seconds -= max(0.0, time.time() - os.stat(view.path).st_mtime)
        if seconds <= 0:
            view.lost = True
            return
        loop = asyncio.get_running_loop()
        self._timers[view.path] = loop.call_later(seconds, self._silent, view)

    def _silent(self, view: View) -> None:
        self._timers.pop(view.path, None)
        with contextlib.suppress(OSError):
            while view.read():
                pass
        if view.over:
            self._update(view)
        elif view.started is None or view.supervisor() is None:
            view.lost = True
            self._update(view)

    def _cancel(self, path: str) -> None:
        timer = self._timers.pop(path, None)
        if timer is not None:
            timer.cancel()

    # ---- which are kept -----------------------------------------------------------------------

    def _keep(self, run: str) -> None:
        self._over[run] = None
        while len(self._over) > RECENT:
            oldest, _ = self._over.popitem(last=False)
            self._board.remove("runs", oldest)
            self._views.pop(self._paths.pop(oldest, ""), None)

    def _remove(self, view: View) -> None:
        self._ends.forget(view.path)
        self._cancel(view.path)
        self._views.pop(view.path, None)
        self._paths.pop(view.run, None)
        self._over.pop(view.run, None)
        self._board.remove("runs", view.run)

    def view(self, run: str) -> View | None:
        """A run that is followed."""
        return self._views.get(self._paths.get(run, ""))

    def path(self, run: str) -> str | None:
        """Where the record of a run is, also of one that is not on the page."""
        if not valid_run(run):
            return None
        known = self._paths.get(run)
        path = known or os.path.join(self.state, "runs", run[:8], run + _SUFFIX)
        return path if os.path.isfile(path) else None

    def close(self) -> None:
        """Watch nobody any more."""
        self._ends.close()
        for path in list(self._timers):
            self._cancel(path)
