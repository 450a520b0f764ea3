"""Cancelling `trio.run_process` and `trio.open_process` with the ladder's own patience."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Awaitable, Callable

import trio

from lastout.graces import MARGIN, Graces, resolve

__all__ = ["deliver_cancel"]


def deliver_cancel(graces: Graces | str | None = None) -> Callable[[trio.Process], Awaitable[None]]:
    """For trio's `deliver_cancel=`, with the graces that `lastout.command` was given.

    Begins the stop and waits its bound. A front that has not ended by then is killed, and its
    keeper goes on. trio's own way waits 5 s: less than the default graces may take.
    """
    patience = resolve(graces).max_stop + MARGIN

    async def cancel(process: trio.Process) -> None:
        process.terminate()
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)  # a front that was stopped reads no signal
        # trio waits for the process itself, and cancels this when it has ended.
        await trio.sleep(patience)
        process.kill()

    return cancel
