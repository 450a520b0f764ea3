"""The host is killed in the middle of something: nobody is left, and nothing is lost or doubled."""

from __future__ import annotations

import os
import signal
import time

import anyio
import pytest

from lastout.host import open_host

COMMANDS = {
    "foreground": "/run sleep 301",
    "background": "/background sleep 301\n/say on it\n/run sleep 302",
    "setsid": "/background setsid sleep 301\n/run sleep 302",
    "stubborn": "/stubborn sleep 301",
    "escaped": "/escape trap '' HUP INT TERM; sleep 301; :\n/run sleep 302",
}


def wait_for_command(host) -> str:
    """The run of the agent whose command has been started."""
    run = host.until_event("agent-started")["run"]
    host.until(
        lambda line: line.get("event") == "command-started" and "sleep 30" in line["command"]
    )
    return run


def recovered(stage, then: str = "hello again") -> tuple:
    """A new host: what it found, the old message, and the answer to the next one."""

    async def go():
        async with stage.host() as host:
            chat = await host.open("k", stage.agent())
            old = host._ledger.message("k", "m1")
            message = await (await chat.send(then)).done()
            return host.found, old, message, stage.said(chat.kept.native)

    return anyio.run(go)


@pytest.mark.parametrize("held", [False, True], ids=["stdin ends", "stdin held elsewhere"])
@pytest.mark.parametrize("what", COMMANDS)
def test_host_killed_in_the_middle_of_a_tool(stage, host_process, what, held):
    killed_in_the_middle_of_a_tool(stage, host_process, what, held)


@pytest.mark.torture
@pytest.mark.parametrize("round_", range(20))
@pytest.mark.parametrize("what", COMMANDS)
def test_host_killed_in_the_middle_of_a_tool_many_times(stage, host_process, what, round_):
    killed_in_the_middle_of_a_tool(stage, host_process, what, round_ % 2 == 0)


def killed_in_the_middle_of_a_tool(stage, host_process, what, held):
    host = host_process(keep_stdin=held)
    host.ask("open", key="k", agent="scripted:--lock")
    stage.home = stage.state / "scripted"
    host.tell("send", key="k", id="m1", text=COMMANDS[what])
    run = wait_for_command(host)
    host.kill()
    (found,), old, message, said = recovered(stage)
    assert (found.key, found.run, found.verdict) == ("k", run, "exited")
    assert (old.state, old.run) == ("interrupted", run)
    assert message.state == "completed"
    assert said == [COMMANDS[what], "hello again"]
    (gone,) = [line for line in stage.lines(run) if line["event"] == "tree-gone"]
    assert gone["remaining"] == 0


def test_what_was_queued_at_the_crash_is_returned_and_can_be_sent_again(stage, host_process):
    host = host_process()
    host.ask("open", key="k", agent="scripted")
    stage.home = stage.state / "scripted"
    host.tell("send", key="k", id="m1", text="/run sleep 301")
    wait_for_command(host)
    assert host.ask("send", key="k", id="m2", text="hello")["state"] == "queued"
    host.kill()

    async def go():
        async with stage.host() as after:
            queued = after._ledger.message("k", "m2")
            assert (queued.state, "before this message" in queued.reason) == ("returned", True)
            chat = await after.open("k", stage.agent())
            message = await (await chat.send("hello", id="m2")).done()
            assert message.state == "completed"
            done = await chat.send("/run sleep 301", id="m1")
            assert (done.settled, done.state) == (True, "interrupted")
            assert stage.said(chat.kept.native) == ["/run sleep 301", "hello"]

    anyio.run(go)


def test_a_conversation_whose_owner_lives_is_left_alone(stage, host_process):
    other = host_process()
    other.ask("open", key="k", agent="scripted")
    answer = other.ask("send", key="k", id="m1", text="hello", wait=True)

    async def go():
        async with stage.host() as host:
            (found,) = host.found
            assert (found.verdict, found.run) == (None, answer["run"])
            assert found.left

    anyio.run(go)
    assert other.ask("send", key="k", text="still there?", wait=True)["run"] == answer["run"]


@pytest.mark.parametrize("who", ["front", "keeper"])
def test_supervisor_killed_in_the_middle_of_a_tool(stage, who):
    async def go():
        async with stage.host() as host:
            chat = await host.open("k", stage.agent("--lock"))
            with chat.events() as events:
                message = await chat.send("/background setsid sleep 301\n/run sleep 302", id="m1")
                async for event in events:
                    if type(event).__name__ == "CommandStarted" and "302" in event.command:
                        break
            live = chat._worker.live
            process = live.session.process
            os.kill(getattr(process, who).pid, signal.SIGKILL)
            await message.done()
            assert message.state == "failed"
            after = await (await chat.send("hello")).done()
            assert after.state == "completed"
            assert stage.said(chat.kept.native)[-1] == "hello"

    anyio.run(go)


def test_the_conversations_of_a_crashed_host_are_recovered_side_by_side(stage, host_process):
    count = 12
    host = host_process()
    for number in range(count):
        host.ask("open", key=f"k{number}", agent="scripted:--ignore interrupt,stdin,term")
        host.tell("send", key=f"k{number}", id="m1", text="/stubborn sleep 301")
    # Some have been read already, before the answers to later requests.
    while sum(line.get("event") == "command-started" for line in host.events) < count:
        host.until_event("command-started")
    host.kill()

    async def go():
        began = time.monotonic()
        async with open_host(state=stage.state) as after:
            took = time.monotonic() - began
            assert sorted(found.key for found in after.found) == sorted(
                f"k{number}" for number in range(count)
            )
            assert {found.verdict for found in after.found} == {"exited"}
            return took

    # One after the other it would be twelve ladders of 4 s.
    assert anyio.run(go) < 3 * 4.0
