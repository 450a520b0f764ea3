"""Tools that begin something: another agent's turn, a command."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio

from lastout.agents.registry import agent
from lastout.jobs.errors import NoResult
from lastout.jobs.job import Job
from lastout.jobs.spec import AgentTurn, Command, Kind
from lastout.mcp import answers, seen, sentences
from lastout.mcp.arguments import AskAgent, RunCommand, SpawnAgent
from lastout.mcp.desk import Call, ToolFailed
from lastout.mcp.threads import in_thread
from lastout.mcp.waiting import turn_end

__all__ = ["BLOCKING", "ask_agent", "delivered", "ended_with_call", "run_command", "spawn_agent"]

BLOCKING: Final = "mcp.blocking"
"""The label of a job that ends with the server that started it."""

_DEPTH: Final = "mcp.depth"
_OPTIONS: Final = ("model", "effort", "approval", "sandbox")


async def ask_agent(call: Call, asked: AskAgent) -> answers.JobSeen:
    """Blocking: the job ends with the call, and with this server."""
    call.desk.check_depth()
    return await _blocking(call, await _turn(call, asked, keep=0, blocking=True))


async def spawn_agent(call: Call, asked: SpawnAgent) -> answers.JobSeen:
    """In the background: a job of its own."""
    call.desk.check_depth()
    work = await _turn(call, asked, keep=asked.keep_s, blocking=False)
    return await _background(call, work)


async def run_command(call: Call, asked: RunCommand) -> answers.JobSeen:
    """Either way."""
    work = Command(
        argv=tuple(asked.command),
        cwd=call.desk.directory(asked.cwd or None),
        env=call.desk.environment(asked.env),
        timeout=asked.timeout_s,
        name=asked.name or None,
        by=call.by,
        labels=_labels(call, blocking=not asked.background),
    )
    return await (_background if asked.background else _blocking)(call, work)


async def _turn(call: Call, asked: AskAgent, *, keep: float, blocking: bool) -> AgentTurn:
    options = {name: getattr(asked, name) for name in _OPTIONS if getattr(asked, name)}
    agent(asked.agent, home=call.desk.store.state)  # raises ValueError for what is none
    continues = await _ended(call, asked.continue_job) if asked.continue_job else None
    return AgentTurn(
        agent=asked.agent,
        prompt=asked.prompt,
        # One that goes on stays where it was.
        cwd=None if continues and not asked.cwd else call.desk.directory(asked.cwd or None),
        env=call.desk.environment(),
        options=options,
        timeout=asked.timeout_s,
        keep=keep,
        continues=continues,
        name=asked.name or None,
        by=call.by,
        labels=_labels(call, blocking=blocking),
    )


async def _ended(call: Call, word: str) -> str:
    """The id of a job of the asker's that has ended."""
    job = await call.mine(word)
    if not (await in_thread(job.status)).ended:
        raise ToolFailed(sentences.not_ended(job.id))
    return job.id


def _labels(call: Call, *, blocking: bool) -> dict[str, str]:
    labels = {_DEPTH: str(call.desk.depth + 1)}
    return {**labels, BLOCKING: "1"} if blocking else labels


async def _background(call: Call, work: Kind) -> answers.JobSeen:
    job = await call.submit(work)
    return await in_thread(seen.job, job, call.by)


async def _blocking(call: Call, work: Kind) -> answers.JobSeen:
    job = await call.desk.attach(work)
    async with ended_with_call(call, job):
        await turn_end(call, job, seconds=None)
        return await delivered(call, job)


@asynccontextmanager
async def ended_with_call(call: Call, job: Job) -> AsyncIterator[None]:
    """The job is ended when the call is cancelled, or its client goes away, within the block."""
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:

        async def client() -> None:
            await call.desk.gone.wait()
            tasks.cancel_scope.cancel()

        tasks.start_soon(client)
        try:
            yield
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await call.desk.end(job, call.by)
            raise
        except Exception as caught:
            failure = caught  # raised below: in here it would come out as a group
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def delivered(
    call: Call, job: Job, turn: int | None = None, answered: Collection[str] = ()
) -> answers.JobSeen:
    """The job with its result, taken; without one where there is none yet, or a question is open
    that is not among those that were `answered` just now."""

    def look() -> answers.JobSeen:
        now = job.status()
        taken: Any = None
        if all(question.id in answered for question in now.questions):
            try:
                taken = job.take(call.by, turn)
            except NoResult:
                pass
        return seen.job(job, call.by, found=now, result=taken, answered=answered)

    return await in_thread(look)
