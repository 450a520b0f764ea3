"""HTTP/1.1 as far as one page on this machine needs it, and strictly: what is odd is refused.

A request has a bounded head and a body of known length; there is no chunked body, no upgrade, no
folded header. A response has its length, or ends with its connection (a stream). RFC 9112.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

__all__ = ["HEAD_LIMIT", "Bad", "Connections", "Request", "Response", "Send", "Stream"]

HEAD_LIMIT: Final = 16 << 10
_BODY_LIMIT: Final = 64 << 10
_HEAD_S: Final = 10.0
"""How long a request may take to arrive, in seconds, once its connection is open."""
_IDLE_S: Final = 75.0
"""How long a connection is kept for the next request."""
_READS_S: Final = 30.0
"""How long a reader may take nothing while something is there for it."""
_BUFFER: Final = 64 << 10
_MOST: Final = 256
"""Connections at a time: a browser has six, so this is some forty pages."""

_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TARGET = re.compile(r"/[!-~]*")
_ONCE = (b"host", b"origin", b"content-length", b"cookie", b"x-lastout-token")

Send = Callable[[bytes], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Request:
    """A request that was well formed. Header names are in lower case; `path` is decoded."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(slots=True)
class Response:
    """An answer of known length."""

    status: int = 200
    body: bytes = b""
    type: str = "text/plain; charset=utf-8"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Stream:
    """An answer that goes on until `run` returns or its reader leaves."""

    run: Callable[[Send], Awaitable[None]]
    type: str = "text/event-stream; charset=utf-8"
    headers: dict[str, str] = field(default_factory=dict)


class Bad(Exception):
    """A request that is refused before anybody looks at what it wants."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


Handler = Callable[[Request], Awaitable[Response | Stream]]


class Connections:
    """Every open connection of a server. `close` ends all of them at once, streams too."""

    def __init__(self, handler: Handler, always: Mapping[str, str]) -> None:
        """`always` are the headers of every answer."""
        self._handler = handler
        self._always = always
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, to its end (for asyncio.start_server)."""
        task = asyncio.current_task()
        assert task is not None
        if len(self._open) >= _MOST:
            writer.transport.abort()
            return
        self._open[task] = writer
        writer.transport.set_write_buffer_limits(high=_BUFFER)
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, TimeoutError, asyncio.IncompleteReadError):
            pass  # the other side has gone, or does not go on
        except asyncio.CancelledError:
            pass  # the server ends; a cancelled task would only be reported
        finally:
            del self._open[task]
            writer.transport.abort() if writer.transport.is_closing() else writer.close()

    def close(self) -> None:
        """End every connection now, whatever it is doing."""
        for task, writer in list(self._open.items()):
            writer.transport.abort()
            task.cancel()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        try:
            request = await _request(reader)
        except Bad as bad:
            await self._answer(writer, Response(bad.status, f"{bad}\n".encode()), close=True)
            return False
        if request is None:
            return False
        answer = await self._handler(request)
        if isinstance(answer, Stream):
            await self._stream(reader, writer, answer)
            return False
        close = request.headers.get("connection", "").lower() == "close"
        await self._answer(writer, answer, close=close, bare=request.method == "HEAD")
        return not close

    async def _answer(
        self, writer: asyncio.StreamWriter, answer: Response, *, close: bool, bare: bool = False
    ) -> None:
        headers = {
            "Content-Type": answer.type,
            "Content-Length": str(len(answer.body)),
            "Connection": "close" if close else "keep-alive",
            **self._always,
            **answer.headers,
        }
        if answer.status == 304:
            del headers["Content-Length"], headers["Content-Type"]
        writer.write(_head(answer.status, headers) + (b"" if bare else answer.body))
        async with asyncio.timeout(_READS_S):
            await writer.drain()

    async def _stream(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Stream
    ) -> None:
        headers = {
            "Content-Type": answer.type,
            "Connection": "close",
            "X-Accel-Buffering": "no",
            **self._always,
            **answer.headers,
        }
        writer.write(_head(200, headers))

        async def send(data: bytes) -> None:
            writer.write(data)
            async with asyncio.timeout(_READS_S):
                await writer.drain()

        running = asyncio.ensure_future(answer.run(send))
        # Nothing is to come from this side any more: whatever comes is its end.
        left = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait((running, left), return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
        finally:
            for task in (running, left):
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError, TimeoutError):
                await running
            writer.transport.abort()


async def _request(reader: asyncio.StreamReader) -> Request | None:
    """The next request; None when the other side has ended between two of them."""
    try:
        async with asyncio.timeout(_IDLE_S):
            first = await reader.read(1)
        if not first:
            return None
        async with asyncio.timeout(_HEAD_S):
            head = first + await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise Bad(431, "the head of the request is too long") from None
    method, target, headers = _parse(head)
    parts = urlsplit(target)
    try:
        path = unquote(parts.path, errors="strict")
        query = dict(
            parse_qsl(parts.query, keep_blank_values=True, errors="strict", max_num_fields=32)
        )
    except ValueError:
        raise Bad(400, "the address is not UTF-8") from None
    if "\0" in path:
        raise Bad(400, "the address has a NUL")
    body = b""
    if method == "POST":
        async with asyncio.timeout(_HEAD_S):
            body = await reader.readexactly(_length(headers))
    elif headers.get("content-length", "0") != "0":
        raise Bad(400, "only a POST has a body")
    return Request(method, path, query, headers, body)


def _parse(head: bytes) -> tuple[str, str, dict[str, str]]:
    """Method, target and headers of a request's head. Raises Bad."""
    lines = head[:-4].split(b"\r\n")
    try:
        method, target, version = lines[0].decode("ascii").split(" ")
    except ValueError:
        raise Bad(400, "this is no request line") from None
    if version != "HTTP/1.1":
        raise Bad(505, "HTTP/1.1 is spoken here")
    if method not in ("GET", "HEAD", "POST"):
        raise Bad(405, "only GET, HEAD and POST are known here")
    if not _TARGET.fullmatch(target) or target.startswith("//"):
        raise Bad(400, "this is no address of a page here")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(b":")
        if (
            not colon
            or not _TOKEN.fullmatch(name)
            or any(byte < 32 and byte != 9 for byte in value)
        ):
            raise Bad(400, "this is no header")
        key = name.lower()
        if key in _ONCE and key.decode() in headers:
            raise Bad(400, f"two headers named {key.decode()}")
        headers[key.decode()] = value.strip(b" \t").decode("latin-1")
    if "transfer-encoding" in headers:
        raise Bad(501, "a body needs a length")
    return method, target, headers


def _length(headers: Mapping[str, str]) -> int:
    text = headers.get("content-length")
    if text is None:
        raise Bad(411, "a body needs a length")
    if not text.isascii() or not text.isdigit():
        raise Bad(400, "this is no length")
    if len(text) > 8 or int(text) > _BODY_LIMIT:
        raise Bad(413, "the body is too long")
    return int(text)


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
