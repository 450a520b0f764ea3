"""The owners of the survey: each starts the agent through its host, and stops it the host's way.

    owners.py HOST with|without ROLL TTL polite|stubborn STATE

Prints `up` when the host has its agent, waits for a line on stdin, lets the host stop it, prints
how many seconds that took, and ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HOST, SUPERVISION, ROLL, TTL, MANNER, STATE = sys.argv[1:7]
SUPERVISED = SUPERVISION == "with"
AGENT = str(Path(__file__).with_name("agent.py"))

# The graces that the owner's host has patience for; anyio, dask, asyncio and subprocess have none
# of their own and take the default.
BUDGETS = {
    "mcp": "mcp",
    "mcp transport": "mcp",
    "acp": "acp",
    "codex": "codex-sdk",
    "claude": "claude-sdk",
    "claude transport": "claude-sdk",
    "jupyter": "jupyter",
    "trio": "trio",
}


def agent(protocol: str) -> list[str]:
    return [sys.executable, "-I", "-S", AGENT, ROLL, TTL, MANNER, protocol]


def argv(protocol: str = "lines") -> list[str]:
    """The agent, with the supervisor in front where this is a row with it."""
    if not SUPERVISED:
        return agent(protocol)
    import lastout

    return lastout.command(agent(protocol), graces=BUDGETS.get(HOST), record=True, state=STATE)


def say(what: object) -> None:
    print(what, flush=True)


def signed() -> bool:
    try:
        return Path(ROLL).read_text().count("\n") >= 3
    except FileNotFoundError:
        return False


def up() -> None:
    """Say `up`, and wait for the word to stop."""
    while not signed():
        time.sleep(0.01)
    say("up")
    sys.stdin.readline()


async def up_async(to_thread: Callable[..., Any]) -> None:
    await to_thread(up)


class Took:
    def __enter__(self) -> None:
        self._begin = time.monotonic()

    def __exit__(self, *exc_info: object) -> None:
        say(f"stopped {time.monotonic() - self._begin:.1f}")


def with_subprocess() -> None:
    import subprocess

    child = subprocess.Popen(argv(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    up()
    with Took():
        child.terminate()
        try:
            child.wait(2)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def with_popen() -> None:
    import subprocess

    import lastout

    child = lastout.Popen(
        agent("lines"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, state=STATE
    )
    up()
    with Took():
        child.kill()
        child.wait()


async def with_asyncio() -> None:
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(*argv(), stdin=pipe, stdout=pipe)
    await up_async(asyncio.to_thread)
    with Took():
        child.terminate()
        try:
            await asyncio.wait_for(child.wait(), 2)
        except TimeoutError:
            child.kill()
            await child.wait()


async def with_anyio() -> None:
    import anyio

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: anyio.run_process(argv(), input=None, stdin=-1))
        await up_async(asyncio.to_thread)
        took = Took()
        took.__enter__()
        tasks.cancel_scope.cancel()
    took.__exit__()


async def with_trio() -> None:
    import trio

    options: dict[str, Any] = {}
    if SUPERVISED:
        from lastout.integrations.trio import deliver_cancel

        options["deliver_cancel"] = deliver_cancel("trio")
    took = Took()
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            # stdin stays open: a pipe of our own, held by this process.
            await trio.run_process(argv(), stdin=read_end, check=False, **options)

        read_end, write_end = os.pipe()
        os.set_inheritable(write_end, False)
        nursery.start_soon(run)
        await up_async(trio.to_thread.run_sync)
        took.__enter__()
        nursery.cancel_scope.cancel()
    took.__exit__()


async def with_mcp() -> None:
    from mcp import ClientSession, StdioServerParameters, stdio_client

    command = agent("jsonrpc")
    server = StdioServerParameters(command=command[0], args=command[1:])
    if SUPERVISED:
        from lastout.integrations.mcp import supervised

        server = supervised(server, state=STATE)
    await _mcp(stdio_client(server), ClientSession)


async def with_mcp_transport() -> None:
    from mcp import ClientSession, StdioServerParameters

    from lastout.integrations.mcp import transport

    command = agent("jsonrpc")
    server = StdioServerParameters(command=command[0], args=command[1:])
    await _mcp(transport(server, state=STATE), ClientSession)


async def _mcp(transport: Any, session_type: Any) -> None:
    took = Took()
    async with transport as (read, write):
        async with session_type(read, write) as session:
            await session.initialize()
            await up_async(asyncio.to_thread)
        took.__enter__()
    took.__exit__()


async def with_acp() -> None:
    import acp

    class Client:
        def on_connect(self, conn: object) -> None: ...

    words: Sequence[str] = agent("jsonrpc")
    if SUPERVISED:
        from lastout.integrations.acp import supervised

        words = supervised(words, state=STATE)
    took = Took()
    # acp asks a child to end that may have ended in that very moment, and lets the error out.
    with contextlib.suppress(ProcessLookupError):
        # stderr: acp's default is a pipe that it does not read, and what it takes is its public way.
        async with acp.spawn_agent_process(
            lambda _: Client(), *words, env=dict(os.environ), transport_kwargs={"stderr": None}
        ) as (connection, _):
            await connection.initialize(protocol_version=acp.PROTOCOL_VERSION)
            await up_async(asyncio.to_thread)
            took.__enter__()
    took.__exit__()


async def with_claude() -> None:
    from claude_agent_sdk import ClaudeAgentOptions

    program = Path(STATE) / f"claude-{os.getpid()}"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {" ".join(agent("claude"))} "$@"\n')
    program.chmod(0o700)
    path = str(program)
    if SUPERVISED:
        from lastout.integrations.claude import cli_path

        path = cli_path(path, state=STATE)
    await _claude(options=ClaudeAgentOptions(cli_path=path))


async def with_claude_transport() -> None:
    from lastout.integrations.claude import Transport

    await _claude(transport=Transport(agent("claude"), state=STATE))


async def _claude(**how: Any) -> None:
    from claude_agent_sdk import ClaudeSDKClient

    client = ClaudeSDKClient(**how)
    await client.connect()
    await up_async(asyncio.to_thread)
    with Took():
        await client.disconnect()


def with_codex() -> None:
    from openai_codex import CodexConfig
    from openai_codex.client import CodexClient

    words = tuple(agent("jsonrpc"))
    if SUPERVISED:
        from lastout.integrations.reusable import reusable

        words = tuple(reusable(words, graces="codex-sdk", state=STATE))
    client = CodexClient(CodexConfig(launch_args_override=words))
    client.start()
    client.initialize()
    up()
    with Took():
        client.close()


KERNEL = """
import signal, subprocess, sys
sys.path.insert(0, {directory!r})
import agent
for role in ("A", "B"):
    command = [sys.executable, "-I", "-S", agent.__file__, {roll!r}, "{ttl}", "tool", role]
    subprocess.run(command, stdin=subprocess.DEVNULL)
signal.alarm(round({ttl}))
agent.sign({roll!r}, "agent")
if {stubborn}:
    # Deaf to signals, and to messages: the interpreter's lock is never given back.
    import ctypes
    for number in agent.IGNORED:
        signal.signal(number, signal.SIG_IGN)
    ctypes.PyDLL(None).sleep(round({ttl}))
"""


async def with_jupyter() -> None:
    from jupyter_client import AsyncKernelManager

    # A kernel as a user would install it; only this place is searched.
    place = Path(STATE) / "jupyter" / "kernels" / "surveyed"
    place.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec: dict[str, Any] = {"argv": command, "display_name": "surveyed", "language": "python"}
    if SUPERVISED:
        provisioner = {"provisioner_name": "lastout-provisioner", "config": {"state": STATE}}
        spec["metadata"] = {"kernel_provisioner": provisioner}
    (place / "kernel.json").write_text(json.dumps(spec))
    os.environ["JUPYTER_PATH"] = str(place.parents[1])
    manager = AsyncKernelManager(kernel_name="surveyed")
    await manager.start_kernel()
    client = manager.client()
    client.start_channels()
    await client.wait_for_ready(timeout=60)
    directory = str(Path(__file__).parent)
    client.execute(
        KERNEL.format(directory=directory, roll=ROLL, ttl=float(TTL), stubborn=MANNER == "stubborn")
    )
    await up_async(asyncio.to_thread)
    with Took():
        await manager.shutdown_kernel()
    client.stop_channels()


async def with_dask() -> None:
    took = Took()
    if SUPERVISED:
        from lastout.integrations.dask import Worker

        worker: Any = Worker(
            "tcp://127.0.0.1:1", argv=agent("lines"), stdin=-1, stdout=-1, state=STATE
        )
    else:
        from distributed.deploy.subprocess import Subprocess

        class Plain(Subprocess):
            async def _start(self) -> None:
                pipe = asyncio.subprocess.PIPE
                self.process = await asyncio.create_subprocess_exec(
                    *agent("lines"), stdin=pipe, stdout=pipe
                )

        worker = Plain()
    await worker.start()
    await up_async(asyncio.to_thread)
    took.__enter__()
    await worker.close()
    took.__exit__()


def main() -> None:
    run = globals()["with_" + HOST.replace(" ", "_")]
    if HOST == "trio":
        import trio

        trio.run(run)
    elif asyncio.iscoroutinefunction(run):
        asyncio.run(run())
    else:
        run()


if __name__ == "__main__":
    main()
