"""A stop ends the agent and everything that it started; the conversation goes on with a fresh one."""

from __future__ import annotations

import time

import anyio
import pytest

from lastout.graces import MARGIN, Graces
from lastout.host import NotStarted, StillRunning
from lastout.host.bounds import DRAIN

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


COMMANDS = {
    "foreground": "/run sleep 301",
    "background": "/background sleep 301\n/run sleep 302",
    "setsid": "/background setsid sleep 301\n/run sleep 302",
    "stubborn": "/stubborn sleep 301",
    "escaped": "/escape sleep 301\n/run sleep 302",
    "escaped and stubborn": "/escape trap '' HUP INT TERM; sleep 301; :\n/stubborn sleep 302",
}


def started(event) -> bool:
    return type(event).__name__ == "CommandStarted" and "302" in event.command + "302"


async def test_a_reason_that_no_supervisor_knows_ends_nothing(stage):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        before = await (await chat.send("hello")).done()
        for ask in (chat.stop, chat.finish, chat.close):
            with pytest.raises(ValueError, match="not 'quit'"):
                await ask(reason="quit")
        after = await (await chat.send("hello")).done()
        assert after.run == before.run


@pytest.mark.parametrize("what", COMMANDS)
async def test_after_a_stop_nobody_is_left_and_the_next_message_starts_a_fresh_agent(
    stage, until, what
):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent("--lock"))
        message, _ = await until(chat, lambda: chat.send(COMMANDS[what]), started)
        assert await chat.stop() == "exited"
        assert message.state == "interrupted"
        (gone,) = [line for line in stage.lines(message.run) if line["event"] == "tree-gone"]
        assert gone["remaining"] == 0
        after = await (await chat.send("hello")).done()
        assert (after.state, after.answer) == ("completed", "you said: hello ")
        assert after.run != message.run
        first, second = (
            next(line for line in stage.lines(run) if line["event"] == "started")["epoch"]
            for run in (message.run, after.run)
        )
        assert second > first
        assert stage.said(chat.kept.native) == [COMMANDS[what], "hello"]


async def test_what_is_queued_is_returned_by_a_stop_and_can_be_sent_again(stage, until):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        await until(chat, lambda: chat.send("/run sleep 302"), started)
        waiting = await chat.send("hello", id="w")
        await chat.stop()
        assert (waiting.state, "stopped" in waiting.reason) == ("returned", True)
        again = await chat.send("hello", id="w")
        assert (await again.done()).state == "completed"
        assert stage.said(chat.kept.native)[1:] == ["hello"]


async def test_a_stop_while_the_agent_is_starting_ends_that_start(stage):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent("--slow", "60"))
        message = await chat.send("hello")
        while chat.run is None:
            await anyio.sleep(0.01)
        await chat.stop()
        assert (message.state, chat.state) == ("returned", "resting")
        goal = host.conversations["k"]
        with anyio.move_on_after(0.2):
            await goal.goal("wait for the start")
        await chat.stop()


async def test_an_operation_that_waits_for_a_start_learns_that_it_was_stopped(stage):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent("--slow", "60"))
        async with anyio.create_task_group() as tasks:

            async def stop() -> None:
                while chat.run is None:
                    await anyio.sleep(0.01)
                await chat.stop()

            tasks.start_soon(stop)
            with pytest.raises(NotStarted, match="stopped"):
                await chat.goal("win")


async def test_two_stops_at_once_are_one(stage, until):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        message, _ = await until(chat, lambda: chat.send("/run sleep 302"), started)
        verdicts = []

        async def stop() -> None:
            verdicts.append(await chat.stop())

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(stop)
        assert verdicts == ["exited"] * 5
        assert [line["event"] for line in stage.lines(message.run)].count("stop") == 1


async def test_an_agent_that_ignores_everything_is_gone_within_its_bound(stage, until):
    graces = Graces(stdin=0.3, term=0.5, reap=1.5)
    async with stage.host() as host:
        agent = stage.agent("--ignore", "interrupt,stdin,term", graces=graces)
        chat = await host.open("k", agent)
        message, _ = await until(chat, lambda: chat.send("/stubborn sleep 302"), started)
        began = time.monotonic()
        assert await chat.stop() == "exited"
        assert time.monotonic() - began < DRAIN + graces.max_stop + MARGIN
        assert message.state == "interrupted"
        kill = [line for line in stage.lines(message.run) if line["event"] == "signalled"][-1]
        assert kill["signal"] == "KILL"
        calm = await host.open("k2", stage.agent())
        assert (await (await calm.send("hello")).done()).state == "completed"


async def test_a_stop_now_waits_for_no_grace(stage, until):
    async with stage.host(quit_bound=40.0) as host:
        slow = Graces(stdin=10, term=15, reap=5)
        chat = await host.open("k", stage.agent("--ignore", "interrupt,stdin,term", graces=slow))
        await until(chat, lambda: chat.send("/run sleep 302"), started)
        began = time.monotonic()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(chat.stop)
            await anyio.sleep(0.1)
            await chat.stop(now=True)
        assert time.monotonic() - began < slow.stdin


async def test_while_the_agent_is_being_stopped_nothing_is_changed_beside_it(stage, until):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent("--ignore", "interrupt,stdin,term"))
        await until(chat, lambda: chat.send("/run sleep 302"), started)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(chat.stop)
            while chat.state != "stopping":
                await anyio.sleep(0)
            for change in (
                lambda: chat.configure(model="large"),
                lambda: chat.answer("1", "allow"),
                lambda: chat.stop_task("all"),
                lambda: chat.goal("win"),
            ):
                with pytest.raises(StillRunning, match="may still be running"):
                    await change()


async def test_a_message_sent_during_a_stop_is_answered_by_the_next_agent(stage, until):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent("--lock", "--ignore", "interrupt,stdin"))
        message, _ = await until(chat, lambda: chat.send("/run sleep 302"), started)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(chat.stop)
            while chat.state != "stopping":
                await anyio.sleep(0)
            after = await chat.send("hello")
        assert (await after.done()).state == "completed"
        assert after.run != message.run
