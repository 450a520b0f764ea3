"""What becomes of messages: each is delivered once, in order, or comes back with a reason."""

from __future__ import annotations

import anyio
import pytest

from lastout.agents.events import CommandEnded, Question
from lastout.host import HostError, NoQuestion, NotOffered

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


async def test_a_message_is_answered_and_the_next_goes_to_the_same_agent(stage):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        first = await (await chat.send("hello")).done()
        second = await (await chat.send("again")).done()
        assert (first.state, first.answer) == ("completed", "you said: hello ")
        assert first.run == second.run
        assert stage.said(chat.kept.native) == ["hello", "again"]


async def test_messages_are_delivered_one_at_a_time_in_the_order_in_which_they_came(stage):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        sent = [await chat.send(f"number {n}") for n in range(10)]
        for message in sent:
            assert (await message.done()).state == "completed"
        assert stage.said(chat.kept.native) == [f"number {n}" for n in range(10)]


async def test_the_same_id_again_is_the_same_message(stage):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        first = await chat.send("hello", id="m1")
        assert await chat.send("hello", id="m1") is first
        await first.done()
        again = await chat.send("hello", id="m1")
        assert (again.state, again.answer) == ("completed", "you said: hello ")
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        later = await chat.send("hello", id="m1")
        assert later.settled
        assert (later.state, later.answer, later.run) == ("completed", first.answer, first.run)
        assert stage.said(chat.kept.native) == ["hello"]


async def test_an_id_is_not_used_for_two_texts(stage):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        await chat.send("hello", id="m1")
        with pytest.raises(ValueError, match="another text"):
            await chat.send("something else", id="m1")


async def test_a_turn_that_fails_is_said_so_and_the_next_is_answered(stage):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        failed = await (await chat.send("/fail no credit")).done()
        assert (failed.state, failed.reason) == ("failed", "no credit")
        assert (await (await chat.send("hello")).done()).state == "completed"


async def test_a_failed_command_inside_a_turn_is_recorded_and_does_not_fail_the_turn(stage, until):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        message, ended = await until(
            chat,
            lambda: chat.send("/run echo out; exit 7\n/say recovered"),
            lambda event: isinstance(event, CommandEnded),
        )
        assert (ended.exit_code, ended.output) == (7, "out\n")
        assert (await message.done()).state == "completed"
        run = message.run
    (command,) = [line for line in stage.lines(run) if line["event"] == "command"]
    assert (command["exit_code"], command["output"]) == (7, "out\n")
    (turn,) = [line for line in stage.lines(run) if line["event"] == "turn"]
    assert (turn["status"], turn["commands"], turn["failed"]) == ("completed", 1, 1)


@pytest.mark.parametrize(
    ("choice", "state", "ran"),
    [
        ("allow", "completed", True),
        ("decline", "completed", False),
        ("cancel", "interrupted", False),
    ],
)
async def test_an_approval_is_answered_by_meaning_or_by_the_agents_own_word(
    stage, until, choice, state, ran
):
    mark = stage.directory / "ran"
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        message, question = await until(
            chat,
            lambda: chat.send(f"/ask touch {mark}"),
            lambda event: isinstance(event, Question),
        )
        assert chat.questions == (question,)
        with pytest.raises(ValueError, match="no choice"):
            await chat.answer(question.id, "perhaps")
        await chat.answer(question.id, choice)
        assert (await message.done()).state == state
        assert mark.exists() == ran
        assert chat.questions == ()
        with pytest.raises(NoQuestion):
            await chat.answer(question.id, choice)


async def test_an_interrupt_ends_the_turn_and_keeps_the_agent(stage, until):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        message, _ = await until(
            chat,
            lambda: chat.send("/run sleep 60"),
            lambda event: type(event).__name__ == "CommandStarted",
        )
        await chat.interrupt()
        assert (await message.done()).state == "interrupted"
        after = await (await chat.send("hello")).done()
        assert (after.state, after.run) == ("completed", message.run)


async def test_options_go_with_the_next_turn_and_are_kept(stage):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        await chat.configure(model="small")
        await (await chat.send("one")).done()
        await chat.configure(model="large")
        await (await chat.send("two")).done()
        with pytest.raises(ValueError, match="no such option"):
            await chat.configure(colour="blue")
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        assert chat.options.model == "large"
        models = [
            entry["model"] for entry in stage.transcript(chat.kept.native) if "model" in entry
        ]
        assert models == ["small", "large"]


async def test_a_rewind_forgets_a_message_and_all_after_it(stage):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        for number in range(3):
            await (await chat.send(f"number {number}", id=f"m{number}")).done()
        await chat.rewind("m1")
        await (await chat.send("another")).done()
        assert stage.said(chat.kept.native) == ["number 0", "another"]
        with pytest.raises(LookupError):
            await chat.rewind("never sent")


async def test_a_rewind_starts_the_agent_where_it_rests(stage):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        await (await chat.send("one", id="m1")).done()
        await (await chat.send("two", id="m2")).done()
        await chat.rest()
        await chat.rewind("m2")
        assert stage.said(chat.kept.native) == ["one"]


async def test_a_goal_is_set_between_two_turns_and_what_is_not_offered_is_refused(stage):
    from lastout.agents import Command

    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        await chat.goal("win")
        plain = await host.open("plain", Command(["cat"]))
        with pytest.raises(NotOffered, match="command cannot do that: goal"):
            await plain.goal("win")


async def test_a_plain_command_answers_with_its_output_once_a_message(stage):
    from lastout.agents import Command

    async with stage.host() as host:
        chat = await host.open("k", Command(["sh", "-c", "read line; echo got $line; exit $line"]))
        good = await (await chat.send("0")).done()
        bad = await (await chat.send("3")).done()
        assert (good.state, good.answer) == ("completed", "got 0\n")
        assert (bad.state, bad.answer) == ("failed", "got 3\n")
        assert "status 3" in bad.reason
        assert good.run != bad.run


async def test_a_plain_command_is_interrupted_by_sigint(stage, until):
    from lastout.agents import Command

    async with stage.host() as host:
        chat = await host.open("k", Command(["sh", "-c", "read line; echo ready; exec sleep 60"]))
        message, _ = await until(
            chat, lambda: chat.send("x"), lambda event: type(event).__name__ == "Text"
        )
        await chat.interrupt()
        assert (await message.done()).state == "interrupted"


async def test_a_slow_reader_misses_the_oldest_and_is_told_how_many(stage):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        with chat.events(limit=5) as events:
            await (await chat.send("/say a b c d e f g h i j")).done()
            first = await anext(events)
            assert type(first).__name__ == "Missed"
            assert first.count > 0


async def test_a_closed_conversation_takes_nothing_and_returns_what_waits(stage):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        running = await chat.send("/run sleep 60")
        waiting = await chat.send("hello")
        while running.state != "delivered":
            await anyio.sleep(0.01)
        await chat.close()
        assert running.state == "interrupted"
        assert (waiting.state, "closed" in waiting.reason) == ("returned", True)
        with pytest.raises(HostError, match="closed"):
            await chat.send("more")
        again = await host.open("k", stage.agent())
        assert (await (await again.send("more")).done()).state == "completed"


async def test_options_that_are_changed_while_the_agent_starts_are_its_own(stage):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent("--slow", "0.3"))
        first = await chat.send("one")
        while chat.run is None:
            await anyio.sleep(0.01)
        await chat.configure(model="large")
        await first.done()
        await (await chat.send("two")).done()
        models = [entry.get("model") for entry in stage.transcript(chat.kept.native)]
        assert models[2] == "large"
