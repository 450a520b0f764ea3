"""The jobs as rows, and their feeds, page by page."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any, Final

from lastout.evidence.watch import Watch
from lastout.jobs.errors import JobsError, NoSuchJob
from lastout.jobs.feed import CommandRan, FeedEvent, Questioned, Text, TurnEnded
from lastout.jobs.feed import decode as decode_event
from lastout.jobs.job import Job
from lastout.jobs.layout import FEED, is_id
from lastout.jobs.status import Question, Status
from lastout.jobs.store import open_jobs
from lastout.web.actions import person
from lastout.web.board import Board
from lastout.web.ends import Ends
from lastout.web.lines import Shelf
from lastout.web.plain import clean, plain
from lastout.web.view import wall_ms

__all__ = ["Followed", "feed_of"]

_RECENT: Final = 200
_BATCH: Final = 300
_TOGETHER_S: Final = 0.03
_TEXT: Final = 400
_END_S: Final = 20.0
"""How long an asked-for end is waited for before the page is told that it is not over yet."""


class Followed:
    """The rows of the kind `jobs`."""

    def __init__(self, state: str, board: Board, watch: Watch) -> None:
        self._store = open_jobs(state)
        self._state = state
        self._board = board
        self._watch = watch
        self._dirty: dict[str, None] = {}
        self._wanted = asyncio.Event()
        self._ends = Ends(self.touch)
        self._over: dict[str, None] = {}
        self._queued: set[str] = set()

    @property
    def directory(self) -> str:
        """Where the jobs are."""
        return self._store.directory

    def touch(self, job: str) -> None:
        """This job is new, has changed or has gone."""
        self._dirty[job] = None
        self._wanted.set()

    def touch_all(self) -> None:
        """Look at every job there is, the newest first."""
        try:
            self._watch.add(self.directory)
        except OSError:
            return  # nobody has had a job yet
        for job in sorted(self._store.ids(), reverse=True):
            if job not in self._over:
                self.touch(job)

    async def keep_up(self) -> None:
        """Read the jobs that have changed, for ever."""
        while True:
            await self._wanted.wait()
            await asyncio.sleep(_TOGETHER_S)
            self._wanted.clear()
            await self.load()

    async def load(self) -> None:
        """Read some of the jobs that have changed now."""
        dirty = list(self._dirty)[:_BATCH]
        for job in dirty:
            del self._dirty[job]
        if self._dirty:
            self._wanted.set()
        for job in dirty:
            self._watch_directory(job)
        found = await asyncio.to_thread(self._statuses, dirty)
        for job, status in found.items():
            self._take(job, status)

    def _watch_directory(self, job: str) -> None:
        if job not in self._over:
            try:
                self._watch.add(self.path(job))
            except OSError:
                pass  # gone already, or never a job: its status says so

    def _statuses(self, jobs: list[str]) -> dict[str, Status | None]:
        found: dict[str, Status | None] = {}
        for job in jobs:
            try:
                found[job] = Job(self._state, job).status()
            except NoSuchJob:
                found[job] = None
            except (JobsError, OSError, ValueError):
                continue
        return found

    def _take(self, job: str, status: Status | None) -> None:
        if status is None or status.ended:
            self._ends.forget(job)
            self._watch.remove(self.path(job))
        if status is None:
            self._over.pop(job, None)
            self._board.remove("jobs", job)
            return
        if status.state == "queued":
            self._queued.add(job)
        elif job in self._queued:
            self._queued.remove(job)
            for other in self._queued:
                self.touch(other)  # each is one place further
        self._board.put("jobs", job, _row(status) | {"size": self._size(job)})
        if not status.ended:
            if status.runner is not None and status.runner_alive is not False:
                self._ends.watch(job, status.runner.identity)
            return
        self._over[job] = None
        if len(self._over) > _RECENT:
            oldest = min(self._over)
            del self._over[oldest]
            self._board.remove("jobs", oldest)

    def _size(self, job: str) -> int:
        """Of its feed: a page that shows it asks for more when it has grown."""
        try:
            return os.stat(self.feed(job)).st_size
        except OSError:
            return 0

    def feed(self, job: str) -> str:
        """The file of a job's feed."""
        return os.path.join(self.path(job), FEED)

    def path(self, job: str) -> str:
        """The directory of a job."""
        return Job(self._state, job).directory

    def known(self, job: str) -> bool:
        """Whether there is a job with this id."""
        return is_id(job) and os.path.isdir(self.path(job))

    # ---- what a person asks for; each blocks ---------------------------------------------------

    def cancel(self, job: str, *, now: bool) -> dict[str, Any]:
        """Ask for the end of a job and wait until it is there. Raises JobsError, OSError."""
        one = Job(self._state, job)
        one.cancel("abort", by=person(), grace=0 if now else None)
        try:
            result = one.wait(timeout=_END_S)
        except TimeoutError:
            return {"settled": False, "sentence": "the end was asked for and is not there yet"}
        left = result.remaining_count
        words = {
            0: "the job has ended; nothing of it is left",
            None: "the job has ended; whether anything of it is left is not known",
        }.get(left, f"the job has ended; {left} of its processes are still running")
        return {"settled": left == 0, "sentence": words}

    def answer(self, job: str, question: str, choice: str | None, values: list[str]) -> None:
        """Answer what an agent waits for; `values` are for its fields, in their order, or one text
        where it has none. Raises JobsError, ValueError, OSError."""
        one = Job(self._state, job)
        asked = next((each for each in one.status().questions if each.id == question), None)
        names = asked.fields if asked is not None else ()
        fields = dict(zip(names, values, strict=False))
        text = values[0] if values and not names else None
        one.answer(question, choice, text=text, fields=fields, by=person())

    def message(self, job: str, text: str) -> None:
        """Ask an agent for another turn. Raises JobsError, ValueError, OSError."""
        Job(self._state, job).message(text, by=person())

    def close(self) -> None:
        """Watch nobody any more."""
        self._ends.close()


def _row(status: Status) -> dict[str, Any]:
    return {
        "id": status.id,
        "name": status.name and plain(status.name),
        "title": plain(status.title),
        "kind": status.kind,
        "agent": status.agent and plain(status.agent),
        "by": plain(status.by),
        "state": status.state,
        "lost": status.runner_alive is False and status.state not in ("queued", "ended"),
        "turn": status.turn,
        "progress": status.progress and plain(status.progress),
        "questions": [_question(one) for one in status.questions],
        "waiting": status.waiting_messages,
        "place": status.place,
        "cwd": plain(status.cwd),
        "labels": clean(status.labels),
        "run": status.run,
        "queued": wall_ms(status.queued_at),
        "started": wall_ms(status.started_at or ""),
        "began": wall_ms(status.turn_began_at or ""),
        "idle": wall_ms(status.idle_until or ""),
        "ended": wall_ms(status.ended_at or ""),
        "failed": status.failed,
        "why": status.why and plain(status.why),
        "reason": plain(status.reason or status.problem or "") or None,
    }


def _question(one: Question) -> dict[str, Any]:
    return {
        "id": one.id,
        "kind": one.kind,
        "prompt": plain(one.prompt, lines=True),
        "choices": [
            {"id": choice.id, "label": plain(choice.label or choice.id), "meaning": choice.meaning}
            for choice in one.choices
        ],
        "fields": [plain(name) for name in one.fields],
    }


def feed_of(shelf: Shelf, path: str, first: int, count: int) -> dict[str, Any]:
    """A page of a job's feed, each event on one row. Raises OSError."""
    try:
        found, total = shelf.get(path).page(first, count)
    except FileNotFoundError:
        found, total = [], 0  # it waits in the queue
    return {"total": total, "first": first, "lines": [_event(line) for line in found]}


def _event(line: bytes) -> dict[str, Any]:
    try:
        event = decode_event(line)
        fields = json.loads(line)
    except ValueError:
        return {"at": None, "event": "?", "text": plain(line[:_TEXT].decode("utf-8", "replace"))}
    return {
        "at": wall_ms(event.at),
        "event": plain(fields.get("event", "?")),
        "turn": event.turn,
        "text": plain(_text(event, fields)[:_TEXT]),
        "bad": _bad(event),
    }


def _text(event: FeedEvent, fields: dict[str, Any]) -> str:
    match event:
        case CommandRan():
            end = event.phase if event.exit_code is None else f"exit {event.exit_code}"
            return f"{event.command}  ({end})"
        case Questioned():
            return event.question.prompt
        case Text():
            return event.text
    if isinstance(text := fields.get("text"), str):
        return text
    left = {k: v for k, v in fields.items() if k not in ("seq", "at", "turn", "event") and v}
    return " ".join(
        f"{key}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for key, value in left.items()
    )


def _bad(event: FeedEvent) -> bool:
    match event:
        case CommandRan():
            return event.exit_code not in (None, 0) or event.phase == "unfinished"
        case TurnEnded():
            return event.failed
    return bool(getattr(event, "failed", False))
