"""The server: everything on one event loop, which sleeps while nothing happens."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from lastout._version import __version__
from lastout.evidence.watch import Watch
from lastout.identity import boot_id
from lastout.jobs.layout import is_id
from lastout.state import locate
from lastout.web import words
from lastout.web.actions import person
from lastout.web.board import Board
from lastout.web.ends import allow_many
from lastout.web.following import Following
from lastout.web.guard import HEADERS, Guard
from lastout.web.http1 import HEAD_LIMIT, Connections
from lastout.web.job_routes import JobRoutes
from lastout.web.jobs import Followed
from lastout.web.keeping import PORT, Keeping, PortTaken
from lastout.web.leases import FILE, Leases
from lastout.web.looking import Looking
from lastout.web.routes import Files, Routes
from lastout.web.services import Provisioned
from lastout.web.stream import Streams

__all__ = ["Served", "serve"]

_KERNEL_BUFFER: Final = 128 << 10


@dataclass(frozen=True, slots=True)
class Served:
    """A dashboard that answers now."""

    link: str
    port: int


def serve(
    state: str | os.PathLike[str] | None = None,
    *,
    port: int | None = None,
    renew: bool = False,
    ready: Callable[[Served], None] | None = None,
) -> None:
    """Serve the dashboard of a state directory until SIGINT or SIGTERM, on 127.0.0.1 alone.

    `port` None is the one of last time; 0 is any. `renew` makes a new secret: links and pages of
    before open nothing any more. `ready` is called once the link can be followed. Raises
    AlreadyServed, PortTaken, OSError.
    """
    where = locate(state)
    with _kept(where) as keeping:
        listener = _listen(port, keeping.port)
        number = listener.getsockname()[1]
        keeping.keep(number, renew=renew)
        allow_many()
        assert keeping.link is not None
        asyncio.run(_serve(where, keeping, listener, Served(keeping.link, number), ready))


@contextmanager
def _kept(state: str) -> Iterator[Keeping]:
    keeping = Keeping(state).take()
    try:
        yield keeping
    finally:
        keeping.close()


def _listen(wanted: int | None, kept: int | None) -> socket.socket:
    """The listening socket: on the port that was asked for, or the last one's, or any."""
    for port in (wanted,) if wanted is not None else (kept or PORT, 0):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Inherited by each connection: a page that does not read costs the kernel no more than this.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KERNEL_BUFFER)
        try:
            listener.bind(("127.0.0.1", port))
            listener.listen(128)
            return listener
        except OSError as error:
            listener.close()
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
    raise PortTaken(words.port_taken(wanted or 0))


async def _serve(
    state: str,
    keeping: Keeping,
    listener: socket.socket,
    served: Served,
    ready: Callable[[Served], None] | None,
) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    page = Files()
    board = Board()
    looking = Looking(board)
    with Watch(deletions=True) as watch:
        following = Following(state, board, looking.grew)
        looking.following = following
        leases = Leases(state, board)
        jobs = Followed(state, board, watch)
        services = Provisioned(state, board, watch)
        hello = {
            "build": page.build,
            "instance": board.instance,
            "version": __version__,
            "host": socket.gethostname(),
            "user": person(),
            "state": state,
            "boot": boot_id(),
        }
        streams = Streams(board, looking, hello)
        routes = Routes(
            state=state, guard=Guard(keeping, served.port), page=page, streams=streams,
            following=following, leases=leases,
        )  # fmt: skip
        JobRoutes(jobs, routes)
        connections = Connections(routes, HEADERS)
        news = _News(state, watch, following, leases, jobs, services)
        server = await asyncio.start_server(connections.serve, sock=listener, limit=HEAD_LIMIT)
        if ready is not None:
            ready(served)
        tasks = [
            asyncio.create_task(work)
            for work in (
                news.begin(board),
                leases.keep_up(news.others),
                jobs.keep_up(),
                services.keep_up(),
            )
        ]
        for task in tasks:
            task.add_done_callback(_tell)
        await ended.wait()
        server.close()
        for task in tasks:
            task.cancel()
        connections.close()
        following.close()
        jobs.close()
        loop.remove_reader(watch.descriptor)


def _tell(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        print(f"lastout web: {error!r}", file=sys.stderr)  # noqa: T201


class _News:
    """What the kernel tells of the state directory, brought to whom it concerns."""

    def __init__(
        self,
        state: str,
        watch: Watch,
        following: Following,
        leases: Leases,
        jobs: Followed,
        services: Provisioned,
    ) -> None:
        self._runs = os.path.join(state, "runs")
        self._state = state
        self._watch = watch
        self._following = following
        self._leases = leases
        self._jobs = jobs
        self._services = services

    async def begin(self, board: Board) -> None:
        """Watch first, then read: what changes in between is read twice and missed never."""
        self._watch.add(self._state)
        self._watch.add_runs(self._state)
        asyncio.get_running_loop().add_reader(self._watch.descriptor, self._some)
        await self._leases.load()
        self.others()
        self._jobs.touch_all()
        await self._jobs.load()
        await self._services.load()
        await self._following.load()
        board.settle()

    def _some(self) -> None:
        paths = self._watch.changed()
        if paths is None:
            self._watch.add_runs(self._state)
            self._following.touch_all()
            self._leases.touch()
            self._jobs.touch_all()
            self._services.touch(self._services.directory)
            return
        for path in paths:
            folder, name = os.path.split(path)
            if folder == self._state:
                if name.startswith(FILE):
                    self._leases.touch()
                elif path == self._jobs.directory:
                    self._jobs.touch_all()
                elif path == self._services.directory:
                    self._services.touch(path)
            elif path.startswith(self._services.directory + os.sep):
                self._services.touch(path)
            elif path.startswith(self._jobs.directory + os.sep):
                job = path[len(self._jobs.directory) + 1 :].partition(os.sep)[0]
                if is_id(job):
                    self._jobs.touch(job)
            elif folder == self._runs:
                with contextlib.suppress(OSError):
                    self._watch.add(path)
                    self._following.touch_directory(path)
            elif os.path.dirname(folder) == self._runs:
                self._following.touch(path)
            elif path in self._leases.elsewhere:
                self._following.touch(path, self._leases.elsewhere[path])

    def others(self) -> None:
        """Records that leases name and that lie elsewhere."""
        for path, run in self._leases.elsewhere.items():
            with contextlib.suppress(OSError):
                self._watch.add(os.path.dirname(path))
                self._following.touch(path, run)
