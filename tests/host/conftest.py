"""Hosts with the scripted agent: a directory, short graces, and what its transcripts must look like."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest

from lastout.agents import Scripted
from lastout.graces import Graces
from lastout.host import Conversation, Host, open_host

SHORT = Graces(stdin=0.3, term=0.5, reap=5.0)
"""Short where the absolute values are not the subject; the reap bound is no wait."""

BOUND = 30.0
"""Nothing in these tests takes so long, on whatever machine."""


class Stage:
    """The directories of one test, and the agents and hosts in them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state = directory / "state"
        self.home = directory / "home"

    def agent(
        self, *args: str, graces: Graces = SHORT, kind: type[Scripted] = Scripted
    ) -> Scripted:
        return kind(self.home, args=args, graces=graces)

    def host(self, **options: Any) -> AbstractAsyncContextManager[Host]:
        return open_host(state=self.state, **options)

    def transcript(self, thread: str | None) -> list[dict[str, Any]]:
        """The thread's entries; fails when two writers have forked it, or wrote one line twice."""
        path = self.home / "sessions" / "0000" / "00" / "00" / f"rollout-{thread}.jsonl"
        entries = [json.loads(line) for line in path.read_text().splitlines()]
        parents = [entry["parent"] for entry in entries]
        assert parents == [None, *(entry["id"] for entry in entries)][: len(parents)], "forked"
        told = [entry["clientId"] for entry in entries if entry["role"] == "user"]
        assert len(set(told)) == len(told), "a message was delivered twice"
        return entries

    def said(self, thread: str | None) -> list[str]:
        """The user's messages in the transcript."""
        return [entry["text"] for entry in self.transcript(thread) if entry["role"] == "user"]

    def lines(self, run: str | None) -> list[dict[str, Any]]:
        """A run's record."""
        assert run is not None
        path = self.state / "runs" / run[:8] / f"{run}.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines() if line]


class HostProcess:
    """A `lastout host` of its own, to be killed."""

    def __init__(self, stage: Stage, *options: str, keep_stdin: bool = False) -> None:
        source = str(Path(sys.modules["lastout"].__file__ or "").parent.parent)
        env = {**os.environ, "PYTHONPATH": source}
        argv = [sys.executable, "-m", "lastout", "host", "--state", str(stage.state), *options]
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, cwd=stage.directory
        )
        assert self.process.stdin is not None
        self.held = os.dup(self.process.stdin.fileno()) if keep_stdin else None
        self.events: list[dict[str, Any]] = []
        self._answers = 0
        self.found = self.until(lambda line: line.get("event") == "host")["found"]

    def ask(self, do: str, **fields: Any) -> dict[str, Any]:
        """One request and its answer."""
        self.tell(do, re=f"r{self._answers}", **fields)
        answer = self.until(lambda line: line.get("re") == f"r{self._answers}")
        self._answers += 1
        return answer

    def tell(self, do: str, **fields: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **fields}).encode() + b"\n")
        self.process.stdin.flush()

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The next line that is wanted; all lines are kept in `events`."""
        assert self.process.stdout is not None
        for raw in self.process.stdout:
            line: dict[str, Any] = json.loads(raw)
            self.events.append(line)
            if wanted(line):
                return line
        raise AssertionError(f"the host ended; it said: {self.events[-5:]}")

    def until_event(self, event: str) -> dict[str, Any]:
        return self.until(lambda line: line.get("event") == event)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(BOUND)

    def close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        if self.held is not None:
            os.close(self.held)
        if self.process.poll() is None:
            self.process.wait(BOUND)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


@pytest.fixture
def host_process(stage: Stage) -> Iterator[Callable[..., HostProcess]]:
    made: list[HostProcess] = []

    def start(*options: str, **more: Any) -> HostProcess:
        made.append(HostProcess(stage, *options, **more))
        return made[-1]

    yield start
    for process in made:
        process.close()


@pytest.fixture
def until() -> Callable[..., Any]:
    """Waits for an event of a conversation: `await until(conversation, action, "tag")`."""

    async def wait(
        conversation: Conversation, act: Callable[[], Any], wanted: Callable[[Any], bool]
    ) -> Any:
        with anyio.fail_after(BOUND):
            with conversation.events() as events:
                result = await act()
                async for event in events:
                    if wanted(event):
                        return result, event
        raise AssertionError

    return wait
