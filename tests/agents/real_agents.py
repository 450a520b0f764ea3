"""Real agents, offline: private directories, a model on 127.0.0.1, and hosts to kill."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from loopback.server import Server

from lastout.agents import Acp, Claude, Codex, Options
from lastout.agents.adapter import Adapter

HERE = Path(__file__).parent
INSTALLED = Path(os.environ.get("LASTOUT_TEST_AGENTS") or HERE.parent.parent / "build" / "agents")
BIN = INSTALLED / "node_modules" / ".bin"

BOUND = 60.0
"""Nothing in these tests takes so long."""

# In one command: a tool in the foreground, one in the background, one in a session of its own, a
# daemon that ignores everything. `{up}` is a FIFO: the tool says there that it runs.
TREE = (
    "(setsid sh -c 'trap \"\" HUP INT TERM; sleep 301; :' </dev/null >/dev/null 2>&1 &); "
    "setsid sleep 301 & sleep 301 & echo up >{up}; sleep 301; true"
)
STUBBORN = "trap '' HUP INT TERM; echo up >{up}; sleep 301; true"
BACKGROUND = "(echo up >{up}; sleep 301) & setsid sleep 301 & true"

MODEL = {"codex": "gpt-5.5", "claude": "sonnet", "acp": "sonnet"}


@dataclass
class Kind:
    """One real agent: its adapter and how it is told to ask nobody."""

    name: str
    adapter: Adapter
    options: Options


class Place:
    """Private HOME, TMPDIR and configuration of the agents of one test."""

    def __init__(self, directory: Path, model: Server) -> None:
        self.directory = directory
        self.model = model
        self.state = directory / "state"
        self.home, self.cwd = directory / "home", directory / "cwd"
        self.codex_home, self.claude_home = self.home / ".codex", self.home / ".claude"
        # Codex makes no helper links when its home lies below TMPDIR.
        self.tmp = directory / "tmp"
        for made in (self.codex_home, self.claude_home, self.tmp, self.cwd):
            made.mkdir(parents=True)
        self.up = directory / "up"
        os.mkfifo(self.up)
        self.mcp_pids = directory / "mcp-pids"
        server = [sys.executable, str(HERE / "mcp_server.py"), str(self.mcp_pids)]
        # plugins and apps off: Codex looks up hosts for them at its start.
        (self.codex_home / "config.toml").write_text(
            f'model = "{MODEL["codex"]}"\nmodel_provider = "loopback"\n'
            'check_for_update_on_startup = false\ncli_auth_credentials_store = "file"\n'
            "[analytics]\nenabled = false\n[feedback]\nenabled = false\n"
            '[otel]\nexporter = "none"\n[features]\nplugins = false\napps = false\n'
            f'[model_providers.loopback]\nname = "loopback"\nbase_url = "{model.url}/v1"\n'
            'env_key = "LOOPBACK_KEY"\nwire_api = "responses"\nrequest_max_retries = 0\n'
            "stream_max_retries = 0\nsupports_websockets = false\n"
            f'[projects."{self.cwd}"]\ntrust_level = "trusted"\n'
            f"[mcp_servers.stubborn]\ncommand = {server[0]!r}\nargs = {server[1:]!r}\n"
        )
        stubborn = {"command": server[0], "args": server[1:]}
        self.mcp = json.dumps({"mcpServers": {"stubborn": stubborn}})
        self.env = {
            "PATH": f"{BIN}:{os.environ.get('PATH', '/usr/bin:/bin')}",
            "HOME": str(self.home),
            "TMPDIR": str(self.tmp),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "SHELL": "/bin/bash",
            "CODEX_HOME": str(self.codex_home),
            "LOOPBACK_KEY": "dummy",
            "CLAUDE_CONFIG_DIR": str(self.claude_home),
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "dummy",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",  # Claude Code lets root bypass permissions only with this
        }

    def kind(self, name: str) -> Kind:
        if name == "codex":
            never = Options(approval="never", sandbox="danger-full-access")
            return Kind(name, Codex(env=self.env), never)
        if name == "claude":
            bypass = Options(model=MODEL[name], approval="bypassPermissions")
            return Kind(name, Claude(env=self.env, args=["--mcp-config", self.mcp]), bypass)
        return Kind(name, Acp([str(BIN / "claude-agent-acp")], env=self.env), Options())

    def wait_up(self, times: int = 1) -> None:
        """Until a tool says that it runs."""
        said = threading.Event()

        def read() -> None:
            for _ in range(times):
                with open(self.up) as fifo:
                    fifo.read()
            said.set()

        threading.Thread(target=read, daemon=True).start()
        if not said.wait(BOUND):
            raise AssertionError("no tool said that it runs")

    def mcp_servers(self) -> list[int]:
        """The pids of the MCP servers that were started so far."""
        return [int(pid) for pid in self.mcp_pids.read_text().split()]

    def record(self, run: str) -> list[dict[str, Any]]:
        path = self.state / "runs" / run[:8] / f"{run}.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines() if line]

    def user_messages(self, name: str, conversation: str) -> list[str]:
        """The user's messages in the agent's own file; fails when it is forked."""
        if name == "codex":
            return self._codex_messages(conversation)
        return self._claude_messages(conversation)

    def _codex_messages(self, thread: str) -> list[str]:
        (path,) = self.codex_home.glob(f"sessions/*/*/*/rollout-*{thread}*.jsonl")
        entries = [json.loads(line) for line in path.read_text().splitlines()]
        ordinals = [entry["ordinal"] for entry in entries if "ordinal" in entry]
        assert ordinals == sorted(set(ordinals)), "two writers have written into the rollout"
        items = [entry["payload"].get("item") or {} for entry in entries if "payload" in entry]
        asked = [item for item in items if item.get("type") == "UserMessage"]
        assert len({item["client_id"] for item in asked}) == len(asked), "delivered twice"
        return [item["content"][0]["text"] for item in asked]

    def claude_file(self, session: str) -> Path | None:
        """The session's transcript, where Claude has written one by now."""
        found = list(self.claude_home.glob(f"projects/*/{session}.jsonl"))
        assert len(found) <= 1
        return found[0] if found else None

    def _claude_messages(self, session: str) -> list[str]:
        path = self.claude_file(session)
        assert path is not None, "it has no transcript"
        entries = [json.loads(line) for line in path.read_text().splitlines()]
        asked = [
            entry
            for entry in entries
            if entry.get("type") == "user" and not entry.get("isMeta")
            and isinstance(entry["message"]["content"], list)
            and entry["message"]["content"][0].get("type") == "text"
            and entry["message"]["content"][0]["text"].startswith("[[")
        ]  # fmt: skip
        # A fork is a message of the user whose branch the last one does not descend from.
        parents = {entry["uuid"]: entry.get("parentUuid") for entry in entries if "uuid" in entry}
        line, at = set(), asked[-1]["uuid"]
        while at is not None:
            line.add(at)
            at = parents.get(at)
        assert {entry["uuid"] for entry in asked} <= line, "the session's file is forked"
        return [entry["message"]["content"][0]["text"] for entry in asked]


class HostProcess:
    """A `lastout host` with real agents, to be killed."""

    def __init__(self, place: Place, held: bool) -> None:
        import lastout

        source = str(Path(lastout.__file__).parent.parent)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "lastout", "host", "--state", str(place.state)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**place.env, "PYTHONPATH": source},
            cwd=place.cwd,
        )
        assert self.process.stdin is not None
        self.held = os.dup(self.process.stdin.fileno()) if held else None

    def tell(self, do: str, **fields: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **fields}).encode() + b"\n")
        self.process.stdin.flush()

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        assert self.process.stdout is not None
        seen = []
        for raw in self.process.stdout:
            line: dict[str, Any] = json.loads(raw)
            seen.append(line)
            if wanted(line):
                return line
        raise AssertionError(f"the host ended: {seen[-4:]}")

    def close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        if self.held is not None:
            os.close(self.held)
        if self.process.poll() is None:
            self.process.wait(BOUND)


class Watch:
    """Waits for the end of the processes of a run, by pidfd."""

    def __init__(self, started: dict[str, Any]) -> None:
        self.pids = {name: started[name]["pid"] for name in ("root", "keeper", "front")}
        self._fds = {name: os.pidfd_open(pid) for name, pid in self.pids.items()}
        self.bound = started["max_stop_ms"] / 1000

    def seconds_until_gone(self) -> float:
        began = time.monotonic()
        for fd in self._fds.values():
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            if not poll.poll(int(BOUND * 1000)):
                raise AssertionError(f"still alive after {BOUND} s: {self.pids}")
            os.close(fd)
        return time.monotonic() - began

    def kill(self, name: str) -> None:
        signal.pidfd_send_signal(self._fds[name], signal.SIGKILL)


def scenarios(up: Path) -> dict[str, list[dict[str, Any]]]:
    return {
        "hi": [{"text": "hello"}],
        "fail": [{"shell": "echo some output; exit 7"}, {"text": "noted"}],
        "tree": [{"shell": TREE.format(up=up)}, {"text": "done"}],
        "stubborn": [{"shell": STUBBORN.format(up=up)}, {"text": "done"}],
        "background": [{"shell": BACKGROUND.format(up=up)}, {"text": "started"}],
        "stall": [{"text": "late", "stall": 60}],
    }


def need(name: str) -> None:
    """Skip what needs an agent that is not installed."""
    program = {"acp": "claude-agent-acp"}.get(name, name)
    if not (BIN / program).exists():
        pytest.skip(f"{program} is not installed in {INSTALLED}: run tests/agents/install.sh")
    if name == "acp" and shutil.which("node") is None:
        pytest.skip("node is not installed")
