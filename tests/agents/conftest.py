"""Fixtures for the tests with real agents; what they are made of is in real_agents.py."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from loopback.server import serve
from real_agents import HostProcess, Place, need, scenarios


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["codex", "claude"])
def name(request: pytest.FixtureRequest) -> str:
    need(request.param)
    return str(request.param)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with serve(scenarios(tmp_path / "up")) as model:
        yield Place(tmp_path, model)


@pytest.fixture
def host_process(place: Place) -> Iterator[Callable[..., HostProcess]]:
    made: list[HostProcess] = []

    def start(held: bool = False) -> HostProcess:
        made.append(HostProcess(place, held))
        return made[-1]

    yield start
    for process in made:
        process.close()
