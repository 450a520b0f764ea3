"""Tools for jobs that are there: look, take, send, answer, end."""

from __future__ import annotations

from lastout.jobs.errors import NoResult
from lastout.jobs.result import Result
from lastout.mcp import answers, seen, sentences
from lastout.mcp.arguments import (
    JobAnswer,
    JobCancel,
    JobList,
    JobMessage,
    JobResult,
    JobStatus,
)
from lastout.mcp.asking import BLOCKING, delivered, ended_with_call
from lastout.mcp.desk import Call, ToolFailed
from lastout.mcp.newest import last_number, newest
from lastout.mcp.threads import in_thread
from lastout.mcp.waiting import turn_end

__all__ = ["job_answer", "job_cancel", "job_list", "job_message", "job_result", "job_status"]

_LISTED = 100


async def job_status(call: Call, asked: JobStatus) -> answers.JobSeen:
    """Anybody's job; nothing is taken."""
    job = await call.find(asked.job)

    def look() -> answers.JobSeen:
        found = seen.job(job, call.by, events=newest(job, asked.after, asked.limit))
        found.failed_commands = seen.failures(job, after=asked.after)
        return found

    return await in_thread(look)


async def job_result(call: Call, asked: JobResult) -> answers.JobSeen:
    """Own results are taken; others' can be looked at, which takes nothing."""
    job = await call.find(asked.job)
    turn = asked.turn or None
    if asked.wait_s:
        await turn_end(
            call, job, seconds=asked.wait_s, turn=turn, after=await in_thread(last_number, job)
        )
    if (await in_thread(job.status)).by == call.by:
        return await delivered(call, job, turn)

    def look() -> answers.JobSeen:
        found: Result | None = None
        try:
            found = job.result(turn)
        except NoResult:
            pass
        return seen.job(job, call.by, result=found)

    return await in_thread(look)


async def job_message(call: Call, asked: JobMessage) -> answers.JobSeen:
    """The next turn of an agent in the background."""
    job = await call.mine(asked.job)
    after = await in_thread(last_number, job)
    await in_thread(job.message, asked.text, asked.id or None, call.by)
    if not asked.wait_s:
        return await in_thread(seen.job, job, call.by)
    await turn_end(call, job, seconds=asked.wait_s, after=after)
    return await delivered(call, job)


async def job_answer(call: Call, asked: JobAnswer) -> answers.JobSeen:
    """A job that blocks is waited for again, and ends with this call then."""
    job = await call.mine(asked.job)
    now = await in_thread(job.status)
    question = asked.question or None
    if question is None:
        if len(now.questions) != 1:
            raise ToolFailed(sentences.which_question(len(now.questions)))
        question = now.questions[0].id
    after = await in_thread(last_number, job)
    await in_thread(job.answer, question, asked.choice, fields=asked.fields or None, by=call.by)
    seconds = asked.wait_s if isinstance(asked.wait_s, int | float) else None
    if BLOCKING in now.labels and seconds is None:
        async with ended_with_call(call, job):
            await turn_end(call, job, seconds=None, after=after, answered=[question])
            return await delivered(call, job, answered=[question])
    if seconds:
        await turn_end(call, job, seconds=seconds, after=after, answered=[question])
        return await delivered(call, job, answered=[question])
    return await in_thread(seen.job, job, call.by, answered=[question])


async def job_cancel(call: Call, asked: JobCancel) -> answers.JobSeen:
    """Waits until nothing is left of it."""
    job = await call.mine(asked.job)
    await in_thread(job.cancel, "abort", call.by)
    async for _ in job.follow(await in_thread(last_number, job)):
        pass  # it has ended when there are no more
    try:
        # Of a job that ended between two turns, whose results are there already.
        between = await in_thread(job.result, 0)
    except NoResult:
        return await delivered(call, job)
    return await in_thread(seen.job, job, call.by, result=between)


async def job_list(call: Call, asked: JobList) -> answers.JobList:
    """The newest first, the oldest left out when there are many."""

    def look() -> answers.JobList:
        by = call.by if asked.whose == "mine" else None
        found = list(reversed(call.desk.store.list(by=by, states=asked.states or None)))
        shown = [
            seen.job(call.desk.store.get(one.id), call.by, found=one) for one in found[:_LISTED]
        ]
        return answers.JobList(jobs=shown, left_out=max(0, len(found) - _LISTED))

    return await in_thread(look)
