"""Every run of these tests has its records in the test's own directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lastout


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def popen(state: Path) -> Callable[..., lastout.Popen[Any]]:
    """lastout.Popen, with its records below the test's directory."""

    def start(*args: Any, **kwargs: Any) -> lastout.Popen[Any]:
        return lastout.Popen(*args, state=state, **kwargs)

    return start
