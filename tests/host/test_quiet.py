"""Between two turns whatever the agent has started is stopped, and the agent stays if it can."""

from __future__ import annotations

import os
from dataclasses import replace

import anyio
import pytest

from lastout.agents import Command, Scripted
from lastout.graces import Graces
from lastout.host import StillRunning
from lastout.host.events import AgentStarting
from lastout.identity import Alive, still_alive

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


class Restarting(Scripted):
    """As Claude Code: it starts its MCP servers again by itself, and takes up what its tasks end
    with."""

    restarts_servers = True
    follows_up = True


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


@pytest.mark.still  # who continues a front has SIGCONT passed on
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


CLEANS = "trap 'echo cleaned >{mark}; exit' TERM; echo up >{up}; sleep 301 & wait"


@pytest.fixture
def cleaning(tmp_path):
    """A turn whose tool cleans up when it hears SIGTERM, and a mark of that."""
    os.mkfifo(tmp_path / "up")
    mark = tmp_path / "mark"
    return f"/run {CLEANS.format(mark=mark, up=tmp_path / 'up')}", mark


async def begun(stage, chat, text):
    message = await chat.send(text)
    await anyio.to_thread.run_sync((stage.directory / "up").read_text)
    return message


async def test_a_tool_may_clean_up_before_its_agent_kills_it(stage, cleaning):
    text, mark = cleaning
    async with stage.host() as host:
        # As Codex: a tool that runs goes on behind its interrupted turn, and is killed at the end.
        chat = await host.open("k", stage.agent("--ignore", "interrupt"))
        message = await begun(stage, chat, text)
        seen = []
        ended = await chat.finish("timeout", by="the test", look=seen.extend)
        assert mark.read_text() == "cleaned\n"
        assert (ended.kept, ended.proven, ended.remaining_count) == (False, True, 0)
        assert {one.pid for one in seen} <= {one.identity.pid for one in ended.stopped}
        assert gone(ended)
        assert message.settled
        lines = stage.lines(message.run)
        assert next(line for line in lines if line["event"] == "stop-others")["by"] == "the test"
        assert (await (await chat.send("again")).done()).state == "completed"


async def test_without_grace_nobody_is_asked(stage, cleaning):
    text, mark = cleaning
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        message = await begun(stage, chat, text)
        ended = await chat.finish("abort", grace=0)
        assert (ended.proven, message.state, mark.exists()) == (True, "interrupted", False)
    events = [line["event"] for line in stage.lines(message.run)]
    assert "stop-others" not in events


async def test_asked_again_without_grace_it_goes_faster(stage, tmp_path):
    slow = Graces(stdin=10, term=30, reap=5)
    os.mkfifo(tmp_path / "up")
    async with stage.host(quit_bound=60.0) as host:
        chat = await host.open("k", stage.agent("--ignore", "interrupt,stdin,term", graces=slow))
        text = f"/stubborn echo up >{tmp_path}/up; sleep 301"
        message = await begun(stage, chat, text)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(chat.finish, "abort")
            while not any(line["event"] == "stop-others" for line in stage.lines(message.run)):
                await anyio.sleep(0.01)
            with anyio.fail_after(20):
                ended = await chat.finish("abort", grace=0)
        assert (ended.proven, message.state) == (True, "interrupted")


async def test_it_is_ended_while_it_starts(stage):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent("--slow", "30"))
        message = await chat.send("hello")
        while chat.run is None:
            await anyio.sleep(0.01)
        ended = await chat.finish("abort")
        assert (message.state, ended.kept, ended.remaining_count) == ("returned", False, 0)
        assert "stopped before this message was delivered" in message.reason


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
