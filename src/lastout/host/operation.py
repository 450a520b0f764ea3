"""What a conversation wants of its agent between two turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import anyio

if TYPE_CHECKING:
    from lastout.host.errors import HostError
    from lastout.host.live import Live

__all__ = ["Operation"]


class Operation:
    """One thing to do; `error` is the refusal once `done` is set."""

    def __init__(self, do: Callable[[Live], Any]) -> None:
        self.do = do
        self.done = anyio.Event()
        self.error: HostError | None = None
