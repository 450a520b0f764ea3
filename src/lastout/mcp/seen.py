"""Turns what is kept of a job into what a tool answers."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

import msgspec

from lastout.jobs import feed, result, status
from lastout.jobs.job import Job
from lastout.mcp import answers, sentences
from lastout.mcp.newest import commands_that_failed

__all__ = ["LONGEST_ANSWER", "LONGEST_OUTPUT", "failures", "job", "turn_result"]

LONGEST_OUTPUT: Final = 20_000
"""Characters of a stream in an answer: a model pays for each, and clients cut what is longer."""

LONGEST_ANSWER: Final = 50_000
"""Characters of an agent's answer."""

_LONGEST_PIECE: Final = 1_000
_FAILURES: Final = 20


def job(
    one: Job,
    mine: str,
    *,
    found: status.Status | None = None,
    result: result.Result | None = None,
    events: Iterable[feed.FeedEvent] = (),
    answered: Collection[str] = (),
) -> answers.JobSeen:
    """A job as the asker `mine` sees it; `result` is the turn's that is handed over with it.

    Questions that were `answered` just now, and may not have been taken away yet, are left out.
    """
    now = found if found is not None else one.status()
    now = msgspec.structs.replace(
        now, questions=tuple(each for each in now.questions if each.id not in answered)
    )
    return answers.JobSeen(
        job=now.id,
        state=now.state,
        kind=now.kind,
        yours=now.by == mine,
        asked_by=now.by,
        name=now.name,
        title=now.title,
        agent=now.agent,
        cwd=now.cwd or None,
        place_in_queue=now.place,
        turn=now.turn,
        progress=now.progress,
        questions=[_question(each) for each in now.questions],
        result=turn_result(one, result) if result is not None else None,
        events=[_event(each) for each in events],
        failed=now.failed,
        why=now.why,
        reason=now.reason,
        problem=now.problem,
        next=sentences.what_next(now, now.by == mine, handed=result is not None),
    )


def turn_result(one: Job, what: result.Result) -> answers.TurnResult:
    """A result, with the output of a command and the failed commands of an agent."""
    return answers.TurnResult(
        turn=what.turn,
        failed=what.failed,
        why=what.why,
        reason=what.reason,
        ended_by=what.ended_by,
        status=what.status,
        answer=what.answer and sentences.both_ends(what.answer, LONGEST_ANSWER),
        exit_code=what.code,
        signal=what.signal,
        stdout=_output(one, "stdout", what.stdout),
        stderr=_output(one, "stderr", what.stderr),
        bytes_left_out=what.dropped,
        failed_commands=failures(one, turn=what.turn) if what.stdout is None else [],
        stopped=[_process(each) for each in what.stopped],
        stopped_count=what.stopped_count,
        remaining=[_process(each) for each in what.remaining],
        remaining_count=what.remaining_count,
        locks=[
            answers.Lock(pid=lock.pid, name=lock.name, path=lock.path, kind=lock.kind)
            for lock in what.locks
        ],
        undelivered_messages=list(what.undelivered),
        runs=list(what.runs),
        omitted=what.omitted,
    )


def failures(one: Job, *, after: int = 0, turn: int | None = None) -> list[answers.CommandFailure]:
    """The commands that failed, the last of them when there are many: the feed keeps each, whatever
    the agent did afterwards."""
    return [
        answers.CommandFailure(
            command=event.command,
            status=event.status,
            exit_code=event.exit_code,
            output=sentences.end_of(event.output, _LONGEST_PIECE),
        )
        for event in commands_that_failed(one, after, turn)[-_FAILURES:]
    ]


def _output(one: Job, stream: Any, kept: result.Output | None) -> str | None:
    if kept is None:
        return None
    head, dropped, tail = one.output(stream)
    text = head.decode("utf-8", "replace")
    if dropped or tail:
        text = f"{text}{sentences.left_out(dropped)}{tail.decode('utf-8', 'replace')}"
    return sentences.both_ends(text, LONGEST_OUTPUT)


def _question(one: status.Question) -> answers.Question:
    return answers.Question(
        id=one.id,
        kind=one.kind,
        prompt=one.prompt,
        choices=[
            answers.Choice(id=each.id, meaning=each.meaning, label=each.label)
            for each in one.choices
        ],
        fields=list(one.fields),
    )


def _process(one: result.Process) -> answers.Process:
    return answers.Process(pid=one.pid, start=one.start, name=one.name)


def _event(event: feed.FeedEvent) -> answers.Event:
    detail = dict(msgspec.to_builtins(event))
    kind = str(detail.pop("event", "?"))
    for known in ("seq", "at", "turn"):
        detail.pop(known, None)
    for key, value in detail.items():
        if isinstance(value, str):
            detail[key] = sentences.end_of(value, _LONGEST_PIECE)
    return answers.Event(seq=event.seq, event=kind, at=event.at, turn=event.turn, detail=detail)
