"""What each address answers."""

from __future__ import annotations

import asyncio
import hashlib
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from typing import Any, Final, TypeVar

import msgspec

from lastout.evidence import journal
from lastout.evidence.index import Index, Row
from lastout.evidence.summary import STATES, summarise
from lastout.state import valid_run
from lastout.web import actions, words
from lastout.web.following import Following
from lastout.web.guard import Guard
from lastout.web.http1 import Request, Response, Stream
from lastout.web.leases import Leases
from lastout.web.lines import Shelf
from lastout.web.stream import Streams
from lastout.web.view import row_of
from lastout.web.why import Stories, line_of, lines_of

__all__ = ["Files", "Routes"]

_T = TypeVar("_T")
_MOST_LINES: Final = 500
_MOST_ROWS: Final = 200
_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "webmanifest": "application/manifest+json",
}

_encode = msgspec.json.Encoder().encode
_Route = Callable[[Request, str], Awaitable[Response | Stream]]


class Files:
    """The files of the page, read once. `build` names them all."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[bytes, str, str]] = {}
        whole = hashlib.sha256()
        for entry in sorted(
            files("lastout.web").joinpath("static").iterdir(), key=lambda e: e.name
        ):
            kind = _TYPES.get(entry.name.rsplit(".", 1)[-1])
            if kind is not None:
                data = entry.read_bytes()
                whole.update(data)
                tag = f'"{hashlib.sha256(data).hexdigest()[:20]}"'
                self.kept[entry.name] = (data, kind, tag)
        self.build = whole.hexdigest()[:16]

    def get(self, name: str, request: Request) -> Response:
        """One of them."""
        found = self.kept.get(name)
        if found is None:
            return Response(404, words.NOT_HERE.encode())
        data, kind, tag = found
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(304, headers=headers)
        return Response(200, data, kind, headers)


class Routes:
    """All addresses. What takes longer than a moment is done by threads."""

    def __init__(
        self,
        *,
        state: str,
        guard: Guard,
        page: Files,
        streams: Streams,
        following: Following,
        leases: Leases,
    ) -> None:
        self._state = state
        self._guard = guard
        self._page = page
        self._streams = streams
        self._following = following
        self._leases = leases
        self._shelf = Shelf()
        self._stories = Stories()
        # Readers never wait behind stops, each of which sleeps for as long as its ladder takes.
        self._readers = ThreadPoolExecutor(4, "lastout-web-read")
        self._stops = ThreadPoolExecutor(64, "lastout-web-stop")
        self._get: dict[str, _Route] = {
            "events": self._events,
            "history": self._history,
            "lease": self._lease,
            "row": self._row,
            "story": self._story,
            "timeline": self._timeline,
            "lines": self._lines,
            "line": self._line,
        }
        self._post: dict[str, _Route] = {"stop": self._stop}

    async def __call__(self, request: Request) -> Response | Stream:
        """Answer one request."""
        refused = self._guard.host(request)
        if refused is not None:
            return refused
        try:
            return await self._route(request)
        except msgspec.DecodeError:
            return Response(400, words.NOT_JSON.encode())
        except FileNotFoundError:
            return Response(404, words.NO_RUN.encode())
        except Exception:
            traceback.print_exc(file=sys.stderr)
            return Response(500, b"")

    async def _route(self, request: Request) -> Response | Stream:
        first, _, rest = request.path[1:].partition("/")
        if first != "api":
            if request.method == "POST":
                return Response(405, words.NOT_HERE.encode())
            name = rest if first == "static" else "index.html" if not request.path[1:] else ""
            return self._page.get(name, request)
        what, _, name = rest.partition("/")
        if what == "session" and request.method == "POST":
            return self._session(request)
        refused = self._guard.entry(request)
        if refused is not None:
            return refused
        route = (self._post if request.method == "POST" else self._get).get(what)
        if route is None:
            return Response(404, words.NOT_HERE.encode())
        return await route(request, name)

    def add(self, *, get: Mapping[str, _Route], post: Mapping[str, _Route]) -> None:
        """More addresses below /api/."""
        self._get |= get
        self._post |= post

    def _session(self, request: Request) -> Response:
        if "origin" not in request.headers:
            return Response(403, words.NO_ORIGIN.encode())
        asked = msgspec.json.decode(request.body)
        found = self._guard.session(asked.get("secret") if isinstance(asked, dict) else None)
        if found is None:
            return Response(403, words.BAD_SECRET.encode())
        answer = as_json({"token": self._guard.token})
        answer.headers |= found.headers
        return answer

    async def _events(self, request: Request, _: str) -> Response | Stream:
        if self._streams.full:
            return Response(503, words.BUSY.encode())
        run = request.query.get("run")
        last = request.headers.get("last-event-id", "")
        return self._streams.stream(last, run if run and valid_run(run) else None)

    async def _history(self, request: Request, _: str) -> Response:
        query = request.query
        state, text = query.get("state"), query.get("text") or None
        until = query.get("until", "")

        def look() -> dict[str, Any]:
            with Index(self._state) as index:
                index.refresh()
                found = index.rows(
                    command=text,
                    key=query.get("key") or None,
                    state=state if state in STATES else None,
                    until_us=int(until) if until.isascii() and until.isdigit() else None,
                    limit=_MOST_ROWS,
                )
            last = found[-1].began_us if len(found) == _MOST_ROWS else None
            return {"rows": [row_of(one) for one in found], "until": last}

        return as_json(await self.read(look))

    async def _lease(self, request: Request, _: str) -> Response:
        key = request.query.get("key", "")
        return as_json(await self.read(lambda: self._leases.history(key)))

    async def _row(self, _: Request, run: str) -> Response:
        path = self._path(run)

        def read() -> dict[str, Any]:
            found = msgspec.structs.asdict(summarise(journal.read(path)))
            return row_of(Row(path=path, **found))

        return as_json(await self.read(read))

    async def _story(self, _: Request, run: str) -> Response:
        path = self._path(run)
        body = await self.read(lambda: self._stories.story(path))
        return Response(200, body, "application/json")

    async def _timeline(self, _: Request, run: str) -> Response:
        path = self._path(run)
        body = await self.read(lambda: self._stories.timeline(path))
        # Looked at by itself it may show its own style, and nothing else.
        policy = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
        return Response(200, body, "image/svg+xml; charset=utf-8", policy)

    async def _lines(self, request: Request, run: str) -> Response:
        path, (first, count) = self._path(run), span(request)
        return as_json(await self.read(lambda: lines_of(self._shelf, path, first, count)))

    async def _line(self, request: Request, run: str) -> Response:
        path, (first, _) = self._path(run), span(request)
        return as_json(await self.read(lambda: line_of(self._shelf, path, first)))

    async def _stop(self, request: Request, run: str) -> Response:
        path, asked = self._path(run), body_of(request)
        now, reason = asked.get("now") is True, asked.get("reason")
        reason = reason[:500] if isinstance(reason, str) and reason.strip() else None

        def stop() -> dict[str, Any]:
            return actions.stop(self._state, self._leases, run, path, now=now, reason=reason)

        return as_json(await self.act(stop))

    def _path(self, run: str) -> str:
        path = self._following.path(run)
        if path is None:
            raise FileNotFoundError(run)
        return path

    async def read(self, work: Callable[[], _T]) -> _T:
        """Done by a thread for short work."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    async def act(self, work: Callable[[], _T]) -> _T:
        """Done by a thread for work that waits."""
        return await asyncio.get_running_loop().run_in_executor(self._stops, work)


def as_json(value: object) -> Response:
    """An answer for the page's scripts."""
    return Response(200, _encode(value), "application/json")


def body_of(request: Request) -> dict[str, Any]:
    """What a POST says. Raises msgspec.DecodeError when it is no object."""
    return msgspec.json.decode(request.body, type=dict[str, Any])


def span(request: Request) -> tuple[int, int]:
    """Which lines are meant: `from` and `count`, within bounds."""
    numbers = [request.query.get(name, "") for name in ("from", "count")]
    first, count = (int(n) if n.isascii() and n.isdigit() and len(n) < 12 else 0 for n in numbers)
    return first, min(count or 100, _MOST_LINES)
