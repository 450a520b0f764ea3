"""The host: opens conversations, recovers those of hosts before it, and quits within its bound."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from lastout.agents.adapter import Adapter
from lastout.agents.dialogue import Options
from lastout.agents.registry import agent as agent_by_name
from lastout.host.bounds import IDLE, QUIT, SLACK, check_budget
from lastout.host.claims import Claims, open_claims
from lastout.host.conversation import Conversation
from lastout.host.errors import HostError, OtherAgent
from lastout.host.ledger import Kept, Ledger
from lastout.host.recovered import Found, settle_orphans
from lastout.host.worker import Worker
from lastout.identity import take
from lastout.state import state_dir
from lastout.verdict import UNPROVEN

__all__ = ["Host", "open_host"]


class Host:
    """Conversations with agents, in one process. `open_host` makes it."""

    def __init__(
        self,
        ledger: Ledger,
        claims: Claims,
        tasks: TaskGroup,
        agents: Mapping[str, Adapter],
        *,
        state: Path,
        quit_bound: float,
        idle: float,
    ) -> None:
        self.found: list[Found] = []
        """What was found of earlier hosts at the start."""
        self._ledger = ledger
        self._claims = claims
        self._tasks = tasks
        self._agents = dict(agents)
        self._state = state
        self._quit_bound = quit_bound
        self._idle = idle
        self._me = take(os.getpid())
        self._open: dict[str, Conversation] = {}
        self._quitting = False

    @property
    def conversations(self) -> dict[str, Conversation]:
        """Those that are open here, by key."""
        return dict(self._open)

    def key_of(self, agent: str, native: str) -> str | None:
        """The key of the conversation that this kind of agent knows by this name, where one is
        stored: it must not get a second one."""
        return next(
            (
                kept.key
                for kept in self._ledger.conversations()
                if kept.native == native and kept.agent.partition(":")[0] == agent.partition(":")[0]
            ),
            None,
        )

    def known(self) -> list[Kept]:
        """Every conversation that is stored, open or not."""
        return self._ledger.conversations()

    async def open(
        self,
        key: str,
        agent: Adapter | str | None = None,
        *,
        cwd: str | os.PathLike[str] | None = None,
        options: Options | None = None,
        native: str | None = None,
        umask: int | None = None,
    ) -> Conversation:
        """Open a conversation, new or stored; no agent is started before its first message.

        `native` is the agent's own name of a conversation that a new key is to go on with; `umask`
        is for its agents, None leaves them ours.

        `agent` is an adapter or a name (`codex`, `claude`, `acp:COMMAND`, ...), and may be left out
        for a stored conversation. Raises OtherAgent when the key belongs to another kind,
        ValueError for an agent that could not be ended within the host's quit.
        """
        if self._quitting:
            raise HostError("the host is quitting")
        if key in self._open and self._open[key].state != "closed":
            return self._open[key]
        kept = self._ledger.conversation(key)
        name, adapter = self._adapter(key, agent, kept)
        check_budget(adapter.graces, self._quit_bound)
        if kept is None:
            where = str(Path.cwd() / (cwd or ""))
            kept = Kept(key, name, where, options or Options(), native)
            self._ledger.keep(kept)
        settle_orphans(self._ledger, key, lambda _: adapter)
        worker = Worker(kept, adapter, self._ledger, self._claims, self._tasks, self._idle)
        worker.umask = umask
        if any(found.key == key and found.verdict == UNPROVEN for found in self.found):
            worker.state = "unproven"
        conversation = Conversation(worker, self._me)
        self._open[key] = conversation
        self._tasks.start_soon(worker.work)
        if options is not None and options != kept.options:
            changes = {name: getattr(options, name) for name in options.__slots__}
            await conversation.configure(**changes)
        return conversation

    async def quit(self) -> dict[str, str]:
        """End everything, all at once, within the quit's bound; gives each conversation's end.

        `overdue`: its agent was not seen to end in time. It stays in its supervisor's hands, the
        lease stays marked as ours, and the next start recovers it.
        """
        self._quitting = True
        began = anyio.current_time()
        deadline = began + self._quit_bound - SLACK
        ends = dict.fromkeys(self._open, "overdue")

        async def end(key: str, conversation: Conversation) -> None:
            live = conversation.run
            await conversation.close(deadline=deadline)
            ends[key] = "closed" if live is None else conversation.last_verdict or "overdue"

        with anyio.move_on_after(self._quit_bound - SLACK / 2):
            async with anyio.create_task_group() as tasks:
                for key, conversation in self._open.items():
                    tasks.start_soon(end, key, conversation)
        return ends

    async def recover(self) -> None:
        """Deal with the agents and messages of hosts that are gone; part of `open_host`."""
        keys = [kept.key for kept in self._ledger.conversations()]
        self.found = await self._claims.recover(keys)
        settle_orphans(self._ledger, None, self._adapter_of)

    def _adapter(
        self, key: str, agent: Adapter | str | None, kept: Kept | None
    ) -> tuple[str, Adapter]:
        if agent is None:
            if kept is None:
                raise ValueError(f"{key!r} is new: which agent?")
            agent = kept.agent
        name = agent if isinstance(agent, str) else agent.name
        adapter = self._named(name) if isinstance(agent, str) else agent
        if kept is not None and kept.agent.partition(":")[0] != name.partition(":")[0]:
            raise OtherAgent(f"{key!r} is a conversation with {kept.agent}, not with {name}")
        return name, adapter

    def _named(self, name: str) -> Adapter:
        known = self._agents.get(name)
        if known is not None:
            return known
        return agent_by_name(name, home=str(self._state / "scripted"))

    def _adapter_of(self, kept: Kept) -> Adapter | None:
        try:
            return self._named(kept.agent)
        except ValueError:
            return None


@asynccontextmanager
async def open_host(
    *,
    state: str | os.PathLike[str] | None = None,
    agents: Mapping[str, Adapter] | None = None,
    quit_bound: float = QUIT,
    idle: float = IDLE,
) -> AsyncIterator[Host]:
    """A host for the length of the block; nothing that it started is alive after the block.

    `state` is the state directory, `agents` are adapters by name beside the built-in ones.
    `quit_bound` (seconds) bounds the end of the block; `idle` (seconds) is how long an agent
    without work stays. Conversations of hosts that are gone are recovered before the block begins.
    """
    directory = state_dir(state)
    ledger = Ledger(directory)
    failure: Exception | None = None
    try:
        async with open_claims(directory) as claims, anyio.create_task_group() as tasks:
            host = Host(
                ledger,
                claims,
                tasks,
                agents or {},
                state=directory,
                quit_bound=quit_bound,
                idle=idle,
            )
            try:
                await host.recover()
                yield host
            except Exception as caught:
                failure = caught  # raised below: in here it would come out as a group
            finally:
                with anyio.CancelScope(shield=True):
                    await host.quit()
                tasks.cancel_scope.cancel()
    finally:
        ledger.close()
    if failure is not None:
        raise failure
