"""A conversation with an agent: events, a question, a stop. `python examples/conversation.py codex`."""

from __future__ import annotations

import sys

import anyio

from lastout.agents.events import CommandEnded, CommandStarted, Question, Text
from lastout.host import Conversation, open_host


async def show(chat: Conversation) -> None:
    with chat.events() as events:
        async for event in events:
            match event:
                case Text():
                    print(event.text, end="", flush=True)
                case CommandStarted():
                    print(f"\n$ {event.command}")
                case CommandEnded():
                    print(f"  {event.status}, exit code {event.exit_code}")
                case Question():
                    print(f"\n{event.prompt}: allowed")
                    await chat.answer(event.id, "allow")


async def main(agent: str) -> None:
    async with open_host() as host:
        for found in host.found:
            print(f"{found.key}: {found.how or found.left}")
        chat = await host.open("example", agent)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(show, chat)
            await anyio.lowlevel.checkpoint()
            message = await chat.send("List the files in this directory with ls.")
            with anyio.move_on_after(60):
                await message.done()
            print(f"\n{message!r}")
            print(f"stopped: {await chat.stop()}; the record tells more: lastout why {message.run}")
            tasks.cancel_scope.cancel()


anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else "scripted")
