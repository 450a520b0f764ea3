"""The record of a run that is over, when its last line is there.

A supervisor waits a quarter of a second for a slow disk and no longer; what it has handed over by
then is still being written after its end.
"""

from __future__ import annotations

import os
import time

from lastout.evidence.journal import Contents, read
from lastout.evidence.watch import Watch

__all__ = ["SETTLES", "settled"]

SETTLES = 2.0
"""How long to wait for the last line of a run whose supervisor has ended, in seconds."""


def settled(
    path: str | os.PathLike[str], seconds: float = SETTLES, run: str | None = None
) -> Contents:
    """Read a record once its final line is there, or as it is when the time is over.

    `run` as in `journal.read`. Raises OSError when it cannot be read then.
    """
    deadline = time.monotonic() + seconds
    with Watch() as watch:
        watch.add(os.path.dirname(os.path.abspath(path)))
        while True:
            try:
                contents = read(path, run)
            except FileNotFoundError:
                contents = None
            left = deadline - time.monotonic()
            if contents is not None and (contents.final is not None or left <= 0):
                return contents
            if left <= 0:
                return read(path, run)
            watch.wait(left)
