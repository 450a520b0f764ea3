"""The real Codex and the real Claude Code in background jobs, with a model on the loopback."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "agents"))

from loopback.server import serve
from real_agents import BIN, MODEL, Place, need

from harness.agent_jobs import AgentJobs, all_gone, of_kind
from lastout.jobs import feed

MARKER = Path(__file__).parents[1] / "agents" / "mcp_marker.py"

# Nobody waits for it: it has left the tool's session and has no parent.
LEAVE = (
    "setsid sh -c 'setsid sleep 301 & echo $! >{pid}; echo up >{up}' </dev/null >/dev/null 2>&1 & "
    "read up <{up}; echo left; exit 3"
)
TOOL = "trap 'echo cleaned >{mark}; exit' TERM; echo up >{up}; sleep 301 & wait"


@pytest.fixture(params=["codex", "claude"])
def agent(request: pytest.FixtureRequest) -> str:
    need(request.param)
    return str(request.param)


class Jobs(AgentJobs):
    """Jobs of one real agent, which has an MCP server with one tool."""

    def __init__(self, directory: Path, place: Place, agent: str) -> None:
        super().__init__(directory)
        self.agent, self.place = agent, place
        self.marks, self.mark = directory / "marks", directory / "mark"
        self.options: dict[str, object]
        server = [sys.executable, str(MARKER), str(self.marks)]
        if agent == "codex":
            config = place.codex_home / "config.toml"
            text = config.read_text().partition("[mcp_servers")[0]
            config.write_text(
                f"{text}[mcp_servers.marker]\ncommand = {server[0]!r}\nargs = {server[1:]!r}\n"
            )
            self.options = {"approval": "never", "sandbox": "danger-full-access"}
        else:
            servers = f'{{"mcpServers": {{"marker": {{"command": "{server[0]}", "args": {server[1:]}}}}}}}'
            self.options = {
                "model": MODEL[agent],
                "approval": "bypassPermissions",
                "args": ["--mcp-config", servers.replace("'", '"')],
            }
        up, mark = directory / "up", self.mark
        mcp = [{"mcp": ["marker", "mark", {}]}, {"text": "marked"}]
        place.model.script.scenarios |= {
            "hi": [{"text": "hello"}],
            "leave": [{"shell": LEAVE.format(up=up, pid=directory / "pid")}, {"text": "left"}],
            "tool": [{"shell": TOOL.format(up=up, mark=mark)}, {"text": "done"}],
            "mark": mcp,
            "ask": [
                {"shell": f"touch {mark}", **(ESCALATED if agent == "codex" else {})},
                {"text": "asked"},
            ],
        }

    def ask(self, prompt: str, **more: object):
        given = {"options": self.options, **more}
        return self.submit(
            prompt, agent=self.agent, env=self.place.env, cwd=str(self.place.cwd), **given
        )

    def calls(self) -> list[str]:
        """The pids of the servers that were called."""
        lines = self.marks.read_text().splitlines()
        return [line.partition(" ")[2] for line in lines if line.startswith("called")]


ESCALATED = {"args": {"sandbox_permissions": "require_escalated", "justification": "why not"}}


@pytest.fixture
def real(tmp_path: Path, agent: str) -> Iterator[Jobs]:
    with serve({}) as model:
        place = Place(tmp_path / "place", model)
        made = Jobs(tmp_path, place, agent)
        yield made
        made.close()


def test_a_grandchild_is_stopped_and_the_next_turn_has_its_mcp_server(real, agent):
    job = real.ask("[[leave]]", keep=60)
    result = real.wait(job)
    assert (result.failed, result.answer, result.status) == (False, "left", "completed")
    assert int((real.directory / "pid").read_text()) in {one.pid for one in result.stopped}
    assert all_gone(result)
    assert result.remaining_count == 0
    (ran,) = of_kind(job.feed(), feed.CommandRan)
    assert (ran.exit_code, ran.phase, "left" in ran.output) == (3, "completed", True)
    job.message("[[mark]]", id="m1")
    second = real.wait(job, 2)
    assert (second.answer, second.message) == ("marked", "m1")
    assert len(real.calls()) == 1
    job.message("[[mark]] again", id="m2")
    third = real.wait(job, 3)
    assert third.answer == "marked"
    assert len(set(real.calls())) == 2, "the server of the second turn was stopped with it"
    assert (second.runs == third.runs) == (agent == "claude"), "Codex is replaced, Claude stays"
    assert real.place.user_messages(agent, third.conversation) == [
        "[[leave]]", "[[mark]]", "[[mark]] again",
    ]  # fmt: skip


def test_a_task_behind_the_turn_ends_with_it_and_nobody_takes_it_up(real, agent):
    args = {"codex": {"yield_time_ms": 250}, "claude": {"run_in_background": True}}[agent]
    shell = TOOL.format(up=real.up, mark=real.mark)
    asked = real.place.model.script.asked
    real.place.model.script.scenarios["task"] = [{"shell": shell, "args": args}, {"text": "begun"}]
    job = real.ask("[[task]]", keep=60)
    real.wait_up()
    result = real.wait(job)
    assert (result.answer, result.remaining_count, all_gone(result)) == ("begun", 0, True)
    assert real.mark.read_text() == "cleaned\n"
    # Nothing but the prompt was put to the model, and the agent that could have done it is gone.
    assert result.detail["agent_kept"] is False
    assert max(one["step"] for one in asked if one["scenario"] == "task") == 1


def test_the_time_is_over_in_the_middle_of_a_tool(real, agent):
    job = real.ask("[[tool]]", keep=60, timeout=6.0)
    real.wait_up()
    result = real.wait(job)
    assert (result.failed, result.why, result.status) == (True, "timeout", "interrupted")
    assert (result.remaining_count, all_gone(result)) == (0, True)
    assert real.mark.read_text() == "cleaned\n", "it had SIGTERM, and time for what it does then"
    job.message("[[hi]]")
    second = real.wait(job, 2)
    assert (second.answer, second.conversation) == ("hello", result.conversation)
    assert real.place.user_messages(agent, second.conversation) == ["[[tool]]", "[[hi]]"]


@pytest.mark.parametrize("choice", ["allow", "deny"])
def test_an_approval_is_asked_for_and_answered_through_the_job(real, agent, choice):
    options = {"codex": {"approval": "on-request", "sandbox": "read-only"}, "claude": {}}[agent]
    job = real.ask("[[ask]]", options=options)
    asked = real.until(job, lambda event: isinstance(event, feed.Questioned)).question
    assert f"touch {real.mark}" in asked.prompt
    assert job.status().questions == (asked,)
    meanings = {one.meaning for one in asked.choices}
    job.answer(asked.id, choice if choice in meanings else "cancel", by="the test")
    result = real.wait(job)
    assert (real.mark.exists(), job.status().questions) == (choice == "allow", ())
    assert result.failed == (choice not in meanings and choice == "deny")


def test_a_job_goes_on_with_the_conversation_of_another(real, agent):
    first = real.wait(real.ask("[[hi]] one", name="one"))
    second = real.wait(real.ask("[[hi]] two", continues="one", options={}))
    assert second.conversation == first.conversation
    named = real.wait(real.ask("[[hi]] three", conversation=first.conversation))
    assert named.conversation == first.conversation
    assert real.place.user_messages(agent, first.conversation) == [
        "[[hi]] one", "[[hi]] two", "[[hi]] three",
    ]  # fmt: skip
    assert os.listdir(real.state / "jobs")


def test_an_adapter_around_the_agent_is_ended_with_each_turn(tmp_path):
    need("acp")
    with serve({}) as model:
        real = Jobs(tmp_path, Place(tmp_path / "place", model), "claude")
        real.agent = f"acp:{BIN / 'claude-agent-acp'}"
        job = real.ask("[[leave]]", keep=60, options={})
        asked = real.until(job, lambda event: isinstance(event, feed.Questioned)).question
        job.answer(asked.id, "allow")
        result = real.wait(job)
        assert (result.failed, result.answer, result.remaining_count) == (False, "left", 0)
        assert int((real.directory / "pid").read_text()) in {one.pid for one in result.stopped}
        assert all_gone(result)
        assert not [line for line in real.lines(result.runs[0]) if line["event"] == "stop-others"]
        job.message("[[hi]]")
        assert real.wait(job, 2).answer == "hello"
        real.close()
