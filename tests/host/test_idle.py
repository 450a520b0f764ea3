"""An agent without work is closed after a while; one that owes something is not."""

from __future__ import annotations

import anyio
import pytest

from lastout.agents.events import Question
from lastout.host.events import AgentEnded, StateChanged

pytestmark = pytest.mark.anyio

IDLE = 0.3


def resting(event) -> bool:
    return isinstance(event, StateChanged) and event.state == "resting"


async def test_an_idle_agent_rests_and_the_next_message_resumes_the_conversation(stage, until):
    async with stage.host(idle=IDLE) as host:
        chat = await host.open("k", stage.agent("--server", "sleep 302"))
        message, ended = await until(
            chat, lambda: chat.send("hello"), lambda event: isinstance(event, AgentEnded)
        )
        assert (ended.verdict, ended.run) == ("exited", message.run)
        assert ended.why.startswith("it rested")
        (note,) = [line for line in stage.lines(message.run) if line["event"] == "note"]
        assert note["text"] == "The host asked for the end: it rested."
        again = await (await chat.send("again")).done()
        assert again.run != message.run
        assert stage.said(chat.kept.native) == ["hello", "again"]


async def test_what_an_agent_says_while_it_idles_does_not_keep_it(stage, until):
    async with stage.host(idle=IDLE) as host:
        chat = await host.open("k", stage.agent("--chatter", "0.05"))
        _, ended = await until(
            chat, lambda: chat.send("hello"), lambda event: isinstance(event, AgentEnded)
        )
        assert ended.why.startswith("it rested")


async def test_a_running_turn_a_question_and_a_task_in_the_background_are_work(stage, until):
    async with stage.host(idle=IDLE) as host:
        running = await host.open("running", stage.agent())
        asking = await host.open("asking", stage.agent())
        background = await host.open("background", stage.agent())
        await running.send("/run sleep 302")
        await until(
            asking, lambda: asking.send("/ask true"), lambda event: isinstance(event, Question)
        )
        await (await background.send("/background sleep 302")).done()
        await anyio.sleep(5 * IDLE)
        assert [chat.state for chat in (running, asking, background)] == [
            "running", "running", "ready",
        ]  # fmt: skip
        _, _ = await until(background, lambda: background.stop_task("all"), resting)


async def test_a_message_that_comes_in_the_instant_of_the_rest_is_answered(stage):
    async with stage.host(idle=0.02) as host:
        chat = await host.open("k", stage.agent("--lock"))
        for number in range(20):
            message = await (await chat.send(f"number {number}")).done()
            assert message.state == "completed"
            await anyio.sleep(0.015 + number % 5 * 0.004)
        assert stage.said(chat.kept.native) == [f"number {number}" for number in range(20)]


async def test_what_is_queued_while_it_rests_is_kept(stage, until):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent("--ignore", "interrupt,stdin"))
        await (await chat.send("hello")).done()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(chat.rest)
            while chat.state != "stopping":
                await anyio.sleep(0)
            message = await chat.send("again")
        assert (await message.done()).state == "completed"
