"""MCP servers under the supervisor, for the `mcp` SDK's client side.

`supervised` changes the parameters of any host that starts servers from `StdioServerParameters`;
`transport` is a client transport of our own, which also tells how the server ended.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TextIO

import anyio
import mcp.types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import StdioServerParameters, get_default_environment
from mcp.shared.message import SessionMessage

from lastout.graces import Graces
from lastout.handle import Process
from lastout.integrations.reusable import reusable
from lastout.process import open_process

__all__ = ["supervised", "transport"]


def supervised(
    server: StdioServerParameters,
    *,
    graces: Graces | str = "mcp",
    state: str | os.PathLike[str] | None = None,
) -> StdioServerParameters:
    """The same server with the supervisor in front, for `stdio_client` and for hosts' own tables.

    The preset's ladder ends inside the patience of the SDK (2 s after closing stdin, 2 s after
    SIGTERM).
    """
    argv = reusable([server.command, *server.args], graces=graces, state=state)
    return server.model_copy(update={"command": argv[0], "args": argv[1:]})


@asynccontextmanager
async def transport(
    server: StdioServerParameters,
    *,
    graces: Graces | str = "mcp",
    errlog: TextIO = sys.stderr,
    **options: Any,
) -> AsyncIterator[Any]:
    """A client transport, as `stdio_client` is: `async with Client(transport(server))`.

    Leaving closes the server's stdin first, as the protocol says, and returns when nothing of it is
    alive. `options` are `open_process`'s.
    """
    async with open_process(
        [server.command, *server.args],
        env=get_default_environment() | (server.env or {}),
        cwd=server.cwd,
        stderr=errlog,
        graces=graces,
        **options,
    ) as process:
        incoming, received = anyio.create_memory_object_stream[Any](0)
        outgoing, to_send = anyio.create_memory_object_stream[Any](0)
        how = (server.encoding, server.encoding_error_handler)
        async with anyio.create_task_group() as tasks:
            sent = anyio.Event()
            tasks.start_soon(_receive, process, incoming, how)
            tasks.start_soon(_send, process, to_send, incoming, how, sent)
            try:
                yield received, outgoing
            finally:
                with anyio.CancelScope(shield=True):
                    await _end(process, outgoing, received, sent)
                tasks.cancel_scope.cancel()


async def _end(
    process: Process,
    outgoing: MemoryObjectSendStream[Any],
    received: MemoryObjectReceiveStream[Any],
    sent: anyio.Event,
) -> None:
    """What was accepted is sent, then stdin is closed: that starts the ladder."""
    received.close()
    outgoing.close()
    with anyio.move_on_after(_FLUSH):
        await sent.wait()
    assert process.stdin is not None
    process.stdin.close()
    await process.wait()


_FLUSH = 0.5
"""Seconds for messages that were accepted and not yet written."""


async def _receive(
    process: Process, incoming: MemoryObjectSendStream[Any], how: tuple[str, str]
) -> None:
    assert process.stdout is not None
    rest = b""
    wanted = True
    async with incoming:
        # Read on when the session is gone: a server that blocks on a full pipe cannot end.
        async for chunk in process.stdout:
            lines = (rest + chunk).split(b"\n")
            rest = lines.pop()
            for line in lines if wanted else ():
                try:
                    await incoming.send(_message(line.decode(*how)))
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    wanted = False
                    break


async def _send(
    process: Process,
    to_send: MemoryObjectReceiveStream[Any],
    incoming: MemoryObjectSendStream[Any],
    how: tuple[str, str],
    sent: anyio.Event,
) -> None:
    assert process.stdin is not None
    try:
        async with to_send:
            async for message in to_send:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send((text + "\n").encode(*how))
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        # Nobody reads any more: the session must see an end, not wait for an answer for ever.
        incoming.close()
    finally:
        sent.set()


def _message(line: str) -> Any:
    """A session's message, or the error of a line that is none: the session decides about it."""
    adapter = getattr(mcp.types, "jsonrpc_message_adapter", None)
    try:
        if adapter is not None:
            return SessionMessage(adapter.validate_json(line, by_name=False))
        return SessionMessage(mcp.types.JSONRPCMessage.model_validate_json(line))  # before 2.0
    except ValueError as error:
        return error
