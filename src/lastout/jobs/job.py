"""One job, for whoever asked for it or watches it. Nothing here lives longer than the caller."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from lastout.jobs import layout, reading, route, sentences
from lastout.jobs.errors import JobBusy, JobEnded, NoResult, NoSuchJob, NotQuestioned, NotTaken
from lastout.jobs.result import Result
from lastout.jobs.spec import Command, Spec
from lastout.jobs.status import Status

if TYPE_CHECKING:
    from lastout.jobs.feed import FeedEvent
    from lastout.jobs.turns_open import Opening

__all__ = ["Job"]


class Job:
    """A handle by the job's directory: cheap, without a descriptor, good for ever."""

    def __init__(self, state: str, id: str) -> None:  # noqa: A002 (it is one)
        self.state = state
        self.id = id

    def __repr__(self) -> str:
        return f"Job({self.id!r})"

    @property
    def directory(self) -> str:
        """Where the job's files are."""
        return layout.job_directory(self.state, self.id)

    @property
    def spec(self) -> Spec:
        """What it is to do. Raises NoSuchJob, NewerSpec."""
        return reading.spec(self.state, self.id)

    def status(self) -> Status:
        """What it is doing now. Raises NoSuchJob when it has been removed."""
        return reading.status(self.state, self.id)

    def feed(self, after: int = 0, limit: int | None = None) -> list[FeedEvent]:
        """The events with a number above `after`, oldest first, at most `limit`."""
        return reading.events(self.state, self.id, after, limit)

    def follow_blocking(self, after: int = 0, timeout: float | None = None) -> Iterator[FeedEvent]:
        """The events above `after` as they come, until the job has ended.

        Raises TimeoutError when it has not after `timeout` seconds.
        """
        from lastout.jobs.awaited import Awaited

        with Awaited(self.state, self.id, timeout) as awaited:
            told = reading.Feed(self.state, self.id, after)
            while True:
                over = awaited.ended()
                yield from told.more()
                if over:
                    return
                awaited.wait_blocking()

    async def follow(self, after: int = 0) -> AsyncIterator[FeedEvent]:
        """`follow_blocking` for asyncio and trio."""
        from lastout.jobs.awaited import Awaited

        with Awaited(self.state, self.id, None) as awaited:
            told = reading.Feed(self.state, self.id, after)
            while True:
                over = awaited.ended()
                for event in told.more():
                    yield event
                if over:
                    return
                await awaited.wait()

    def wait(self, timeout: float | None = None, turn: int | None = None) -> Result:
        """The result of a turn once it is there; by default of the newest when nothing more is
        under way (the job has ended, or its agent idles and no message waits).

        Sleeps on inotify and pidfds. Raises TimeoutError after `timeout` seconds, NoResult when
        that turn will never be.
        """
        from lastout.jobs.awaited import Awaited

        with Awaited(self.state, self.id, timeout) as awaited:
            while (found := awaited.result(turn)) is None:
                awaited.wait_blocking()
            return found

    async def wait_async(self, timeout: float | None = None, turn: int | None = None) -> Result:
        """`wait` for asyncio and trio."""
        from lastout.jobs.awaited import Awaited

        with Awaited(self.state, self.id, timeout) as awaited:
            while (found := awaited.result(turn)) is None:
                await awaited.wait()
            return found

    def result(self, turn: int | None = None) -> Result:
        """The result of a turn, by default the newest; of turn 0 the end between two turns.

        Raises NoResult.
        """
        if turn is None:
            turns = self._turns()
            turn = turns[-1] if turns else None
        found = None if turn is None else reading.result(self.state, self.id, turn)
        if found is None:
            ended = turn is not None and reading.final(self.state, self.id) is not None
            raise NoResult(sentences.no_result(self.id, turn, ended=ended))
        return found

    def take(self, taker: str, turn: int | None = None) -> Result:
        """The result, handed over once, durably: a retry by the same taker gets the same again.

        Raises NoResult, and AlreadyTaken when it is another's.
        """
        from lastout.jobs.delivery import take

        found = self.result(turn)
        take(self.directory, self.id, found.turn, taker)
        return found

    def output(self, stream: Literal["stdout", "stderr"] = "stdout") -> tuple[bytes, int, bytes]:
        """What is kept of a command's stream, also while it grows: its beginning, how many bytes
        were dropped, its end."""
        from lastout.jobs import capture

        return capture.output(self.directory, stream)

    def message(self, text: str, id: str | None = None, by: str | None = None) -> str:  # noqa: A002
        """Ask for another turn; the message's id. With the same `id` again nothing happens.

        Raises JobEnded (a new job with `continues` goes on), or ValueError for a plain command and
        for an id that was used for another text.
        """
        from lastout.jobs import inbox
        from lastout.jobs.work import Message

        spec = self.spec
        if isinstance(spec.work, Command):
            raise ValueError(sentences.no_messages(self.id))
        if "\0" in text or not text:
            raise ValueError("a message is text without a NUL byte")
        id = id or os.urandom(8).hex()  # noqa: A001
        try:
            if reading.final(self.state, self.id) is None:
                fresh = inbox.put(self.directory, Message(id=id, text=text, by=by or spec.by), id)
                self._see_to_it()
                if not fresh:
                    self._same_text(id, text)
                return id
        except FileNotFoundError:
            pass
        if inbox.there(self.directory, "message", id) is not None and not self._undelivered(id):
            self._same_text(id, text)
            return id  # a retry: it was delivered before the end
        raise JobEnded(sentences.ended(self.id, agent=True))

    def _same_text(self, id: str, text: str) -> None:  # noqa: A002
        from lastout.jobs import inbox
        from lastout.jobs.turns_sentences import other_text
        from lastout.jobs.work import Message

        before = inbox.there(self.directory, "message", id)
        if isinstance(before, Message) and before.text != text:
            raise ValueError(other_text(id))

    def answer(
        self,
        question: str,
        choice: str | None = None,
        *,
        text: str | None = None,
        fields: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> None:
        """Answer what the agent waits for, by a choice's id or by its meaning (`allow`, `deny`).

        Raises NotQuestioned, ValueError for no such choice.
        """
        from lastout.jobs import inbox
        from lastout.jobs.work import Answer

        if choice is None and text is None and not fields:
            raise ValueError(sentences.no_answer())
        status = self.status()
        asked = next((one for one in status.questions if one.id == question), None)
        if asked is None:
            raise NotQuestioned(sentences.not_questioned(self.id, question))
        known = [one.id for one in asked.choices]
        if choice is not None and known and choice not in known:
            meant = next((one.id for one in asked.choices if one.meaning == choice), None)
            if meant is None:
                raise ValueError(sentences.no_choice(choice, known))
            choice = meant
        answer = Answer(
            question=question, choice=choice, text=text, fields=dict(fields or {}), by=by
        )
        key = f"{status.turn}:{question}:{asked.asked_at}"
        try:
            if not inbox.put(self.directory, answer, key):
                before = inbox.there(self.directory, "answer", key)
                if isinstance(before, Answer) and (before.choice, before.text) == (choice, text):
                    return
                raise NotQuestioned(sentences.already_answered(self.id, question))
        except FileNotFoundError:
            raise NotQuestioned(sentences.not_questioned(self.id, question)) from None

    def cancel(
        self,
        reason: Literal["abort", "shutdown"] = "abort",
        by: str | None = None,
        grace: float | None = None,
    ) -> bool:
        """Ask for the end, durably, and do not wait. False when it has ended already.

        `grace` (seconds) shortens the graces; 0 goes straight to SIGKILL.
        """
        if grace is not None and not grace >= 0:
            raise ValueError(f"the grace must be a number of seconds from 0, not {grace!r}")
        from lastout.jobs.cancelling import cancel
        from lastout.jobs.work import Cancel

        return cancel(self.state, self.spec, Cancel(reason=reason, by=by, grace=grace))

    def remove(self, *, untaken: bool = False) -> None:
        """Delete an ended job. Raises JobBusy, and NotTaken unless `untaken`."""
        from lastout.jobs import turns_open

        opened = self._removed(untaken=untaken)
        if opened is not None:
            turns_open.forget(self.state, [opened])

    def _removed(self, *, untaken: bool, dry_run: bool = False) -> Opening | None:
        """`remove`, and the conversation that nobody has forgotten yet. With `dry_run` it only
        raises."""
        import shutil

        from lastout.jobs import door, queue, turns_open
        from lastout.jobs.delivery import taken
        from lastout.jobs.submitting import named

        spec = self.spec
        opened = None if isinstance(spec.work, Command) else turns_open.noted(self.state, self.id)
        with door.door(self.state):
            try:
                with layout.try_lock(os.path.join(self.directory, layout.LOCK)) as fd:
                    if fd is None or reading.final(self.state, self.id) is None:
                        raise JobBusy(sentences.not_ended(self.id))
                    if not untaken and set(self._turns()) - set(taken(self.directory)):
                        raise NotTaken(sentences.not_taken(self.id))
                    if dry_run:
                        return None
                    # Whoever opened the lock before finds the state's end, or nothing.
                    half = layout.job_directory(self.state, layout.HALF + self.id)
                    os.rename(self.directory, half)
                    queue.deactivate(self.state, layout.by_digest(spec.by), self.id)
                    shutil.rmtree(half, ignore_errors=True)
            except FileNotFoundError:
                raise NoSuchJob(sentences.no_such_job(self.id)) from None
            if spec.name is not None and named(self.state, spec.name) == self.id:
                with contextlib.suppress(FileNotFoundError):
                    names = os.path.join(layout.jobs_directory(self.state), "names")
                    os.unlink(os.path.join(names, layout.digest(spec.name)))
        return opened

    def _turns(self) -> list[int]:
        try:
            return layout.result_turns(self.directory)
        except FileNotFoundError:
            raise NoSuchJob(sentences.no_such_job(self.id)) from None

    def _undelivered(self, message: str) -> bool:
        last = reading.final(self.state, self.id)
        return last is not None and message in last.undelivered

    def _see_to_it(self) -> None:
        with contextlib.suppress(OSError):
            route.start_runners(self.state)
