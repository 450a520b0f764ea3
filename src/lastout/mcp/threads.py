"""What may wait for a disk is done in a thread, so that the other calls do not wait for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import anyio.to_thread

__all__ = ["in_thread"]

T = TypeVar("T")


async def in_thread(do: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """Call it; a cancellation waits until it has returned."""
    return await anyio.to_thread.run_sync(partial(do, *arguments, **named))
