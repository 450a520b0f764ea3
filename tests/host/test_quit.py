"""A quit ends everything, all at once, within its bound; what it cannot end stays marked as owned."""

from __future__ import annotations

import time

import anyio
import pytest

from harness.freezer import freezer
from lastout import sole_writer
from lastout.agents import Claude, Codex, Command, Scripted
from lastout.agents.acp import Acp
from lastout.agents.events import Question
from lastout.graces import DEFAULT, MARGIN, Graces
from lastout.host import IDLE, QUIT, HostError
from lastout.host.bounds import DRAIN, SLACK, quit_need

pytestmark = pytest.mark.anyio


def test_the_constants_fit_below_the_quit():
    """Fails when any of them grows: the sum is what DESIGN and the docs promise."""
    assert (DRAIN, DEFAULT.max_stop, MARGIN, SLACK) == (1.0, 5.5, 0.5, 0.5)
    assert DRAIN + DEFAULT.max_stop + MARGIN + SLACK < QUIT == 8.0
    assert IDLE == 30 * 60


@pytest.mark.parametrize("adapter", [Codex, Claude, Acp, Command, Scripted])
def test_every_agents_own_bound_fits_below_the_quit(adapter):
    assert quit_need(adapter.graces) < QUIT


async def test_an_agent_that_needs_longer_than_the_quit_is_refused(stage):
    async with stage.host() as host:
        with pytest.raises(ValueError, match="shorten its graces"):
            await host.open("k", stage.agent(graces=Graces(stdin=1, term=5, reap=1.5)))
    async with stage.host(quit_bound=12.0) as host:
        await host.open("k", stage.agent(graces=Graces(stdin=1, term=5, reap=1.5)))


async def test_a_quit_of_many_idle_conversations_is_quick(stage):
    async with stage.host() as host:
        chats = [await host.open(f"k{number}", stage.agent()) for number in range(20)]
        for message in [await chat.send("hello") for chat in chats]:
            assert (await message.done()).state == "completed"
        began = time.monotonic()
        ends = await host.quit()
        assert time.monotonic() - began < 5.0
        assert set(ends.values()) == {"exited"}
        with pytest.raises(HostError, match="quitting"):
            await host.open("another", stage.agent())


async def test_a_quit_of_agents_that_ignore_everything_takes_one_ladder_for_all(stage, until):
    graces = Graces(stdin=0.3, term=1.0, reap=1.5)
    count = 8
    async with stage.host() as host:
        chats = []
        for number in range(count):
            agent = stage.agent("--ignore", "interrupt,stdin,term", graces=graces)
            chats.append(await host.open(f"k{number}", agent))
        messages = [await chat.send("/stubborn sleep 302") for chat in chats]
        for message in messages:
            while message.state != "delivered":
                await anyio.sleep(0.01)
        began = time.monotonic()
        ends = await host.quit()
        assert time.monotonic() - began < DRAIN + graces.max_stop + MARGIN + SLACK
        assert set(ends.values()) == {"exited"}
        assert {message.state for message in messages} == {"interrupted"}


async def test_an_approval_that_is_open_at_the_quit_is_interrupted(stage, until):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        message, _ = await until(
            chat, lambda: chat.send("/ask sleep 302"), lambda event: isinstance(event, Question)
        )
    assert message.state == "interrupted"
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        assert chat.questions == ()
        assert (await (await chat.send("hello")).done()).state == "completed"


async def test_what_waits_at_the_quit_is_returned(stage, until):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        await chat.send("/run sleep 302")
        waiting = await chat.send("hello")
    assert (waiting.state, "closed" in waiting.reason) == ("returned", True)


async def test_a_quit_ends_agents_that_are_still_starting(stage):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent("--slow", "60", "--ignore", "stdin"))
        message = await chat.send("hello")
        while chat.run is None or chat._worker.live.session is None:
            await anyio.sleep(0.01)
        began = time.monotonic()
    assert time.monotonic() - began < QUIT
    assert message.state == "returned"


async def test_a_quit_that_cannot_finish_returns_in_time_and_the_next_start_recovers(stage):
    graces = Graces(stdin=0.2, term=0.3, reap=0.3)
    bound = 3.0
    async with stage.host(quit_bound=bound) as host:
        chat = await host.open("k", stage.agent(graces=graces))
        message = await (await chat.send("hello")).done()
        with freezer() as cold:
            cold.freeze(chat._worker.live.session.process.root.pid)
            began = time.monotonic()
            ends = await host.quit()
            assert time.monotonic() - began < bound
            assert ends == {"k": "overdue"}
            assert sole_writer.open_store(stage.state).get("k").lease.state == "proven"
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        after = await (await chat.send("again")).done()
        assert (after.state, stage.said(chat.kept.native)) == ("completed", ["hello", "again"])
        assert after.run != message.run
