"""The protocol's stdio: descriptors 0 and 1 as streams of messages, for nobody else.

The SDK's own reads in a thread, which no cancellation reaches: with a client that neither closes
our stdin nor reads our stdout, SIGTERM would end nothing. This one waits on the descriptors.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from lastout.agents.lines import Lines, TooLong
from lastout.changes import Changes
from lastout.mcp import sentences
from lastout.streams import PipeReceiveStream, PipeSendStream

__all__ = ["LAST_ANSWERS", "LONGEST_MESSAGE", "stdio"]

LONGEST_MESSAGE: Final = 16 << 20
"""Bytes. A longer message is answered with an error and dropped."""

LAST_ANSWERS: Final = 1.0
"""Seconds: how long calls that are about to answer have after the end of stdin."""

_PARSE_ERROR: Final = -32700
_INVALID_REQUEST: Final = -32600


@asynccontextmanager
async def stdio(gone: anyio.Event) -> AsyncIterator[tuple[Any, Any]]:
    """Streams for the SDK's `Server.run`, for the length of the block; once in a process.

    `gone` is set when the client has closed our stdin or cannot be written to. The stream of
    messages ends after that as soon as every request is answered, at most LAST_ANSWERS later: what
    a script pipes in is answered too.
    """
    waits = os.get_blocking(0), os.get_blocking(1)
    source, sink = _claim()
    incoming, messages = anyio.create_memory_object_stream[Any](0)
    answers, outgoing = anyio.create_memory_object_stream[Any](0)
    owed = _Owed()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read, source, incoming, answers.clone(), owed, gone)
        tasks.start_soon(_write, sink, outgoing, owed, gone)
        try:
            yield messages, answers
        finally:
            tasks.cancel_scope.cancel()
            # A terminal is shared with whoever started us.
            for stream, blocking in zip((source, sink), waits, strict=True):
                os.set_blocking(stream.fileno(), blocking)
                stream.close()


def _claim() -> tuple[PipeReceiveStream, PipeSendStream]:
    """Our own copies of 0 and 1. Whatever else reads or prints here, a child above all, gets
    nothing, and its words go to stderr: stdout carries the protocol alone."""
    source, sink = PipeReceiveStream(os.dup(0)), PipeSendStream(os.dup(1))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return source, sink


class _Owed:
    """The requests without an answer, as the wire sees them."""

    def __init__(self) -> None:
        self._ids: set[Any] = set()
        self._changes = Changes()

    def asked(self, message: Any) -> None:
        """A message of the client: a request, or the word that one needs no answer any more."""
        method, params = getattr(message, "method", None), getattr(message, "params", None) or {}
        if method == "notifications/cancelled":
            self._settle(params.get("requestId"))
        elif method is not None and hasattr(message, "id"):
            self._ids.add(message.id)

    def answered(self, message: Any) -> None:
        """A message of ours that was written."""
        if not hasattr(message, "method"):
            self._settle(message.id)

    def _settle(self, identity: Any) -> None:
        self._ids.discard(identity)
        self._changes.announce()

    async def none(self) -> None:
        """Until there is none."""
        while self._ids:
            await self._changes.next()


async def _read(
    source: PipeReceiveStream,
    incoming: MemoryObjectSendStream[Any],
    answers: MemoryObjectSendStream[Any],
    owed: _Owed,
    gone: anyio.Event,
) -> None:
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    lines = Lines(LONGEST_MESSAGE)
    async with incoming, answers:
        try:
            async for data in source:
                for line in lines.feed(data):
                    if isinstance(line, TooLong):
                        text = sentences.too_long(line.length, LONGEST_MESSAGE)
                        await answers.send(_refusal(_INVALID_REQUEST, text))
                        continue
                    try:
                        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except ValueError:
                        await answers.send(_refusal(_PARSE_ERROR, sentences.NOT_JSON_RPC))
                        continue
                    owed.asked(message)
                    await incoming.send(SessionMessage(message))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        gone.set()
        with anyio.move_on_after(LAST_ANSWERS):
            await owed.none()


async def _write(
    sink: PipeSendStream,
    outgoing: MemoryObjectReceiveStream[Any],
    owed: _Owed,
    gone: anyio.Event,
) -> None:
    async with outgoing:
        async for item in outgoing:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                await sink.send(text.encode() + b"\n")
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                gone.set()
                return
            owed.answered(item.message)


def _refusal(code: int, text: str) -> Any:
    """An error for a message whose id nobody knows (JSON-RPC 2.0, section 5)."""
    from mcp.shared.message import SessionMessage
    from mcp_types import ErrorData, JSONRPCError

    error = ErrorData(code=code, message=text)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=None, error=error))
