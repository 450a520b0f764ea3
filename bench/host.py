"""The host's own numbers, with the scripted agent: what a message costs, and how long ends take."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import anyio

import lastout
from lastout.agents import Scripted
from lastout.agents.dialogue import Start
from lastout.agents.events import CommandStarted, Ready, TurnEnded
from lastout.agents.lines import Lines
from lastout.graces import DEFAULT
from lastout.host import Conversation, open_host

from .measure import Number

_MANY = 50
_DEAF = "interrupt,stdin,term"


def measure(rounds: int, progress: Callable[[str], None]) -> list[Number]:
    """All of them; `rounds` is for the message's cost alone."""
    return [
        _message(rounds, progress),
        _quit(progress, deaf=False),
        _quit(progress, deaf=True),
        _recovery(progress),
    ]


class _Bare:
    """The same protocol and the same agent without a host: no supervisor, no lease, no ledger."""

    async def start(self, home: Path) -> None:
        agent = Scripted(home)
        plan = agent.plan(await agent.find(), Start(cwd=os.getcwd()))
        self._dialogue = plan.dialogue
        self._process = await asyncio.create_subprocess_exec(
            *plan.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._lines = Lines()
        self._dialogue.open()
        await self._until(Ready)

    async def message(self, number: int) -> None:
        self._dialogue.send(f"m{number}", "/say hello")
        await self._until(TurnEnded)

    async def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()

    async def _until(self, wanted: type) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        while True:
            while self._dialogue.outgoing:
                self._process.stdin.write(self._dialogue.outgoing.popleft())
            for line in self._lines.feed(await self._process.stdout.read(1 << 16)):
                assert isinstance(line, bytes)
                if any(isinstance(event, wanted) for event in self._dialogue.receive(line)):
                    return


def _message(rounds: int, progress: Callable[[str], None]) -> Number:
    progress(f"host: {rounds} messages with and without a host, in turns")
    bare_times, host_times = list[float](), list[float]()

    async def go(directory: Path) -> None:
        bare = _Bare()
        await bare.start(directory / "bare")
        async with open_host(state=directory / "state") as host:
            chat = await host.open("bench", Scripted(directory / "home"))
            await (await chat.send("/say hello")).done()
            for number in range(rounds):
                began = time.perf_counter()
                await bare.message(number)
                between = time.perf_counter()
                await (await chat.send("/say hello")).done()
                bare_times.append((between - began) * 1000)
                host_times.append((time.perf_counter() - between) * 1000)
        await bare.close()

    with tempfile.TemporaryDirectory() as name:
        asyncio.run(go(Path(name)))
    bare, host = statistics.median(bare_times), statistics.median(host_times)
    return Number(
        "host: added to a message over the bare protocol client",
        host - bare,
        2.0,
        "ms",
        f"medians of {rounds}, interleaved: {host:.2f} ms with, {bare:.2f} ms without",
    )


async def _busy(chat: Conversation, text: str, deaf: bool) -> None:
    """Until the turn has begun its command, or is over."""
    with chat.events() as events:
        message = await chat.send(text)
        if not deaf:
            await message.done()
            return
        async for event in events:
            if isinstance(event, CommandStarted):
                return


def _quit(progress: Callable[[str], None], *, deaf: bool) -> Number:
    what = "that ignore everything" if deaf else "idle"
    progress(f"host: quit of {_MANY} conversations, {what}")
    args = ["--ignore", _DEAF] if deaf else []
    text = "/stubborn sleep 60" if deaf else "hello"

    async def go(directory: Path) -> float:
        async with open_host(state=directory / "state") as host:
            async with anyio.create_task_group() as tasks:
                for number in range(_MANY):
                    agent = Scripted(directory / "home", args=args)
                    tasks.start_soon(_busy, await host.open(f"k{number}", agent), text, deaf)
            began = time.perf_counter()
            ends = await host.quit()
            took = time.perf_counter() - began
            assert set(ends.values()) == {"exited"}, ends
            return took

    with tempfile.TemporaryDirectory() as name:
        took = anyio.run(go, Path(name))
    limit = DEFAULT.max_stop + 1.5 if deaf else 1.0
    return Number(f"host: quit of {_MANY} conversations {what}", took, limit, "s", "one run")


def _recovery(progress: Callable[[str], None]) -> Number:
    progress(f"host: recovery of {_MANY} conversations of a host that was killed")
    source = str(Path(lastout.__file__).parent.parent)
    with tempfile.TemporaryDirectory() as name:
        state = Path(name) / "state"
        # In a process of its own, whose death the supervisors see.
        argv = [sys.executable, "-m", "lastout", "host", "--state", str(state)]
        host = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": source},
        )
        assert host.stdin is not None
        assert host.stdout is not None
        for number in range(_MANY):
            agent = f"scripted:--ignore {_DEAF}"
            for request in (
                {"do": "open", "key": f"k{number}", "agent": agent},
                {"do": "send", "key": f"k{number}", "text": "/stubborn sleep 60"},
            ):
                host.stdin.write(json.dumps(request).encode() + b"\n")
        host.stdin.flush()
        running = 0
        for line in host.stdout:
            running += json.loads(line).get("event") == "command-started"
            if running == _MANY:
                break
        host.kill()
        host.wait()
        host.stdin.close()
        host.stdout.close()

        async def recover() -> float:
            began = time.perf_counter()
            async with open_host(state=state) as after:
                took = time.perf_counter() - began
                assert {found.verdict for found in after.found} == {"exited"}, after.found
                assert len(after.found) == _MANY
                return took

        took = anyio.run(recover)
    return Number(
        f"host: recovery of {_MANY} conversations whose agents ignore everything",
        took,
        DEFAULT.max_stop + 2.0,
        "s",
        "one run, from the kill of their host",
    )
