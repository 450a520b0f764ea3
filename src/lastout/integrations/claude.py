"""Claude Code under the supervisor, for the `claude-agent-sdk`.

Its `query` closes stdin as soon as the prompt is written, and the agent works on: here the end of
stdin stops nothing. What stops a run is the SDK's own stop, or the death of its process.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import claude_agent_sdk
from anyio import BrokenResourceError, ClosedResourceError

from lastout.graces import Graces
from lastout.handle import Process
from lastout.integrations.reusable import reusable
from lastout.process import open_process
from lastout.state import state_dir
from lastout.supervisor import Argument

__all__ = ["STREAMING", "Transport", "cli_path"]

STREAMING = ("--output-format", "stream-json", "--verbose", "--input-format", "stream-json")
"""The arguments with which Claude Code speaks the SDK's protocol."""


def cli_path(
    claude: str | os.PathLike[str] | None = None,
    *,
    graces: Graces | str = "claude-sdk",
    state: str | os.PathLike[str] | None = None,
) -> str:
    """A small executable file for `ClaudeAgentOptions(cli_path=...)`, which takes no arguments.

    It starts `claude` (default: the program that comes with the SDK, else the one on PATH) behind
    the supervisor, and lies in the state directory; the same command gives the same file. The
    preset's ladder ends inside the SDK's patience of 5 s. Raises FileNotFoundError.
    """
    program = os.path.abspath(claude) if claude is not None else _installed()
    argv = reusable([program], graces=graces, stdin_end="ignore", state=state)
    text = f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n'
    directory = state_dir(state) / "shims"
    directory.mkdir(mode=0o700, exist_ok=True)
    path = directory / f"claude-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    if not path.exists():
        # Made whole under another name: somebody may start the file at this moment.
        unfinished = path.with_suffix(f".{os.getpid()}")
        unfinished.write_text(text, encoding="utf-8")
        unfinished.chmod(0o700)
        unfinished.replace(path)
    return str(path)


class Transport(claude_agent_sdk.Transport):
    """A transport over `open_process`, for `ClaudeSDKClient(transport=...)` and `query`.

    `argv` is the whole command, `STREAMING` and every other option included: with a transport the
    SDK adds nothing to it. `options` are `open_process`'s.
    """

    def __init__(
        self,
        argv: Sequence[Argument],
        *,
        env: Mapping[str, str] | None = None,
        graces: Graces | str = "claude-sdk",
        **options: Any,
    ) -> None:
        options.setdefault("stdin_end", "ignore")
        self._argv = argv
        self._options: dict[str, Any] = {"env": env, "graces": graces, **options}
        self._context: Any = None
        self.process: Process | None = None
        """The handle, once connected; its `outcome` is there after `close`."""

    async def connect(self) -> None:
        """Start the agent. Raises CLINotFoundError, or as `open_process` does."""
        if self._context is not None:
            return
        context = open_process(self._argv, **self._options)
        try:
            self.process = await context.__aenter__()
        except FileNotFoundError as error:
            raise claude_agent_sdk.CLINotFoundError(str(error)) from error
        self._context = context

    async def write(self, data: str) -> None:
        """Send one line. Raises CLIConnectionError when nobody reads it."""
        process = self.process
        if process is None or process.stdin is None:
            raise claude_agent_sdk.CLIConnectionError("not connected")
        try:
            await process.stdin.send(data.encode())
        except (BrokenResourceError, ClosedResourceError) as error:
            raise claude_agent_sdk.CLIConnectionError("the agent does not read any more") from error

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        """The agent's messages to the end of its output.

        Raises ProcessError when the agent itself ended badly, CLIJSONDecodeError for a line that is
        no JSON.
        """
        process = self.process
        if process is None or process.stdout is None:
            raise claude_agent_sdk.CLIConnectionError("not connected")
        rest = b""
        try:
            async for chunk in process.stdout:
                lines = (rest + chunk).split(b"\n")
                rest = lines.pop()
                for line in lines:
                    if line.strip():
                        yield _message(line)
        except ClosedResourceError:
            return  # closed by us
        status = await process.wait_root()
        if status:
            raise claude_agent_sdk.ProcessError("Claude Code ended", exit_code=status)

    async def end_input(self) -> None:
        """Close stdin; the agent finishes what it was asked."""
        if self.process is not None and self.process.stdin is not None:
            await self.process.stdin.aclose()

    async def close(self) -> None:
        """Stop the run; returns when nothing of it is alive."""
        await self.end_input()
        context, self._context = self._context, None
        if context is not None:
            await context.__aexit__(None, None, None)

    def is_ready(self) -> bool:
        """Whether messages can be sent."""
        process = self.process
        return process is not None and process.stdin is not None and process.stdin.fileno() >= 0


def _message(line: bytes) -> dict[str, Any]:
    try:
        message: dict[str, Any] = json.loads(line)
    except ValueError as error:
        raise claude_agent_sdk.CLIJSONDecodeError(line.decode(errors="replace"), error) from error
    return message


def _installed() -> str:
    bundled = Path(claude_agent_sdk.__file__).with_name("_bundled") / "claude"
    found = str(bundled) if bundled.is_file() else shutil.which("claude")
    if found is None:
        raise FileNotFoundError(2, "Claude Code is not installed; name the program", "claude")
    return found
