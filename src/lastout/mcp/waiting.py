"""Waits for a job's turn, and tells the client meanwhile what its feed says."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import aclosing
from typing import Any, Final

import anyio

from lastout.errors import LastoutError
from lastout.jobs import feed
from lastout.jobs.job import Job
from lastout.jobs.result import Result
from lastout.mcp import sentences
from lastout.mcp.desk import Call
from lastout.mcp.threads import in_thread

__all__ = ["HEARTBEAT", "asks", "turn_end"]

HEARTBEAT: Final = 10.0
"""Seconds: a client that hears nothing for long may give up, so the current line is told again."""

_PACE: Final = 0.2
"""Seconds between two lines that replace each other."""


async def turn_end(
    call: Call,
    job: Job,
    *,
    seconds: float | None,
    turn: int | None = None,
    after: int = 0,
    answered: Collection[str] = (),
) -> Result | None:
    """The result of the turn; None when the agent asks something, or `seconds` are over.

    Events after number `after` are told as progress. Questions in `answered` are not waited on.
    Raises NoResult for a turn that will never be.
    """
    found: list[Result] = []
    failure: list[LastoutError] = []
    async with anyio.create_task_group() as tasks:

        async def result() -> None:
            try:
                found.append(await job.wait_async(turn=turn))
            except LastoutError as error:
                failure.append(error)  # raised below: in here it would come out as a group
            tasks.cancel_scope.cancel()

        async def questions() -> None:
            await _tell(call, job, after, answered)
            tasks.cancel_scope.cancel()

        if seconds is not None:
            tasks.cancel_scope.deadline = anyio.current_time() + seconds
        tasks.start_soon(result)
        tasks.start_soon(questions)
    if failure:
        raise failure[0]
    return found[0] if found else None


async def asks(job: Job, answered: Collection[str]) -> bool:
    """Whether it waits for an answer that was not given yet."""
    now = await in_thread(job.status)
    return any(question.id not in answered for question in now.questions)


async def _tell(call: Call, job: Job, after: int, answered: Collection[str]) -> None:
    """Tell the feed until there is a question."""
    line, told = "", 0.0
    async with anyio.create_task_group() as tasks:

        async def again() -> None:
            while True:
                await anyio.sleep(HEARTBEAT)
                if anyio.current_time() - told >= HEARTBEAT:
                    # A command's output is no event; its last line is in its state.
                    now = await in_thread(job.status)
                    await call.progress(now.progress or line or now.state)

        tasks.start_soon(again)
        if not await asks(job, answered):
            following: Any = job.follow(after)  # a generator, which a break alone does not end
            async with aclosing(following) as events:
                async for event in events:
                    text = sentences.event(event)
                    if text is not None:
                        line = text
                        replaced = isinstance(event, feed.Progress | feed.Text)
                        if not replaced or anyio.current_time() - told >= _PACE:
                            told = anyio.current_time()
                            await call.progress(text)
                    if isinstance(event, feed.Questioned) and await asks(job, answered):
                        break
                else:
                    await anyio.sleep_forever()  # it has ended: the result is on its way
        tasks.cancel_scope.cancel()
