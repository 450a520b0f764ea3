"""Both event loops for every asynchronous test, and a state directory of its own for every test."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"
