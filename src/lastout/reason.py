"""Why a run is stopped: the words that its supervisor takes."""

from __future__ import annotations

from typing import Literal, get_args

__all__ = ["Reason", "check_stop"]

Reason = Literal["completion", "timeout", "abort", "shutdown", "idle", "user"]


def check_stop(reason: str, grace: float | None = None) -> None:
    """Refuse what a supervisor would not take, before anything is sent: it would stop nothing.

    `grace` is in seconds. Raises ValueError.
    """
    if reason not in get_args(Reason):
        known = ", ".join(map(repr, get_args(Reason)))
        raise ValueError(
            f"the reason of a stop is one of {known}, not {reason!r} (who asks goes to by=...)"
        )
    if grace is not None and not grace >= 0:
        raise ValueError(f"the grace must be a number of seconds from 0, not {grace!r}")
