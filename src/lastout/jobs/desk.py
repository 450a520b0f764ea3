"""The runner's side of a job's files: state, feed, results. One thread uses it.

`Desk` is what `work.Work` promises. Whoever has one holds the job's lock.
"""

from __future__ import annotations

import contextlib
import os
import select
from typing import Any

import msgspec

from lastout import state as states
from lastout.durable import now, replace, written
from lastout.evidence.watch import Watch
from lastout.identity import take
from lastout.jobs import feed, held, inbox, layout, queue, reading, sentences
from lastout.jobs.errors import OwnershipFailed
from lastout.jobs.result import HeldLock, Process, Result
from lastout.jobs.results import put_result, set_aside
from lastout.jobs.spec import VERSION, Spec
from lastout.jobs.status import Question, Stored
from lastout.jobs.work import Cancel, Message, Request

__all__ = ["Desk"]


class Desk:
    """One job, in the hands of its runner."""

    def __init__(
        self,
        state: str,
        spec: Spec,
        stored: Stored | None = None,
        watch: Watch | None = None,
    ) -> None:
        """`watch` is the runner's own, for all its jobs: to close one takes the kernel a while."""
        self.state = state
        self.spec = spec
        self.directory = layout.job_directory(state, spec.id)
        self.me = Process.of(take(os.getpid()))
        self.stored = stored or Stored(version=VERSION, state="queued")
        self.before = self.stored.runner or self.me
        """Who had the job before, where that was another."""
        self.stored.runner = self.me
        self.ended = False
        """A final result has been published."""
        self.locks: dict[HeldLock, None] = {}
        self._turn_runs: tuple[str, ...] = self.stored.runs[-1:]
        self._inbox = inbox.Inbox(self.directory)
        self._inbox.seen.update(self.stored.messages)
        self._pending: list[Request] = []
        self._watch = watch or Watch()
        self._shares_watch = watch is not None
        self._watched = os.path.join(self.directory, layout.INBOX)
        with contextlib.suppress(FileNotFoundError):
            self._watch.add(self._watched)
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._epoll = select.epoll()
        for fd in (self._watch.descriptor, self._bell):
            self._epoll.register(fd, select.EPOLLIN)
        self._feed = _open_feed(os.path.join(self.directory, layout.FEED))

    @property
    def turn(self) -> int:
        """The number of the current turn."""
        return self.stored.turn

    # --- what callers ask for --------------------------------------------------------------------

    def fileno(self) -> int:
        """Readable when `requests` may have something new."""
        return self._epoll.fileno()

    def requests(self) -> list[Request]:
        """What has come since the last call."""
        self._watch.changed()
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._bell)
        pending, self._pending = self._pending, []
        return pending + self._delivered(self._inbox.new())

    def peek(self) -> list[Request]:
        """What has come; `requests` will have it again."""
        self._pending += self._delivered(self._inbox.new())
        return list(self._pending)

    def shut_down(self, by: str, grace: float | None = None) -> None:
        """From a signal handler: the runner was asked to end; `grace` (seconds) shortens it."""
        self._pending.append(Cancel(reason="shutdown", by=by, grace=grace))
        os.eventfd_write(self._bell, 1)

    def close_inbox(self) -> list[Request]:
        """Callers are told from now on that the job has ended; what had come before."""
        return self._delivered(self._inbox.close())

    def reopen_inbox(self) -> None:
        """The job goes on after all."""
        self._inbox.reopen()

    def _delivered(self, found: list[tuple[str, Request]]) -> list[Request]:
        names = tuple(name for name, _ in found if name.startswith("message-"))
        if names:
            self.stored.messages += names
            if self.stored.state == "idle":
                self.stored.state = "running"  # a turn is due: nobody is told that it rests
            self._save()
        return [request for _, request in found]

    # --- what the job does -----------------------------------------------------------------------

    def claim(self, run: str | None = None) -> None:
        """This runner has the job, and, where it is told, is about to start this run.

        That it has begun is durable already (`queue.begin`). After a loss of power nothing of the
        run is alive; whoever is killed sooner has written this. Raises OSError.
        """
        self.stored.state = "starting"
        self.stored.started_at = now()
        self.stored.turn = 1
        if run is not None:
            self._note_run(run, states.record_file(run, self.state))
        self._save(needed=True)

    def will_start(self, run: str, record: str, key: str | None = None) -> None:
        """This run is about to be started; see `claim`. Raises OwnershipFailed."""
        self._note_run(run, record)
        try:
            self._save(needed=True)
        except OSError as error:
            raise OwnershipFailed(sentences.not_started(str(error))) from error
        self.emit(feed.Started(runner=self.me, run=run, record=record))

    def _note_run(self, run: str, record: str) -> None:
        self.stored.run, self.stored.record = run, record
        if run not in self.stored.runs:
            self.stored.runs += (run,)
        self._turn_runs = (*self._turn_runs, run)

    def turn_began(self, message: str | None) -> int:
        """A turn begins."""
        if self.stored.turn == 0 or self.has_result(self.stored.turn):
            self.stored.turn += 1
            self._turn_runs = () if self.stored.run is None else (self.stored.run,)
            self.locks = {}
            with contextlib.suppress(OSError):
                set_aside(self.directory)
        self.stored.state = "running"
        self.stored.turn_began_at = now()
        self.stored.idle_until = None
        self.stored.why = None
        self._save()
        self.emit(feed.TurnBegan(message=message))
        return self.stored.turn

    def idle(self, seconds: float | None) -> None:
        """The agent waits for another message."""
        from datetime import UTC, datetime, timedelta

        self.stored.state = "idle"
        self.stored.idle_until = None
        if seconds is not None:
            until = datetime.now(UTC) + timedelta(seconds=seconds)
            self.stored.idle_until = until.isoformat(timespec="seconds").replace("+00:00", "Z")
        self._save()

    def describe(self, **fields: Any) -> None:
        """Change what readers are told."""
        for name, value in fields.items():
            if name not in Stored.__struct_fields__:
                raise AttributeError(name)
            setattr(self.stored, name, value)
        self._save()

    def question(self, id: str) -> Question | None:  # noqa: A002 (it is one)
        """An open question."""
        return next((one for one in self.stored.questions if one.id == id), None)

    def emit(self, event: feed.FeedEvent) -> int:
        """Append to the feed."""
        fd, last = self._feed
        event = msgspec.structs.replace(event, seq=last + 1, at=now(), turn=self.stored.turn)
        changed = True
        match event:
            case feed.Progress():
                self.stored.progress = event.text
            case feed.Questioned():
                others = [one for one in self.stored.questions if one.id != event.question.id]
                self.stored.questions = (*others, event.question)
            case feed.Answered():
                self.stored.questions = tuple(
                    one for one in self.stored.questions if one.id != event.question
                )
            case _:
                changed = False
        if changed:
            # First the state: who reads of a question in the feed can answer it at once.
            self._save()
        if fd is not None:
            with contextlib.suppress(OSError):
                written(fd, feed.encode(event))
                self._feed = (fd, last + 1)
        return last + 1

    def locks_of(self, run: str, record: str) -> None:
        """Look which kernel locks the members of a run hold now."""
        self.locks.update(dict.fromkeys(held.of_record(record)))

    # --- what came of it -------------------------------------------------------------------------

    def publish(self, result: Result) -> None:
        """Make a turn's result durable, then tell everybody."""
        turn = self.stored.turn if result.turn == 0 else result.turn
        self._publish(msgspec.structs.replace(result, turn=max(1, turn)))

    def end(self, result: Result) -> None:
        """The job ends between two turns."""
        self._publish(msgspec.structs.replace(result, turn=0, final=True))

    def _publish(self, result: Result) -> None:
        filled = msgspec.structs.replace(
            result,
            version=VERSION,
            job=self.spec.id,
            runs=result.runs or self._turn_runs,
            began_at=result.began_at or self.stored.turn_began_at or self.stored.started_at,
            ended_at=result.ended_at or now(),
            locks=result.locks or tuple(self.locks),
            conversation=result.conversation or self.stored.conversation,
        )
        if filled.final:
            late = [one.id for one in self.close_inbox() if isinstance(one, Message)]
            filled = msgspec.structs.replace(filled, undelivered=(*filled.undelivered, *late))
        put_result(self.directory, filled)
        self.stored.questions = ()
        told: dict[str, Any] = {
            "failed": filled.failed,
            "why": filled.why,
            "reason": filled.reason,
        }
        if filled.turn:
            self.emit(feed.TurnEnded(**told))
        if filled.final:
            self.ended = True
            self.stored.state = "ended"
            self.stored.idle_until = None
            self.emit(feed.Ended(**told))
            # That it has ended is what the result says; the state is left as it was.
            queue.deactivate(self.state, layout.by_digest(self.spec.by), self.spec.id)

    def close(self) -> None:
        """Nothing more comes from this runner."""
        self._epoll.close()
        if self._shares_watch:
            self._watch.remove(self._watched)
        else:
            self._watch.close()
        os.close(self._bell)
        if self._feed[0] is not None:
            os.close(self._feed[0])

    def has_result(self, turn: int | None = None) -> bool:
        """Whether a turn's result is there, by default the current one's."""
        turn = self.stored.turn if turn is None else turn
        path = os.path.join(self.directory, layout.result_name(turn))
        return os.path.exists(path)

    def _save(self, *, needed: bool = False) -> None:
        """Replace the state. A full disk costs readers the news, never the job its result."""
        self.stored.heartbeat = now()
        path = os.path.join(self.directory, layout.STATE)
        try:
            replace(path, msgspec.json.encode(self.stored), durable=False)
        except OSError:
            if needed:
                raise


def _open_feed(path: str) -> tuple[int | None, int]:
    """The feed for appending, and its last number. A torn line is closed."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None, 0
    size = os.fstat(fd).st_size
    if size:
        with contextlib.suppress(OSError):
            if os.pread(fd, 1, size - 1) != b"\n":
                os.write(fd, b"\n")
    directory, _ = os.path.split(path)
    top, job = os.path.split(directory)
    last = 0
    if size:
        tail = reading.Feed(os.path.dirname(top), job)
        last = max((event.seq for event in tail.more()), default=0)
    return fd, last
