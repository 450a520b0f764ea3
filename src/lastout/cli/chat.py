"""`lastout chat`: a conversation with an agent in the terminal."""

from __future__ import annotations

import os
from typing import Any

import click

from lastout.cli._options import STATE
from lastout.cli._plain import plain

__all__ = ["command"]


@click.command("chat")
@click.argument("agent")
@click.option(
    "--key",
    metavar="KEY",
    help="The conversation's name, to come back to it. [default: the agent and this directory]",
)
@click.option("--model", metavar="MODEL", help="The model, in the agent's own words.")
@click.option("--effort", metavar="EFFORT", help="How hard it is to think, in its own words.")
@click.option(
    "--approval", metavar="MODE", help="When it asks before it acts: on-request, acceptEdits, ..."
)
@click.option("--sandbox", metavar="MODE", help="Codex: read-only, workspace-write, ...")
@click.option("--program", metavar="PATH", help="The agent's program, where it is not on PATH.")
@STATE
def command(
    agent: str,
    key: str | None,
    model: str | None,
    effort: str | None,
    approval: str | None,
    sandbox: str | None,
    program: str | None,
    state: str | None,
) -> None:
    """Talk with an agent in the terminal.

    AGENT is codex, claude, acp:COMMAND, command:COMMAND, or scripted. Its commands are shown as
    they run. Ctrl-C interrupts the turn, twice stops the agent; Ctrl-D ends the chat, and with it
    everything that the agent started. The same key takes the conversation up again. /help tells
    what else can be typed.

    \b
    Examples:
      lastout chat codex
      lastout chat claude --key refactoring --model opus
      lastout chat acp:claude-agent-acp
      echo "What is in here?" | lastout chat codex
    """
    import anyio

    from lastout.agents.registry import agent as adapter_by_name
    from lastout.cli._chat_loop import Chat
    from lastout.here import working_directory
    from lastout.host.host import open_host

    given = {"model": model, "effort": effort, "approval": approval, "sandbox": sandbox}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    status: list[int] = []

    async def talk() -> None:
        name = key or f"chat:{agent.partition(':')[0]}:{working_directory()}"
        adapters = {}
        if program is not None:
            adapters[agent] = adapter_by_name(agent, program=program)
        async with open_host(state=state, agents=adapters) as host:
            conversation = await host.open(name, agent)
            if changes:
                await conversation.configure(**changes)
            status.append(await Chat(conversation).run())

    with plain():
        anyio.run(talk)
    # A thread may still wait for a line of the terminal: it holds nobody up.
    os._exit(status[0] if status else 1)
