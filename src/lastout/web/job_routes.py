"""What the addresses of jobs answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lastout.jobs.errors import JobsError
from lastout.web import words
from lastout.web.http1 import Request, Response
from lastout.web.jobs import Followed, feed_of
from lastout.web.lines import Shelf
from lastout.web.plain import plain
from lastout.web.routes import Routes, as_json, body_of, span
from lastout.web.why import line_of

__all__ = ["JobRoutes"]


class JobRoutes:
    """Feeds, and what a person asks of a job."""

    def __init__(self, jobs: Followed, routes: Routes) -> None:
        self._jobs = jobs
        self._routes = routes
        self._shelf = Shelf()
        routes.add(
            get={"feed": self._feed, "fact": self._fact},
            post={"cancel": self._cancel, "answer": self._answer, "message": self._message},
        )

    async def _feed(self, request: Request, job: str) -> Response:
        path, (first, count) = self._path(job), span(request)
        return as_json(await self._routes.read(lambda: feed_of(self._shelf, path, first, count)))

    async def _fact(self, request: Request, job: str) -> Response:
        path, (first, _) = self._path(job), span(request)
        return as_json(await self._routes.read(lambda: line_of(self._shelf, path, first)))

    async def _cancel(self, request: Request, job: str) -> Response:
        self._path(job)
        now = body_of(request).get("now") is True
        return await self._done(lambda: self._jobs.cancel(job, now=now))

    async def _answer(self, request: Request, job: str) -> Response:
        self._path(job)
        asked = body_of(request)
        question, choice, values = (asked.get(name) for name in ("question", "choice", "values"))
        if (
            not isinstance(question, str)
            or not isinstance(choice, str | None)
            or not isinstance(values, list)
            or not all(isinstance(one, str) for one in values)
        ):
            return Response(400, words.NOT_JSON.encode())
        return await self._done(lambda: self._jobs.answer(job, question, choice, values))

    async def _message(self, request: Request, job: str) -> Response:
        self._path(job)
        text = body_of(request).get("text")
        if not isinstance(text, str) or not text.strip():
            return Response(400, words.NOT_JSON.encode())
        return await self._done(lambda: self._jobs.message(job, text))

    async def _done(self, work: Callable[[], Any]) -> Response:
        try:
            return as_json(await self._routes.act(work))
        except (JobsError, ValueError, OSError) as error:
            return Response(409, plain(error).encode())

    def _path(self, job: str) -> str:
        if not self._jobs.known(job):
            raise FileNotFoundError(job)
        return self._jobs.feed(job)
