"""What the files of a job say: read in an order in which no end can be missed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from lastout.identity import Alive, still_alive
from lastout.jobs import feed, layout, queue, sentences
from lastout.jobs.errors import DamagedJob, NewerSpec, NoSuchJob
from lastout.jobs.result import Process, Result
from lastout.jobs.spec import VERSION, Command, Spec
from lastout.jobs.status import Status, Stored
from lastout.pidfs import PASSING

__all__ = ["Feed", "events", "final", "holder_gone", "result", "spec", "status", "stored", "title"]

_CHUNK = 1 << 16


def spec(state: str, job: str) -> Spec:
    """Raises NoSuchJob, or NewerSpec for what a later version has written."""
    path = os.path.join(layout.job_directory(state, job), layout.SPEC)
    data = _read(path)
    if data is None:
        raise NoSuchJob(sentences.no_such_job(job))
    try:
        found = msgspec.json.decode(data, type=Spec)
    except msgspec.MsgspecError as error:
        if (version := _version(data)) is not None and version > VERSION:
            raise NewerSpec(sentences.newer(job, version)) from None
        raise DamagedJob(sentences.damaged(path, str(error))) from None
    if found.version > VERSION:
        raise NewerSpec(sentences.newer(job, found.version))
    return found


def stored(state: str, job: str) -> Stored | None:
    """What the runner says; None while no runner has had the job. Raises NewerSpec."""
    data = _read(os.path.join(layout.job_directory(state, job), layout.STATE))
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=Stored)
    except msgspec.MsgspecError:
        version = _version(data)
        if version is not None and version > VERSION:
            raise NewerSpec(sentences.newer(job, version)) from None
        return None


def result(state: str, job: str, turn: int) -> Result | None:
    """A turn's result (0: the end between two turns); None where it is not there."""
    data = _read(os.path.join(layout.job_directory(state, job), layout.result_name(turn)))
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=Result)
    except msgspec.MsgspecError as error:
        version = _version(data)
        if version is not None and version > VERSION:
            raise NewerSpec(sentences.newer(job, version)) from None
        raise DamagedJob(sentences.damaged(layout.result_name(turn), str(error))) from None


def final(state: str, job: str) -> Result | None:
    """The result after which nothing comes; None: the job has not ended. Raises NoSuchJob."""
    if (end := result(state, job, 0)) is not None:
        return end
    turns = _turns(state, job)
    found = result(state, job, turns[-1]) if turns else None
    if found is not None and found.final:
        return found
    return None


def events(state: str, job: str, after: int = 0, limit: int | None = None) -> list[feed.FeedEvent]:
    """The feed's events above a number. What has no end yet is not there yet."""
    return Feed(state, job, after).more(limit)


class Feed:
    """A reader of a feed that goes on where it stopped; memory for one chunk."""

    def __init__(self, state: str, job: str, after: int = 0) -> None:
        self._path = os.path.join(layout.job_directory(state, job), layout.FEED)
        self._after = after
        self._offset = 0

    def more(self, limit: int | None = None) -> list[feed.FeedEvent]:
        """The events that have come since."""
        found: list[feed.FeedEvent] = []
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return found
        try:
            rest = b""
            at = self._offset
            while limit is None or len(found) < limit:
                data = os.pread(fd, _CHUNK, at)
                if not data:
                    break
                at += len(data)
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    if limit is not None and len(found) >= limit:
                        break
                    self._offset += len(line) + 1
                    self._take(line, found)
            return found
        finally:
            os.close(fd)

    def _take(self, line: bytes, found: list[feed.FeedEvent]) -> None:
        try:
            event = feed.decode(line)
        except ValueError:
            return  # somebody's torn line, closed by the next writer
        if event.seq > self._after:
            self._after = event.seq
            found.append(event)


def status(state: str, job: str, places: Mapping[str, int] | None = None) -> Status:
    """Raises NoSuchJob. A job of a later version, or a damaged one, has only its id and a `problem`.

    `places` are the queue's, for whoever asks for many.
    """
    try:
        told = spec(state, job)
        # In this order: a runner publishes first and ends afterwards, so whoever sees it gone looks
        # for the result once more, and one that is there by then is seen.
        at = stored(state, job)
        alive = None if at is None or at.runner is None else not holder_gone(state, job, at.runner)
        last = final(state, job)
    except (NewerSpec, DamagedJob) as error:
        return Status(id=job, kind="command", state="queued", by="", problem=str(error))
    directory = layout.job_directory(state, job)
    work = told.work
    fields: dict[str, Any] = {
        "id": job,
        "kind": "command" if isinstance(work, Command) else "agent",
        "state": "queued" if at is None else at.state,
        "by": told.by,
        "name": told.name,
        "title": title(told),
        "cwd": work.cwd or "",
        "agent": None if isinstance(work, Command) else work.agent,
        "labels": work.labels,
        "queued_at": told.queued_at,
        "results": tuple(_turns(state, job)),
        "taken": _taken(directory),
    }
    if at is not None:
        for name in (
            "started_at", "turn", "turn_began_at", "progress", "questions", "runner", "run",
            "record", "heartbeat", "idle_until", "conversation", "why",
        ):  # fmt: skip
            fields[name] = getattr(at, name)
        fields["runner_alive"] = alive
    if fields["state"] == "queued" and last is None:
        fields["place"] = (queue.places(state) if places is None else places).get(job)
    if last is not None:
        fields |= {
            "state": "ended",
            "ended_at": last.ended_at,
            "failed": last.failed,
            "why": last.why,
            "reason": last.reason,
            "questions": (),
            "runner_alive": None,
            "idle_until": None,
        }
    elif alive is False:
        fields["problem"] = sentences.RUNNER_GONE
    if last is None and not isinstance(work, Command):
        fields["waiting_messages"] = _waiting(directory, set(at.messages if at else ()))
    return Status(**fields)


def holder_gone(state: str, job: str, runner: Process) -> bool:
    """Whether a runner is gone, by its identity and, where that cannot tell, by the job's lock."""
    match still_alive(runner.identity):
        case Alive.YES:
            return False
        case Alive.NO:
            return True
        case _:
            pass
    try:
        path = os.path.join(layout.job_directory(state, job), layout.LOCK)
        with layout.try_lock(path) as fd:
            return fd is not None
    except FileNotFoundError:
        return True


def title(told: Spec) -> str:
    """What the job is, in one line."""
    if isinstance(told.work, Command):
        import shlex

        from lastout.evidence.mask import mask_indices, masked

        return shlex.join(masked(told.work.argv, mask_indices(told.work.argv)))
    return f"{told.work.agent}: {' '.join(told.work.prompt.split())[:120]}"


def _turns(state: str, job: str) -> list[int]:
    try:
        return layout.result_turns(layout.job_directory(state, job))
    except FileNotFoundError:
        raise NoSuchJob(sentences.no_such_job(job)) from None


def _taken(directory: str) -> tuple[int, ...]:
    try:
        names = os.listdir(os.path.join(directory, layout.TAKEN))
    except FileNotFoundError:
        return ()
    return tuple(sorted(int(name) for name in names if name.isdigit()))


def _waiting(directory: str, delivered: set[str]) -> int:
    try:
        names = os.listdir(os.path.join(directory, layout.INBOX))
    except FileNotFoundError:
        return 0
    return sum(name.startswith("message-") and name not in delivered for name in names)


def _version(data: bytes) -> int | None:
    try:
        found = msgspec.json.decode(data)
    except msgspec.MsgspecError:
        return None
    version = found.get("version") if isinstance(found, dict) else None
    return version if isinstance(version, int) else None


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:  # one job's, and none of the others' business
        if error.errno in PASSING:
            raise  # it is ours
        raise DamagedJob(sentences.damaged(os.path.basename(path), str(error))) from error
