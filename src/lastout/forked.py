"""What a forked child must give up: the runs are its parent's, and so are their descriptors.

Here every handle registers itself; in a child that is forked later it becomes inert.
"""

from __future__ import annotations

import os
import weakref
from typing import IO, Any, Protocol

__all__ = ["cut_off", "register", "unregister"]


class Inheritable(Protocol):
    """A handle that can be told that this process is a forked child."""

    def _after_fork(self) -> None: ...


_handles: weakref.WeakSet[Any] = weakref.WeakSet()


def register(handle: Inheritable) -> None:
    """From now on a forked child tells this handle so."""
    _handles.add(handle)


def unregister(handle: object) -> None:
    """The handle holds nothing any more."""
    _handles.discard(handle)


def cut_off(stream: IO[Any] | None) -> None:
    """Give up a forked child's copy of a pipe: an end of it must be the parent's alone.

    The file object stays usable, and what it has buffered goes nowhere a second time.
    """
    if stream is None or stream.closed:
        return
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.dup2(null, stream.fileno(), inheritable=False)
    finally:
        os.close(null)


def _make_inert() -> None:
    for handle in list(_handles):
        handle._after_fork()
    _handles.clear()


os.register_at_fork(after_in_child=_make_inert)
