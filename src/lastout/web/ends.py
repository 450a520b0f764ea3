"""The ends of supervisors, from their pidfds: a run whose record falls silent is not overlooked."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
from collections.abc import Callable
from typing import Final

from lastout.identity import IdentityUnknown, ProcessIdentity, open_pidfd

__all__ = ["Ends", "allow_many"]

_WANTED: Final = 16_384


class Ends:
    """One pidfd a name; the event loop waits on all of them without a timer."""

    def __init__(self, died: Callable[[str], None]) -> None:
        """`died` is called once with the name whose process ended."""
        self._died = died
        self._watched: dict[str, tuple[ProcessIdentity, int]] = {}

    def watch(self, name: str, process: ProcessIdentity) -> None:
        """Tell when this process ends; at once when it is dead already. One that cannot be opened
        from here (another pid namespace, no descriptors left) is not watched."""
        before = self._watched.get(name)
        if before is not None and before[0] == process:
            return
        self.forget(name)
        loop = asyncio.get_running_loop()
        try:
            fd = open_pidfd(process)
        except ProcessLookupError:
            loop.call_soon(self._died, name)
            return
        except (IdentityUnknown, OSError):
            return
        self._watched[name] = (process, fd)
        loop.add_reader(fd, self._ended, name)

    def forget(self, name: str) -> None:
        """Watch this one no more."""
        found = self._watched.pop(name, None)
        if found is not None:
            asyncio.get_running_loop().remove_reader(found[1])
            os.close(found[1])

    def close(self) -> None:
        """Watch nobody any more."""
        for name in list(self._watched):
            self.forget(name)

    def _ended(self, name: str) -> None:
        self.forget(name)
        self._died(name)


def allow_many() -> None:
    """Raise this process's own limit of descriptors: one for each live run."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _WANTED if hard == resource.RLIM_INFINITY else min(_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
