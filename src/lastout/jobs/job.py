"""One job, for whoever asked for it or watches it. Nothing here lives longer than the caller."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Literal

from lastout.jobs.feed import FeedEvent
from lastout.jobs.result import Result
from lastout.jobs.spec import Spec
from lastout.jobs.status import Status

__all__ = ["Job"]


class Job:
    """A handle by the job's directory: cheap, without a descriptor, good for ever."""

    def __init__(self, state: str, id: str) -> None:  # noqa: A002 (it is one)
        self.state = state
        self.id = id

    @property
    def directory(self) -> str:
        """Where the job's files are."""
        raise NotImplementedError

    @property
    def spec(self) -> Spec:
        """What it is to do. Raises NoSuchJob, NewerSpec."""
        raise NotImplementedError

    def status(self) -> Status:
        """What it is doing now. Raises NoSuchJob when it has been removed."""
        raise NotImplementedError

    def feed(self, after: int = 0, limit: int | None = None) -> list[FeedEvent]:
        """The events with a number above `after`, oldest first, at most `limit`."""
        raise NotImplementedError

    def follow_blocking(self, after: int = 0, timeout: float | None = None) -> Iterator[FeedEvent]:
        """The events above `after` as they come, until the job has ended."""
        raise NotImplementedError

    def follow(self, after: int = 0) -> AsyncIterator[FeedEvent]:
        """`follow_blocking` for asyncio and trio."""
        raise NotImplementedError

    def wait(self, timeout: float | None = None, turn: int | None = None) -> Result:
        """The result of a turn once it is there; by default of the newest when nothing more is
        under way (the job has ended, or its agent idles and no message waits).

        Sleeps on inotify and pidfds. Raises TimeoutError after `timeout` seconds.
        """
        raise NotImplementedError

    async def wait_async(self, timeout: float | None = None, turn: int | None = None) -> Result:
        """`wait` for asyncio and trio."""
        raise NotImplementedError

    def result(self, turn: int | None = None) -> Result:
        """The result of a turn, by default the newest. Raises NoResult."""
        raise NotImplementedError

    def take(self, taker: str, turn: int | None = None) -> Result:
        """The result, handed over once, durably: a retry by the same taker gets the same again.

        Raises NoResult, and AlreadyTaken when it is another's.
        """
        raise NotImplementedError

    def output(
        self, stream: Literal["stdout", "stderr"] = "stdout", turn: int = 1
    ) -> tuple[bytes, int, bytes]:
        """What is kept of a stream, also while it grows: beginning, bytes dropped, end."""
        raise NotImplementedError

    def message(self, text: str, id: str | None = None, by: str | None = None) -> str:  # noqa: A002
        """Ask for another turn; the message's id. With the same `id` again nothing happens.

        Raises JobEnded (a new job with `continues` goes on), or ValueError for a plain command.
        """
        raise NotImplementedError

    def answer(
        self,
        question: str,
        choice: str | None = None,
        *,
        text: str | None = None,
        fields: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> None:
        """Answer what the agent waits for. Raises NotQuestioned, ValueError for no such choice."""
        raise NotImplementedError

    def cancel(
        self,
        reason: Literal["abort", "shutdown"] = "abort",
        by: str | None = None,
        grace: float | None = None,
    ) -> bool:
        """Ask for the end, durably, and do not wait. False when it has ended already."""
        raise NotImplementedError

    def remove(self, *, untaken: bool = False) -> None:
        """Delete an ended job. Raises JobBusy, and NotTaken unless `untaken`."""
        raise NotImplementedError
