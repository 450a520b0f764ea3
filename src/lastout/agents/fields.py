"""Values out of an agent's message, of the type that they should have or not at all."""

from __future__ import annotations

from typing import Any

__all__ = ["number", "text", "text_or_none"]


def text(value: Any) -> str:
    """A string. Raises TypeError for anything else: the message is noise then."""
    if not isinstance(value, str):
        raise TypeError(f"not a string: {value!r}")
    return value


def text_or_none(value: Any) -> str | None:
    """A string, or None for anything else."""
    return value if isinstance(value, str) else None


def number(value: Any) -> int | None:
    """A whole number, or None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None
