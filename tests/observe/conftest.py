"""Runs with pipes and on a terminal, on both event loops; every test's behaviour is seen in all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import lastout
from lastout.graces import Graces

QUICK = Graces(stdin=0.1, term=0.5, reap=5.0)

Opener = Callable[..., AbstractAsyncContextManager[lastout.Process]]


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["pipes", "terminal"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """`open_process` or `open_terminal`, with short graces; the record goes to `state`."""
    on_terminal = request.param == "terminal"

    @asynccontextmanager
    async def begin(argv: list[str], **options: Any) -> AsyncIterator[lastout.Process]:
        start: Any = lastout.open_terminal if on_terminal else lastout.open_process
        block = start(argv, graces=QUICK, state=tmp_path / "state", **options)
        options.clear()  # as a caller who keeps no observer here
        async with block as process:
            yield process

    return begin
