"""Reading foreign JSON: a field of the wrong type is a field that is not there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["either", "integer", "mapping", "text"]


def text(value: Any) -> str | None:
    """A string, or None."""
    return value if isinstance(value, str) else None


def integer(value: Any) -> int | None:
    """An integer, or None; JSON's true and false are none."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def mapping(value: Any) -> Mapping[str, Any]:
    """An object; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def either(fields: Mapping[str, Any], camel: str, snake: str) -> Any:
    """A field in whichever of the two casings it comes."""
    value = fields.get(camel)
    return fields.get(snake) if value is None else value
