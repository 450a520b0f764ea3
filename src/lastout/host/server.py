"""Serves the host's protocol on stdin and stdout, or on a UNIX socket to any number of clients."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import SocketStream, TaskGroup

from lastout.host.bounds import SLACK
from lastout.host.host import Host
from lastout.host.wire import Client
from lastout.streams import PipeReceiveStream, PipeSendStream

__all__ = ["serve_socket", "serve_stdio"]

_LAST_ANSWERS = SLACK / 4
"""Seconds: how long a client that does not read holds up the end, of what a quit keeps for
itself."""


async def serve_stdio(host: Host) -> None:
    """Serve one client on descriptors 0 and 1, until its requests end, it asks to quit, or TERM."""
    # Copies: our streams make theirs non-blocking and close them, and 0 to 2 are never closed.
    source, sink = PipeReceiveStream(os.dup(0)), PipeSendStream(os.dup(1))
    async with anyio.create_task_group() as tasks:
        client = Client(host, sink, tasks)

        async def requests() -> None:
            await client.serve(source)
            client.quit_asked.set()

        tasks.start_soon(requests)
        await _asked_to_quit(tasks, client.quit_asked)
        # Now, so that whoever waits for the end of a message is told it.
        await host.quit()
        with anyio.move_on_after(_LAST_ANSWERS):
            await client.all_answered()
        client.close()
        tasks.cancel_scope.cancel()


async def serve_socket(host: Host, path: str) -> None:
    """Serve whoever connects to a socket (mode 0600), until one asks to quit, or TERM or INT.

    A client that goes away takes nothing with it: its conversations go on.
    """
    quit_asked = anyio.Event()
    clients: list[Client] = []

    async def serve(stream: SocketStream) -> None:
        async with stream, anyio.create_task_group() as tasks:
            client = Client(host, stream, tasks)
            clients.append(client)

            async def watch() -> None:
                await client.quit_asked.wait()
                quit_asked.set()

            tasks.start_soon(watch)
            try:
                await client.serve(stream)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass
            clients.remove(client)
            client.close()
            tasks.cancel_scope.cancel()

    async with _listener(path) as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        await _asked_to_quit(tasks, quit_asked)
        await host.quit()
        with anyio.move_on_after(_LAST_ANSWERS):
            for client in clients.copy():
                await client.all_answered()
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def _listener(path: str) -> AsyncIterator[anyio.abc.SocketListener]:
    _remove_stale(path)
    before = os.umask(0o177)
    try:
        listener = await anyio.create_unix_listener(path)
    finally:
        os.umask(before)
    made = os.stat(path).st_ino
    try:
        async with listener:
            yield listener
    finally:
        # Only ours: another host may have taken the name meanwhile.
        try:
            if os.stat(path).st_ino == made:
                os.unlink(path)
        except FileNotFoundError:
            pass


def _remove_stale(path: str) -> None:
    """Remove a socket on which nobody listens any more. Raises FileExistsError when one does."""
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(path)
    except FileNotFoundError:
        return
    except ConnectionRefusedError:
        os.unlink(path)
        return
    raise FileExistsError(17, "a host is serving there already", path)


async def _asked_to_quit(tasks: TaskGroup, asked: anyio.Event) -> None:
    async def signals() -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
            async for _ in received:
                asked.set()

    tasks.start_soon(signals)
    await asked.wait()
