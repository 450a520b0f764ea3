"""Agents by name: each kind, and the arguments that its name or its caller adds."""

from __future__ import annotations

import pytest

from lastout.agents.adapter import Program
from lastout.agents.dialogue import Start
from lastout.agents.registry import agent


def argv(name: str, **more: object) -> tuple[str, ...]:
    return agent(name, home="/h", **more).plan(Program("/bin/it"), Start("/src")).argv


def test_arguments_follow_the_agents_own():
    assert argv("codex:-c features.web=false", args=["--more"]) == (
        "/bin/it", "app-server", "-c", "features.web=false", "--more",
    )  # fmt: skip
    assert argv("claude", args=["--mcp-config", "{}"])[-2:] == ("--mcp-config", "{}")
    assert argv("scripted:--lock", args=["--slow", "1"])[-3:] == ("--lock", "--slow", "1")


def test_a_command_line_or_a_program_with_arguments():
    assert argv("command:sh -c 'exit 3'") == ("/bin/it", "-c", "exit 3")
    assert argv("acp", program="/opt/agent", args=["--acp"]) == ("/bin/it", "--acp")


@pytest.mark.parametrize("name", ["nobody", "acp", "command:"])
def test_what_is_no_agent_is_refused(name):
    with pytest.raises(ValueError, match=r"named|needs a command line"):
        agent(name)
