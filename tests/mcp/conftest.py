"""Clients of `lastout mcp` for the tests here; the rig with real agents is in rig.py."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp_types", reason="the official SDK, version 2, is not installed")

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "agents"))

from client import Client

from harness.identity import Identity
from harness.jobs import runners_end
from lastout import jobs


@pytest.fixture
def state(tmp_path: Path, nothing_left: set[Identity]) -> Iterator[Path]:
    """A state directory; after the test every job has ended, and its runner too."""
    made = tmp_path / "state"
    yield made
    statuses = jobs.open_jobs(made).list()
    runners_end(str(made), nothing_left)
    assert [status for status in statuses if not status.ended] == []


@pytest.fixture
def connect(tmp_path: Path, state: Path) -> Iterator[Callable[..., Client]]:
    """Starts a server and says hello to it."""
    made: list[Client] = []

    def start(*options: str, hello: bool = True, **more: Any) -> Client:
        made.append(Client(state, *options, cwd=tmp_path, **more))
        if hello:
            made[-1].start()
        return made[-1]

    yield start
    for client in made:
        client.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """One server for tests that leave nothing in it."""
    directory = tmp_path_factory.mktemp("shared")
    client = Client(directory / "state", cwd=directory)
    client.start()
    yield client
    client.close()
