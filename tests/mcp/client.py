"""A client of `lastout mcp` that speaks plain JSON lines: what a test says is what is on the wire."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import lastout

SOURCE = str(Path(lastout.__file__).parent.parent)
BOUND = 60.0
"""Nothing in these tests takes so long."""


class Client:
    """One `lastout mcp` with its two pipes."""

    def __init__(
        self,
        state: Path,
        *options: str,
        cwd: Path,
        env: dict[str, str] | None = None,
        before: Sequence[str] = (),
    ) -> None:
        self.process = subprocess.Popen(
            [*before, sys.executable, "-m", "lastout", "mcp", "--state", str(state), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": SOURCE, **(env or {})},
            cwd=cwd,
        )
        self.heard: list[dict[str, Any]] = []
        self._rest = b""
        self._next = 0

    # Requests.

    def start(self, version: str = "2025-06-18", name: str = "test") -> dict[str, Any]:
        answer = self.ask(
            "initialize",
            protocolVersion=version,
            capabilities={},
            clientInfo={"name": name, "version": "1"},
        )
        self.tell("notifications/initialized")
        return answer["result"]

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """A tool's structured answer; fails when the tool failed."""
        result = self.answer(self.begin(tool, **arguments))
        assert not result.get("isError"), result
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        return result["structuredContent"]

    def refused(self, tool: str, **arguments: Any) -> str:
        """The text of a tool that failed."""
        result = self.answer(self.begin(tool, **arguments))
        assert result.get("isError"), result
        return result["content"][0]["text"]

    def begin(self, tool: str, **arguments: Any) -> int:
        """A call that is not waited for."""
        return self.send(
            "tools/call", name=tool, arguments=arguments, _meta={"progressToken": self._next}
        )

    def answer(self, number: int) -> dict[str, Any]:
        answer = self.until(lambda line: line.get("id") == number and "method" not in line)
        assert "result" in answer, answer
        return answer["result"]

    def cancel(self, number: int) -> None:
        self.tell("notifications/cancelled", requestId=number, reason="not wanted any more")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        number = self.send(method, **params)
        return self.until(lambda line: line.get("id") == number)

    def send(self, method: str, **params: Any) -> int:
        number, self._next = self._next, self._next + 1
        self._write({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    def tell(self, method: str, **params: Any) -> None:
        self._write({"jsonrpc": "2.0", "method": method, "params": params})

    def write(self, raw: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(raw)
        self.process.stdin.flush()

    def _write(self, message: dict[str, Any]) -> None:
        self.write(json.dumps(message).encode() + b"\n")

    # What comes.

    def until(self, wanted: Any) -> dict[str, Any]:
        """The first line from now on that is wanted. Every line must be JSON-RPC."""
        deadline = time.monotonic() + BOUND
        while True:
            line = self.line(deadline)
            self.heard.append(line)
            if wanted(line):
                return line

    def line(self, deadline: float) -> dict[str, Any]:
        assert self.process.stdout is not None
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self.process.stdout], [], [], deadline - time.monotonic())
            assert ready, f"nothing was heard for {BOUND} s; before: {self.heard[-3:]}"
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            assert data, f"the server ended; before: {self.heard[-3:]}"
            self._rest += data
        raw, _, self._rest = self._rest.partition(b"\n")
        line = json.loads(raw)
        assert line["jsonrpc"] == "2.0"
        return line

    def progress(self, number: int) -> list[str]:
        """What was told of a call on the way."""
        return [
            line["params"]["message"]
            for line in self.heard
            if line.get("method") == "notifications/progress"
            and line["params"]["progressToken"] == number
        ]

    def until_progress(self, number: int, text: str) -> None:
        self.until(
            lambda line: (
                line.get("method") == "notifications/progress"
                and line["params"]["progressToken"] == number
                and text in line["params"].get("message", "")
            )
        )

    # Ends.

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(BOUND)

    def leave(self) -> int:
        """Close its stdin, as clients do; gives its status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(BOUND)

    def close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()
        if self.process.poll() is None:
            self.process.wait(BOUND)


def serving(state: Path, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """A `lastout job serve` that serves already: it says so by its lock alone."""
    process = subprocess.Popen(
        [sys.executable, "-m", "lastout", "job", "serve", "--state", str(state)],
        stdin=subprocess.DEVNULL,
        env={**env, "PYTHONPATH": SOURCE},
    )
    deadline = time.monotonic() + BOUND
    while not _holds_a_lock(process.pid):
        assert process.poll() is None, "it has ended"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process


def _holds_a_lock(pid: int) -> bool:
    """Asked of the process, since trying the lock could take it away from it."""
    for path in Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            if "lock:" in path.read_text():
                return True
        except FileNotFoundError:
            pass  # closed meanwhile
    return False
