"""What an agent's job opens: which agent, and which conversation, under which key.

A conversation has one key for as long as it goes on, through all jobs that continue each other, so
that the key's lease keeps a second writer away. Each job that has opened one notes it in its own
directory; there the next job finds it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from lastout.durable import replace
from lastout.jobs import layout, reading
from lastout.jobs import turns_sentences as sentences
from lastout.jobs.errors import NoSuchJob
from lastout.jobs.spec import AgentTurn, Command, Spec

if TYPE_CHECKING:
    from lastout.agents.adapter import Adapter
    from lastout.agents.dialogue import Options

__all__ = [
    "NOTE",
    "Opening",
    "adapter",
    "checked",
    "continued",
    "forget",
    "note",
    "noted",
    "opening",
]

NOTE: Final = "conversation.json"
_OURS: Final = "job/"
_LONGEST_CHAIN: Final = 1000


class Opening(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A conversation: its key, its agent, and where it lives; `native` is the agent's own id."""

    key: str
    agent: str
    cwd: str
    native: str | None = None


def checked(state: str, work: AgentTurn) -> AgentTurn:
    """The work as its job will do it.

    Raises ValueError for an agent or an option that there is not, and for a job that cannot be
    continued; NoSuchJob, NewerSpec.
    """
    if work.continues is not None:
        if work.conversation is not None:
            raise ValueError(sentences.one_conversation())
        before = reading.spec(state, work.continues)
        if reading.final(state, before.id) is None:
            raise ValueError(sentences.not_ended(before.id))
        work = continued(work, before)
    adapter(work, state)
    return work


def continued(work: AgentTurn, before: Spec) -> AgentTurn:
    """The work of a job that goes on with another job's conversation.

    What it does not say is as in that job; the environment is the caller's. Raises ValueError for a
    job without a conversation, or with another kind of agent.
    """
    known = before.work
    if isinstance(known, Command):
        raise ValueError(sentences.no_conversation(before.id))
    name = work.agent or known.agent
    if _kind(name) != _kind(known.agent):
        raise ValueError(sentences.other_agent(before.id, _kind(known.agent), _kind(name)))
    return msgspec.structs.replace(
        work,
        agent=name,
        continues=before.id,
        cwd=work.cwd or known.cwd,
        options={**known.options, **work.options},
        program=work.program or known.program,
    )


def opening(state: str, spec: Spec) -> Opening:
    """Which conversation a job is in.

    Raises ValueError when the job that it continues is gone, so that nobody knows.
    """
    work = spec.work
    assert isinstance(work, AgentTurn)
    here, before = _own(spec), work.continues
    for _ in range(_LONGEST_CHAIN):
        if before is None:
            return here
        found = noted(state, before)
        if found is not None:
            return msgspec.structs.replace(found, agent=work.agent)
        try:
            earlier = reading.spec(state, before)
        except NoSuchJob:
            break
        if not isinstance(earlier.work, AgentTurn):
            break
        # It was never started: its conversation is the one that it would have opened.
        here, before = _own(earlier), earlier.work.continues
    raise ValueError(sentences.gone(before or ""))


def note(directory: str, opened: Opening) -> None:
    """Remember, in the job's directory, what was opened. Raises OSError."""
    replace(os.path.join(directory, NOTE), msgspec.json.encode(opened))


def forget(state: str, opened: Iterable[Opening]) -> None:
    """Jobs are removed: with the last one of a conversation goes what is stored of that.

    A conversation that was there before its jobs is left alone.
    """
    from lastout.host.ledger import Ledger

    keys = {one.key for one in opened if one.key.startswith(_OURS)}
    if not keys:
        return
    for name in filter(layout.is_id, os.listdir(layout.jobs_directory(state))):
        if (other := noted(state, name)) is not None:
            keys.discard(other.key)
    ledger = Ledger(state)
    try:
        for key in keys:
            ledger.forget(key)
    finally:
        ledger.close()


def adapter(work: AgentTurn, state: str) -> tuple[Adapter, Options]:
    """The agent as the job wants it, and how it is to work. Raises ValueError.

    `args` among the options are more arguments for the agent.
    """
    from lastout.agents.dialogue import Options
    from lastout.agents.registry import agent

    given = dict(work.options)
    args = given.pop("args", ())
    if isinstance(args, str) or not all(isinstance(word, str) for word in args):
        raise ValueError("the option args is a list of strings")
    options = Options().updated({name: _word(name, value) for name, value in given.items()})
    made = agent(
        work.agent,
        program=work.program,
        args=tuple(args),
        home=os.path.join(state, "scripted"),
        env=work.env,
    )
    return made, options


def _own(spec: Spec) -> Opening:
    """The conversation of a job that continues no other."""
    work = spec.work
    assert isinstance(work, AgentTurn)
    named = _OURS + spec.id
    if work.conversation is not None:
        named = f"{_kind(work.agent)}:{work.conversation}"
    cwd = work.cwd or os.getcwd()
    return Opening(key=named, agent=work.agent, cwd=cwd, native=work.conversation)


def _kind(name: str) -> str:
    return name.partition(":")[0]


def _word(name: str, value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError(sentences.unread(name, value))
    return value


def noted(state: str, job: str) -> Opening | None:
    """What a job has opened; None where it has not, or is gone."""
    try:
        with open(os.path.join(layout.job_directory(state, job), NOTE), "rb") as file:
            return msgspec.json.decode(file.read(), type=Opening)
    except (OSError, msgspec.MsgspecError):
        return None
