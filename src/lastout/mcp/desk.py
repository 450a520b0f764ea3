"""What the calls of one server share, and what each of them is told."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from lastout.errors import LastoutError
from lastout.jobs.job import Job
from lastout.jobs.spec import Kind
from lastout.jobs.store import Jobs
from lastout.mcp import sentences
from lastout.mcp.caller import DEPTH
from lastout.mcp.held import Held
from lastout.mcp.threads import in_thread

__all__ = ["Call", "Desk", "ToolFailed", "open_desk"]

_OF_ITS_CLIENT: Final = frozenset(
    {
        "AI_AGENT",
        "CLAUDECODE",
        "CLAUDE_CODE_CHILD_NOTES_DIR",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_LAUNCHED_BY_SESSION_IDS",
        "CLAUDE_CODE_MESSAGING_SOCKET",
        "CLAUDE_CODE_MESSAGING_TOKEN",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_CODE_SSE_PORT",
        "CLAUDE_PROJECT_DIR",
    }
)
"""What a client tells its own servers about itself: a delegate would take it for its own."""


class ToolFailed(LastoutError):
    """A call that cannot be carried out. The text says what to do."""


@asynccontextmanager
async def open_desk(
    store: Jobs, depth: int, max_depth: int, environ: Mapping[str, str]
) -> AsyncIterator[Desk]:
    """A desk for the length of the block; jobs that were attached to it have ended after it."""
    async with anyio.create_task_group() as tasks:
        desk = Desk(store, depth, max_depth, environ, tasks)
        try:
            yield desk
        finally:
            with anyio.CancelScope(shield=True):
                await desk.close()
            tasks.cancel_scope.cancel()


class Desk:
    """The jobs, how deep the asker is, and the jobs that end with this server."""

    def __init__(
        self,
        store: Jobs,
        depth: int,
        max_depth: int,
        environ: Mapping[str, str],
        tasks: TaskGroup,
    ) -> None:
        self.store = store
        self.depth = depth
        self.max_depth = max_depth
        self.gone = anyio.Event()
        """Set when the client is gone, or we are told to go."""
        self._environ = dict(environ)
        self._tasks = tasks
        self._held: dict[str, Held] = {}

    async def close(self) -> None:
        """End what was attached, all at once."""
        async with anyio.create_task_group() as tasks:
            for held in list(self._held.values()):
                tasks.start_soon(held.end, "shutdown", sentences.ENDED_WITH_CLIENT)

    async def attach(self, work: Kind) -> Job:
        """Start a job that ends with this server, whatever ends that. Raises what `submit` does."""
        with anyio.CancelScope(shield=True):
            held = await Held.start(self.store, work)
        self._held[held.job.id] = held
        self._tasks.start_soon(self._forget_when_gone, held)
        return held.job

    async def end(self, job: Job, by: str) -> None:
        """End a job that was attached, and wait until nothing is left of it."""
        held = self._held.get(job.id)
        if held is None:
            return
        if self.gone.is_set():
            await held.end("shutdown", sentences.ENDED_WITH_CLIENT)
        else:
            await held.end("abort", by)

    async def _forget_when_gone(self, held: Held) -> None:
        await held.gone()
        del self._held[held.job.id]

    def check_depth(self) -> None:
        """Raises ToolFailed where another agent below this one would be one too many."""
        if self.depth >= self.max_depth:
            raise ToolFailed(sentences.too_deep(self.depth, self.max_depth))

    def environment(self, added: Mapping[str, str] | None = None) -> dict[str, str]:
        """What a job gets: ours, without what belongs to the client alone, and one level deeper."""
        kept = {key: value for key, value in self._environ.items() if key not in _OF_ITS_CLIENT}
        return {**kept, **(added or {}), DEPTH: str(self.depth + 1)}

    def directory(self, given: str | None) -> str:
        """Where a job is to work. Raises ToolFailed for what is no directory."""
        path = os.path.abspath(os.path.expanduser(given or "."))
        if not os.path.isdir(path):
            raise ToolFailed(sentences.no_such_directory(path))
        return path


class Call:
    """One call: who asks, and the way to tell how it goes."""

    def __init__(self, desk: Desk, by: str, session: Any) -> None:
        self.desk = desk
        self.by = by
        self._session = session
        self._began = anyio.current_time()

    async def progress(self, text: str) -> None:
        """Tell the client, when it asked to be told; what counts up are the seconds so far."""
        await self._session.report_progress(
            round(anyio.current_time() - self._began, 3), message=text
        )

    async def find(self, word: str) -> Job:
        """A job, anybody's. Raises NoSuchJob."""
        return await in_thread(self.desk.store.get, word)

    async def mine(self, word: str) -> Job:
        """A job of the asker's. Raises NoSuchJob, ToolFailed for another's."""
        job = await self.find(word)
        by = (await in_thread(job.status)).by
        if by != self.by:
            raise ToolFailed(sentences.not_yours(job.id, by))
        return job

    async def submit(self, work: Kind) -> Job:
        """A job that goes on without this server. Raises NoRoute, NameTaken, ..."""
        return await in_thread(self.desk.store.submit, work)
