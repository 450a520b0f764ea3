"""Jobs whose runner is gone: found by identity and lock, ended, and reported."""

from __future__ import annotations

import os

import msgspec

__all__ = ["Recovered", "recover"]


class Recovered(msgspec.Struct, frozen=True):
    """What was found of one job, in words for people."""

    job: str
    what: str


def recover(state: str | os.PathLike[str] | None = None) -> list[Recovered]:
    """End the trees of jobs whose runner is gone, and publish what is known of them."""
    raise NotImplementedError
