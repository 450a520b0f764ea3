"""A user's own `codex` or `claude` in the same conversation: one writes, the other is told who does."""

from __future__ import annotations

import json
import subprocess

import anyio
import pytest
from real_agents import BIN, MODEL, need

from lastout.host import open_host

pytestmark = pytest.mark.anyio


class Bare:
    """An agent that a user started in a terminal: no supervisor, no lease."""

    def __init__(self, place, argv):
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=place.env, cwd=place.cwd
        )
        self.pid = self.process.pid

    def tell(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def until(self, wanted):
        for raw in self.process.stdout:
            message = json.loads(raw)
            if wanted(message):
                return message
        raise AssertionError(f"it ended: {self.process.wait()}")

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def bare_codex(place, thread):
    need("codex")
    bare = Bare(place, [_native(place), "app-server", "-c", "mcp_servers.stubborn.enabled=false"])
    info = {"clientInfo": {"name": "user", "title": None, "version": "0"}, "capabilities": None}
    bare.tell({"id": 1, "method": "initialize", "params": info})
    bare.until(lambda m: m.get("id") == 1)
    bare.tell({"method": "initialized"})
    bare.tell({"id": 2, "method": "thread/resume", "params": {"threadId": thread}})
    return bare, bare.until(lambda m: m.get("id") == 2)


def _native(place):
    from lastout.agents.install import native_beside

    return native_beside(str(BIN / "codex"), "@openai/codex", "codex")


def bare_claude(place, session):
    bare = Bare(
        place,
        [BIN / "claude", "-p", "--input-format", "stream-json", "--output-format", "stream-json",
         "--verbose", "--model", MODEL["claude"], "--resume", session],
    )  # fmt: skip
    content = [{"type": "text", "text": "[[hi]] from the user"}]
    bare.tell({"type": "user", "message": {"role": "user", "content": content}})
    bare.until(lambda m: m.get("type") == "result")
    return bare


async def conversation(host, place, name):
    kind = place.kind(name)
    chat = await host.open("k", kind.adapter, cwd=place.cwd, options=kind.options)
    assert (await (await chat.send("[[hi]]")).done()).state == "completed"
    return chat


async def test_a_bare_codex_that_holds_the_thread_is_named(place):
    need("codex")
    async with open_host(state=place.state) as host:
        chat = await conversation(host, place, "codex")
        await chat.rest()
        bare, answer = await anyio.to_thread.run_sync(bare_codex, place, chat.kept.native)
        with bare:
            assert "result" in answer
            refused = await (await chat.send("[[hi]]", id="m2")).done()
            assert refused.state == "returned"
            assert f"codex (pid {bare.pid}, " in refused.reason
        assert (await (await chat.send("[[hi]]", id="m2")).done()).state == "completed"


async def test_a_bare_codex_is_refused_while_the_host_has_the_thread(place):
    need("codex")
    async with open_host(state=place.state) as host:
        chat = await conversation(host, place, "codex")
        bare, answer = await anyio.to_thread.run_sync(bare_codex, place, chat.kept.native)
        with bare:
            assert "already has an active writer" in answer["error"]["message"]
        assert (await (await chat.send("[[hi]]")).done()).state == "completed"


async def test_a_bare_claude_in_the_session_is_seen_before_the_start(place):
    need("claude")
    async with open_host(state=place.state) as host:
        chat = await conversation(host, place, "claude")
        await chat.rest()
        bare = await anyio.to_thread.run_sync(bare_claude, place, chat.kept.native)
        with bare:
            refused = await (await chat.send("[[hi]]", id="m2")).done()
            assert refused.state == "returned"
            assert f"(pid {bare.pid}, " in refused.reason
            assert "close it there, and send again" in refused.reason
        assert (await (await chat.send("[[hi]]", id="m2")).done()).state == "completed"


async def test_a_bare_claude_that_comes_later_is_reported_with_the_next_message(place):
    need("claude")
    async with open_host(state=place.state) as host:
        chat = await conversation(host, place, "claude")
        bare = await anyio.to_thread.run_sync(bare_claude, place, chat.kept.native)
        with bare:
            refused = await (await chat.send("[[hi]]", id="m2")).done()
            assert refused.state == "returned"
            assert f"(pid {bare.pid}, " in refused.reason
        assert (await (await chat.send("[[hi]]", id="m2")).done()).state == "completed"
