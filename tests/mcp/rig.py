"""Real agents that have `lastout mcp` in their configuration, as askers and as delegates, offline."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from client import SOURCE, serving
from loopback.server import Server
from real_agents import MODEL, Kind, Place

from lastout.agents import Claude, Options

OTHER = {"codex": "claude", "claude": "codex"}

APPROVED = {
    "codex": {"approval": "never", "sandbox": "danger-full-access"},
    "claude": {"approval": "bypassPermissions", "model": MODEL["claude"]},
}
"""How a delegate is told to ask nobody."""


def mcp(tool: str, **arguments: Any) -> dict[str, Any]:
    """A step of the model: a call of our server's tool."""
    return {"mcp": ["lastout", tool, arguments]}


class Rig(Place):
    """One HOME for all agents of a test. `Place` has made the rest of the configuration."""

    def __init__(self, directory: Path, model: Server, *options: str) -> None:
        super().__init__(directory, model)
        self.server = [sys.executable, "-m", "lastout", "mcp", "--state", str(self.state), *options]
        self.pids = directory / "server-pids"
        config = self.codex_home / "config.toml"
        own = config.read_text().partition("[mcp_servers.")[0]
        names = [name for name in self.env if name not in ("PATH", "HOME")]
        config.write_text(
            f"{own}[mcp_servers.lastout]\ncommand = {json.dumps(self.server[0])}\n"
            f"args = {json.dumps(self.server[1:])}\nenv = {{ PYTHONPATH = {json.dumps(SOURCE)} }}\n"
            f"env_vars = {json.dumps(names)}\ntool_timeout_sec = 600\nrequired = true\n"
        )
        server = {
            "type": "stdio",
            "command": self.server[0],
            "args": self.server[1:],
            "env": {"PYTHONPATH": SOURCE},
        }
        self.claude_json = self.claude_home / ".claude.json"
        self.claude_json.write_text(json.dumps({"mcpServers": {"lastout": server}}))

    def kind(self, name: str) -> Kind:
        if name != "claude":
            return super().kind(name)
        bypass = Options(model=MODEL[name], approval="bypassPermissions")
        return Kind(name, Claude(env=self.env), bypass)

    def plain(self, name: str, text: str) -> subprocess.Popen[bytes]:
        """The agent by itself, without lastout around it, for one turn."""
        argv = {
            "codex": [
                "codex", "exec", "--json", "--skip-git-repo-check",
                "--dangerously-bypass-approvals-and-sandbox", text,
            ],
            "claude": ["claude", "-p", text, "--model", MODEL["claude"],
                       "--permission-mode", "bypassPermissions", "--output-format", "json"],
        }[name]  # fmt: skip
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env=self.env,
            cwd=self.cwd,
            start_new_session=True,
        )

    def serve(self) -> subprocess.Popen[bytes]:
        """A `lastout job serve` of the agents' owner, outside every tree."""
        return serving(self.state, self.env)

    def told(self, scenario: str) -> list[dict[str, Any]]:
        """What our tools have answered in a scenario, as its model was given it, oldest first."""
        asked = [one for one in self.model.script.asked if one["scenario"] == scenario]
        return [_parsed(text) for text in _tool_results(asked[-1]["body"])] if asked else []


def _tool_results(body: dict[str, Any]) -> Iterator[str]:
    for item in body.get("input") or []:
        if item.get("type") == "function_call_output":
            yield _joined(item["output"])
    for message in body.get("messages") or []:
        for part in message["content"] if isinstance(message["content"], list) else ():
            if part.get("type") == "tool_result":
                yield _joined(part["content"])


def _joined(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content)


def _parsed(text: str) -> dict[str, Any]:
    """The answer of a tool, or the text of a refusal. Codex puts the time that it took before it."""
    said = text.partition("Output:\n")[2] if text.startswith("Wall time") else text
    return json.loads(said) if said.startswith("{") else {"text": said}
