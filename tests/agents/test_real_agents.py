"""The real Codex and the real Claude Code in a host: used, stopped, crashed, resumed."""

from __future__ import annotations

import os
import time

import anyio
import pytest
from real_agents import Watch, need

from lastout.agents.events import CommandEnded, Notice, Question
from lastout.host import open_host

pytestmark = pytest.mark.anyio


async def opened(host, place, name):
    kind = place.kind(name)
    return await host.open("k", kind.adapter, cwd=place.cwd, options=kind.options)


async def begun(chat, place, text, **more):
    """Send a message and wait until its tool says that it runs."""
    message = await chat.send(text, **more)
    await anyio.to_thread.run_sync(place.wait_up)
    return message


async def answers(chat, text="[[hi]]"):
    message = await (await chat.send(text)).done()
    assert (message.state, message.answer) == ("completed", "hello"), message
    return message


async def test_a_message_is_answered_and_its_commands_are_in_the_record(place, name):
    async with open_host(state=place.state) as host:
        chat = await opened(host, place, name)
        with chat.events() as events:
            message = await (await chat.send("[[fail]]", id="m1")).done()
            assert (message.state, message.answer) == ("completed", "noted")
            ended = [
                event
                async for event in _until_turn_ended(events)
                if isinstance(event, CommandEnded)
            ]
        assert [event.status for event in ended] == ["failed"]
    lines = place.record(message.run)
    (command,) = [line for line in lines if line["event"] == "command"]
    assert (command["exit_code"], command["phase"]) == (7, "completed")
    assert "echo some output; exit 7" in command["command"]
    assert "some output" in command["output"]
    (turn,) = [line for line in lines if line["event"] == "turn"]
    assert (turn["commands"], turn["failed"], turn["unfinished"]) == (1, 1, [])
    started = next(line for line in lines if line["event"] == "started")
    assert started["exe"].endswith(("/codex", "/claude", "/claude.exe")), "the native agent"


async def _until_turn_ended(events):
    async for event in events:
        yield event
        if type(event).__name__ == "TurnEnded":
            return


@pytest.mark.parametrize("what", ["tree", "stubborn"])
async def test_a_stop_leaves_nobody_and_the_conversation_goes_on(place, name, what):
    async with open_host(state=place.state) as host:
        chat = await opened(host, place, name)
        message = await begun(chat, place, f"[[{what}]]")
        conversation = chat.kept.native
        assert await chat.stop() == "exited"
        assert message.state == "interrupted"
        if what == "tree":
            assert message.reason is None, "the agent itself said so, before its end"
        after = await answers(chat)
        assert (after.run != message.run, chat.kept.native) == (True, conversation)
    assert place.user_messages(name, conversation) == [f"[[{what}]]", "[[hi]]"]


async def test_a_quit_in_the_middle_of_a_tool_leaves_nobody(place, name):
    async with open_host(state=place.state) as host:
        chat = await opened(host, place, name)
        message = await begun(chat, place, "[[tree]]")
        began = time.monotonic()
        assert await host.quit() == {"k": "exited"}
        assert time.monotonic() - began < 8.0
        assert message.state == "interrupted"
    async with open_host(state=place.state) as host:
        chat = await opened(host, place, name)
        await answers(chat)
    assert place.user_messages(name, chat.kept.native) == ["[[tree]]", "[[hi]]"]


async def test_a_rest_leaves_nobody_also_of_the_mcp_servers(place, name):
    async with open_host(state=place.state) as host:
        chat = await opened(host, place, name)
        message = await answers(chat)
        assert await chat.rest() == "exited"
        (gone,) = [line for line in place.record(message.run) if line["event"] == "tree-gone"]
        assert gone["remaining"] == 0
        (server,) = place.mcp_servers()
        with pytest.raises(ProcessLookupError):
            os.kill(server, 0)
        again = await answers(chat)
        assert again.run != message.run


async def test_a_stalled_model_does_not_hold_up_a_stop(place, name):
    async with open_host(state=place.state) as host:
        chat = await opened(host, place, name)
        await answers(chat)
        message = await chat.send("[[stall]]")
        while message.state != "delivered":
            await anyio.sleep(0.01)
        assert await chat.stop() == "exited"
        assert message.state == "interrupted"
        await answers(chat)


async def test_an_interrupt_keeps_the_agent(place, name):
    async with open_host(state=place.state) as host:
        chat = await opened(host, place, name)
        message = await begun(chat, place, "[[tree]]")
        await chat.interrupt()
        assert (await message.done()).state == "interrupted"
        assert (await answers(chat)).run == message.run


async def test_a_rewind_forgets_the_message_for_the_model_too(place, name):
    async with open_host(state=place.state) as host:
        chat = await opened(host, place, name)
        await answers(chat, "[[hi]] alpha")
        second = await answers(chat, "[[hi]] beta")
        await answers(chat, "[[hi]] gamma")
        await chat.rewind(second.id)
        await answers(chat, "[[hi]] delta")
        sent = place.model.last_texts()
        assert [word in sent for word in ("alpha", "beta", "gamma", "delta")] == [
            True, False, False, True,
        ]  # fmt: skip


async def test_a_rewind_to_the_beginning_starts_anew(place, name):
    async with open_host(state=place.state) as host:
        chat = await opened(host, place, name)
        first = await answers(chat, "[[hi]] alpha")
        await chat.rewind(first.id)
        await answers(chat, "[[hi]] beta")
        assert "alpha" not in place.model.last_texts()


async def test_the_model_is_changed_in_a_running_conversation(place, name):
    other = {"codex": "gpt-5.4", "claude": "opus"}[name]
    async with open_host(state=place.state) as host:
        chat = await opened(host, place, name)
        first = await answers(chat)
        await chat.configure(model=other)
        second = await answers(chat)
        assert first.run == second.run
        assert other in str(place.model.script.asked[-1]["body"]["model"])


@pytest.mark.parametrize("choice", ["allow", "deny"])
async def test_an_approval_is_asked_for_and_answered(place, name, choice):
    mark = place.directory / "mark"
    args = {"args": {"sandbox_permissions": "require_escalated", "justification": "why not"}}
    place.model.script.scenarios["ask"] = [
        {"shell": f"touch {mark}", **(args if name == "codex" else {})},
        {"text": "hello"},
    ]
    kind = place.kind(name)
    options = {"codex": {"approval": "on-request", "sandbox": "read-only"}, "claude": {}}[name]
    async with open_host(state=place.state) as host:
        chat = await host.open("k", kind.adapter, cwd=place.cwd)
        await chat.configure(**options)
        with chat.events() as events:
            message = await chat.send("[[ask]]")
            async for event in events:
                if isinstance(event, Question):
                    break
            assert f"touch {mark}" in event.prompt
            meanings = {choice.meaning for choice in event.choices}
            await chat.answer(event.id, choice if choice in meanings else "cancel")
            await message.done()
        assert mark.exists() == (choice == "allow")


async def test_a_retry_of_an_id_is_not_delivered_again(place, name):
    async with open_host(state=place.state) as host:
        chat = await opened(host, place, name)
        first = await (await chat.send("[[hi]] once", id="m1")).done()
    async with open_host(state=place.state) as host:
        chat = await opened(host, place, name)
        again = await (await chat.send("[[hi]] once", id="m1")).done()
        assert (again.state, again.answer, again.run) == ("completed", "hello", first.run)
        await answers(chat)
    assert place.user_messages(name, chat.kept.native) == ["[[hi]] once", "[[hi]]"]


@pytest.mark.parametrize("victim", ["front", "keeper"])
async def test_a_crash_of_the_supervisor_in_the_middle_of_a_tool(place, name, victim):
    async with open_host(state=place.state) as host:
        chat = await opened(host, place, name)
        message = await begun(chat, place, "[[tree]]")
        started = next(line for line in place.record(chat.run) if line["event"] == "started")
        watch = Watch(started)
        watch.kill(victim)
        await message.done()
        assert message.state == "failed"
        # Claude writes down what it was told a while after it has begun to do it.
        unwritten = name == "claude" and place.claude_file(chat.kept.native) is None
        written = [] if unwritten else place.user_messages(name, chat.kept.native)
        assert written == ["[[tree]]"] or unwritten
        await answers(chat)
    assert place.user_messages(name, chat.kept.native) == [*written, "[[hi]]"]
    assert len(place.mcp_servers()) == 2


async def test_an_agent_that_was_killed_before_it_wrote_anything(place):
    need("claude")
    async with open_host(state=place.state) as host:
        chat = await opened(host, place, "claude")
        await answers(chat)
    path = place.claude_file(chat.kept.native)
    assert path is not None
    path.unlink()
    async with open_host(state=place.state) as host:
        chat = await opened(host, place, "claude")
        with chat.events() as events:
            await answers(chat)
            notices = [e.text async for e in _until_turn_ended(events) if isinstance(e, Notice)]
    assert len(notices) == 1
    assert "no transcript" in notices[0]
    assert place.user_messages("claude", chat.kept.native) == ["[[hi]]"]


@pytest.mark.parametrize("held", [False, True], ids=["stdin ends", "stdin held elsewhere"])
@pytest.mark.parametrize("what", ["tree", "stubborn", "background"])
def test_the_owner_is_killed_in_the_middle_of_a_tool(place, name, host_process, what, held):
    owner_killed(place, name, host_process, what, held)


@pytest.mark.torture
@pytest.mark.parametrize("round_", range(20))
@pytest.mark.parametrize("what", ["tree", "stubborn", "background"])
def test_the_owner_is_killed_twenty_times(place, name, host_process, what, round_):
    owner_killed(place, name, host_process, what, round_ % 2 == 0)


def owner_killed(place, name, host_process, what, held):
    kind = place.kind(name)
    host = host_process(held)
    given = kind.options.given()
    host.tell("open", key="k", agent=name, cwd=str(place.cwd), options=given)
    host.tell("send", key="k", id="m1", text=f"[[{what}]]")
    run = host.until(lambda line: line.get("event") == "agent-started")["run"]
    place.wait_up()
    watch = Watch(next(line for line in place.record(run) if line["event"] == "started"))
    host.process.kill()
    host.process.wait()
    assert watch.seconds_until_gone() < watch.bound + 0.5
    (gone,) = [line for line in place.record(run) if line["event"] == "tree-gone"]
    assert gone["remaining"] == 0

    async def after() -> None:
        async with open_host(state=place.state) as new:
            chat = await new.open("k", kind.adapter, cwd=place.cwd)
            await answers(chat)
            assert place.user_messages(name, chat.kept.native) == [f"[[{what}]]", "[[hi]]"]

    anyio.run(after)


async def test_two_hosts_reach_for_one_conversation(place, name):
    async with open_host(state=place.state) as one, open_host(state=place.state) as two:
        chats = [await opened(one, place, name), await opened(two, place, name)]
        messages = [await chat.send("[[hi]]") for chat in chats]
        for message in messages:
            await message.done()
        assert sorted(message.state for message in messages) == ["completed", "returned"]
        (refused,) = [message for message in messages if message.state == "returned"]
        assert "is held by run" in refused.reason
        winner = chats[[message.state for message in messages].index("completed")]
        assert place.user_messages(name, winner.kept.native) == ["[[hi]]"]
