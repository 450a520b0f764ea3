"""Agents that answer rubbish, die, hang, are missing or too old: said plainly, and nothing hangs."""

from __future__ import annotations

import pytest

from lastout.agents import Claude, Codex
from lastout.agents.events import Noise, Text

pytestmark = pytest.mark.anyio


async def test_rubbish_is_dropped_and_the_turn_goes_on(stage, until):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        script = '/print not json\n/print [1, 2]\n/print {"id": 77, "result": 1}\n/say fine'
        message, noise = await until(
            chat, lambda: chat.send(script), lambda event: isinstance(event, Noise)
        )
        assert (noise.head, noise.why) == ("not json", "not-json")
        assert ((await message.done()).state, message.answer) == ("completed", "fine ")


async def test_words_of_the_protocol_in_the_wrong_shape_harm_nobody(stage):
    shapes = (
        '{"method": "turn/completed", "params": {"turn": null}}',
        '{"method": "item/started", "params": {"item": 5}}',
        '{"method": "item/completed", "params": {}}',
        '{"method": "item/agentMessage/delta", "params": {"delta": 7}}',
        '{"method": "item/commandExecution/requestApproval", "id": 9, "params": {}}',
        '{"method": 1, "id": {}}',
        '{"result": null, "id": "x"}',
        "[" * 3000,
    )
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        script = "\n".join(f"/print {shape}" for shape in shapes) + "\n/say fine"
        assert (await (await chat.send(script)).done()).state == "completed"


async def test_half_a_line_belongs_to_what_follows_it(stage, until):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        message, noise = await until(
            chat,
            lambda: chat.send("/half rubbish without an end\n/say fine"),
            lambda event: isinstance(event, Noise),
        )
        assert noise.head.startswith("rubbish without an end{")
        assert (await message.done()).state == "completed"


async def test_a_line_of_50_megabytes_arrives_whole(stage, until):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        message, text = await until(
            chat,
            lambda: chat.send(f"/big {50 << 20}"),
            lambda event: isinstance(event, Text),
        )
        assert len(text.text) == 50 << 20
        assert (await message.done()).state == "completed"


async def test_a_line_above_the_limit_is_dropped_and_said_so(stage, until, monkeypatch):
    import lastout.agents.session
    from lastout.agents.lines import Lines

    monkeypatch.setattr(lastout.agents.session, "Lines", lambda: Lines(longest=1 << 20))
    async with stage.host() as host:
        chat = await host.open("k", stage.agent())
        message, noise = await until(
            chat,
            lambda: chat.send(f"/big {2 << 20}\n/say fine"),
            lambda event: isinstance(event, Noise),
        )
        assert noise.why == "too-long"
        assert noise.length > 2 << 20
        assert ((await message.done()).state, message.answer) == ("completed", "fine ")


async def test_an_agent_that_dies_at_its_start_is_told_with_its_last_output(stage):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent("--die", "no licence found"))
        message = await (await chat.send("hello")).done()
        assert message.state == "returned"
        assert "ended with status 3" in message.reason
        assert "no licence found" in message.reason
        assert chat.state == "resting"


async def test_an_agent_that_dies_in_a_turn_fails_it_and_the_next_message_starts_another(stage):
    async with stage.host() as host:
        chat = await host.open("k", stage.agent("--lock"))
        message = await (await chat.send("/print a last word\n/exit 4")).done()
        assert message.state == "failed"
        assert "ended with status 4" in message.reason
        assert "a last word" in message.reason
        after = await (await chat.send("hello")).done()
        assert after.state == "completed"
        assert stage.said(chat.kept.native)[-1] == "hello"


async def test_an_agent_that_never_answers_is_given_up_at_the_bound_of_its_start(
    stage, monkeypatch
):
    monkeypatch.setattr("lastout.host.live.START", 0.5)
    async with stage.host() as host:
        chat = await host.open("k", stage.agent("--slow", "60"))
        message = await (await chat.send("hello")).done()
        assert message.state == "returned"
        assert "did not answer within 0.5 s" in message.reason


@pytest.mark.parametrize(
    ("adapter", "package"), [(Codex, "@openai/codex"), (Claude, "@anthropic-ai/claude-code")]
)
async def test_a_missing_agent_is_named_with_what_is_needed(stage, adapter, package):
    async with stage.host() as host:
        chat = await host.open("k", adapter(env={"PATH": str(stage.directory)}))
        message = await (await chat.send("hello")).done()
        assert message.state == "returned"
        assert "was not found" in message.reason
        assert f"npm install -g {package}" in message.reason


@pytest.mark.parametrize(("adapter", "oldest"), [(Codex, "0.166.0"), (Claude, "2.1.197")])
async def test_an_agent_that_is_too_old_says_which_version_is_needed(stage, adapter, oldest):
    program = stage.directory / "agent"
    program.write_text("#!/bin/sh\necho agent 0.1.2\n")
    program.chmod(0o755)
    async with stage.host() as host:
        chat = await host.open("k", adapter(str(program)))
        message = await (await chat.send("hello")).done()
        assert message.state == "returned"
        assert "0.1.2" in message.reason
        assert f"{oldest} or newer is needed" in message.reason
