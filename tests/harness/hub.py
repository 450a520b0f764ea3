"""One place that waits: for descriptors of many kinds, until a condition holds or a bound is over."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable

# Generous on purpose: a test that waits this long has failed, a slow machine has not.
# Only mutants.py, which waits for failures, asks for less.
BOUND_SECONDS = float(os.environ.get("LASTOUT_TEST_BOUND", "30"))


class NotInTime(AssertionError):
    """Something that must happen did not happen within its bound."""


class Hub:
    """Calls a descriptor's reader when it is readable; conditions are looked at after each round."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self.explain: Callable[[], str] = lambda: ""

    def add(self, fd: int, reader: Callable[[], None]) -> None:
        self._selector.register(fd, selectors.EVENT_READ, reader)

    def remove(self, fd: int) -> None:
        self._selector.unregister(fd)

    def round(self, timeout: float) -> None:
        """Reads what is there, waiting at most `timeout` seconds for the first of it."""
        for key, _ in self._selector.select(timeout):
            # An earlier reader of this round may have taken this descriptor away.
            if key.fd in self._selector.get_map():
                key.data()

    def until(
        self, condition: Callable[[], object], what: str, bound: float = BOUND_SECONDS
    ) -> None:
        """Returns when `condition` holds; NotInTime after `bound` seconds."""
        end = time.monotonic() + bound
        self.round(0)
        while not condition():
            left = end - time.monotonic()
            if left <= 0:
                raise NotInTime(f"not within {bound} s: {what}\n{self.explain()}")
            self.round(left)

    def look(
        self, condition: Callable[[], object], what: str, bound: float = BOUND_SECONDS
    ) -> None:
        """As `until`, for states of /proc that no descriptor tells: looked at every 2 ms."""
        end = time.monotonic() + bound
        while not condition():
            if time.monotonic() > end:
                raise NotInTime(f"not within {bound} s: {what}\n{self.explain()}")
            self.round(0.002)

    def quiet(self, condition: Callable[[], object], seconds: float, what: str) -> None:
        """Asserts that `condition` stays false for so long."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.round(left)
            assert not condition(), f"must not happen: {what}\n{self.explain()}"

    def close(self) -> None:
        self._selector.close()
