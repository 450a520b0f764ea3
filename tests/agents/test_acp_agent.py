"""A real ACP agent (claude-agent-acp): an adapter in Node whose agent is its child."""

from __future__ import annotations

import anyio
import pytest
from real_agents import need

from lastout.agents.events import Question
from lastout.host import open_host

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def installed():
    need("acp")


async def test_used_stopped_in_a_tool_and_resumed(place):
    kind = place.kind("acp")
    async with open_host(state=place.state) as host:
        chat = await host.open("k", kind.adapter, cwd=place.cwd)
        first = await (await chat.send("[[hi]]")).done()
        assert (first.state, first.answer) == ("completed", "hello"), first
        conversation = chat.kept.native
        with chat.events() as events:
            message = await chat.send("[[tree]]")
            async for event in events:
                if isinstance(event, Question):
                    break
            await chat.answer(event.id, "allow")
        await anyio.to_thread.run_sync(place.wait_up)
        assert await chat.stop() == "exited"
        assert message.state == "interrupted"
        again = await (await chat.send("[[hi]]")).done()
        assert (again.state, again.answer) == ("completed", "hello"), again
        assert chat.kept.native == conversation
    commands = [line for line in place.record(message.run) if line["event"] == "command"]
    assert any("sleep 301" in line["command"] for line in commands)


async def test_a_permission_is_denied_and_an_interrupt_cancels_one(place):
    mark = place.directory / "mark"
    place.model.script.scenarios["ask"] = [{"shell": f"touch {mark}"}, {"text": "as you like"}]
    kind = place.kind("acp")
    async with open_host(state=place.state) as host:
        chat = await host.open("k", kind.adapter, cwd=place.cwd)
        for end in ("deny", "interrupt"):
            with chat.events() as events:
                message = await chat.send("[[ask]]")
                async for event in events:
                    if isinstance(event, Question):
                        break
                if end == "deny":
                    await chat.answer(event.id, "deny")
                else:
                    await chat.interrupt()
            await message.done()
            assert message.state in ("completed", "interrupted")
            assert chat.questions == ()
        assert not mark.exists()
