"""Between two turns whatever the agent has started is stopped, and the agent stays if it can."""

from __future__ import annotations

import os
from dataclasses import replace

import anyio
import pytest

from lastout.agents import Command, Scripted
from lastout.host import StillRunning
from lastout.host.events import AgentStarting
from lastout.identity import Alive, still_alive

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


class Restarting(Scripted):
    """As Claude Code: it starts its MCP servers again by itself."""

    restarts_servers = True


class Wrapped(Restarting):
    """As an ACP adapter: the agent is below the root."""

    async def find(self):
        return replace(await super().find(), wrapper=True)


def gone(quiet) -> bool:
    return all(still_alive(one.identity) is Alive.NO for one in quiet.stopped)


@pytest.fixture
def escaped(tmp_path):
    """A turn whose tool leaves one process behind, in a session of its own, deaf to SIGTERM."""
    os.mkfifo(tmp_path / "up")
    return (
        f"/escape trap '' HUP INT TERM; echo $$ >{tmp_path}/pid; echo up >{tmp_path}/up; "
        f"exec sleep 301\n/run read up <{tmp_path}/up"
    )


async def test_with_nobody_else_the_agent_stays_and_nothing_is_signalled(stage):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        first = await (await chat.send("hello")).done()
        quiet = await chat.quiet()
        assert (quiet.kept, quiet.stopped_count, quiet.remaining_count) == (True, 0, 0)
        second = await (await chat.send("again")).done()
        assert second.run == first.run
    assert not [line for line in stage.lines(first.run) if line["event"] == "signalled"]


async def test_a_grandchild_in_a_session_of_its_own_is_stopped_and_named(stage, escaped):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent(kind=Restarting))
        first = await (await chat.send(escaped)).done()
        seen = []
        quiet = await chat.quiet(by="the test", look=seen.extend)
        assert quiet.kept
        pid = int((stage.directory / "pid").read_text())
        assert quiet.stopped_count == len(quiet.stopped) >= 1
        assert pid in {one.pid for one in seen}
        (left,) = [one for one in quiet.stopped if one.identity.pid == pid]
        assert left.name in ("sh", "sleep")
        assert gone(quiet)
        second = await (await chat.send("again")).done()
        assert second.run == first.run
    (told,) = [line for line in stage.lines(first.run) if line["event"] == "others-stopped"]
    assert (told["by"], told["remaining_count"]) == ("the test", 0)


@pytest.mark.parametrize("what", ["a server", "a task", "a wrapper"])
async def test_an_agent_that_would_miss_what_was_stopped_is_replaced(stage, escaped, what):
    kind, args, text = {
        "a server": (Scripted, ("--server", "sleep 301"), "hello"),
        "a task": (Restarting, (), "/background sleep 301"),
        "a wrapper": (Wrapped, (), escaped),
    }[what]
    async with stage.host() as host:
        chat = await host.open("k", stage.agent(*args, kind=kind))
        first = await (await chat.send(text)).done()
        quiet = await chat.quiet()
        assert (quiet.kept, quiet.proven, quiet.remaining_count) == (False, True, 0)
        assert quiet.outcome.verdict == "exited"
        assert quiet.stopped_count >= 1
        assert gone(quiet)
        assert chat.state == "resting"
        second = await (await chat.send("again")).done()
        assert (second.state, second.run != first.run) == ("completed", True)
        assert stage.said(chat.kept.native) == [text, "again"]
    told = [line for line in stage.lines(first.run) if line["event"] == "others-stopped"]
    assert len(told) == (what == "a server"), "an agent among the others would be killed by it"


async def test_a_command_is_over_with_its_turn(stage):
    async with stage.host() as host:
        chat = await host.open("k", Command(["sh", "-c", "setsid sleep 301 & cat"]))
        await (await chat.send("hello")).done()
        quiet = await chat.quiet()
        assert (quiet.kept, quiet.proven, quiet.stopped_count) == (False, True, 1)
        assert gone(quiet)


async def test_the_agent_died_in_its_turn(stage, escaped):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        message = await (await chat.send(f"{escaped}\n/exit 3")).done()
        assert message.state == "failed"
        quiet = await chat.quiet()
        assert (quiet.kept, quiet.proven, quiet.remaining_count) == (False, True, 0)
        assert quiet.stopped_count >= 1
        assert gone(quiet)


async def test_not_during_a_turn(stage, until):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        message, _ = await until(
            chat,
            lambda: chat.send("/run sleep 60"),
            lambda event: type(event).__name__ == "CommandStarted",
        )
        with pytest.raises(StillRunning):
            await chat.quiet()
        await chat.stop("abort", by="the test", now=True)
        assert message.state == "interrupted"
    (stop,) = [line for line in stage.lines(message.run) if line["event"] == "stop"]
    assert (stop["reason"], stop["by"]) == ("abort", "the test")


async def test_a_run_that_cannot_be_noted_is_not_started(stage):
    def full(event):
        if isinstance(event, AgentStarting):
            assert not os.path.exists(event.record)
            raise OSError(28, "No space left on device")

    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        with chat.listening(full):
            message = await (await chat.send("hello")).done()
        assert (message.state, "No space left" in message.reason) == ("returned", True)
        assert (await (await chat.send("again")).done()).state == "completed"
        with anyio.fail_after(5):
            await chat.rest()
