"""Forty conversations at a time, opened, used and torn down, again and again."""

from __future__ import annotations

import anyio
import pytest

pytestmark = pytest.mark.anyio

SCRIPTS = {
    "/say fine": "completed",
    "/run echo x; exit 3\n/say went on": "completed",
    "/fail no": "failed",
    "/background setsid sleep 301\n/say done": "completed",
    "/print rubbish\n/half more\n/say fine": "completed",
    "/exit 9": "failed",
    "/escape trap '' HUP INT TERM; sleep 301; :\n/say done": "completed",
    "/ignore interrupt,stdin,term\n/say deaf": "completed",
}


async def use(host, stage, key: int, number: int) -> None:
    """One conversation in one round: something from the list, and then it still answers."""
    chat = await host.open(f"k{key}", stage.agent("--lock"))
    script = list(SCRIPTS)[(key + number) % len(SCRIPTS)]
    message = await (await chat.send(script, id=f"{number}a")).done()
    assert message.state == SCRIPTS[script]
    assert (await (await chat.send("hello", id=f"{number}b")).done()).state == "completed"


async def forty(stage, rounds: int) -> None:
    for number in range(rounds):
        async with stage.host() as host:
            async with anyio.create_task_group() as tasks:
                for key in range(40):
                    tasks.start_soon(use, host, stage, key, number)
            chats = host.conversations
        for key in range(40):
            said = stage.said(chats[f"k{key}"].kept.native)
            assert len(said) == 2 * (number + 1)


async def test_forty_conversations_opened_used_and_torn_down(stage):
    await forty(stage, 1)


@pytest.mark.torture
async def test_forty_conversations_ten_times(stage):
    await forty(stage, 10)
