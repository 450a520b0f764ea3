"""Text of strangers for a page: nothing in it can hide, reorder or break what stands beside it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

__all__ = ["clean", "command", "plain"]

# What holds an emoji together: without them a family falls apart into its members.
_JOINERS = frozenset("\u200d\ufe0f")


def plain(text: Any, *, lines: bool = False) -> str:
    """Control characters, direction overrides and lone surrogates as escapes, everything else as it
    is. `lines` leaves newlines and tabs."""
    found = str(text)
    if found.isascii() and found.isprintable():
        return found
    keep = _JOINERS | {"\n", "\t"} if lines else _JOINERS
    return "".join(
        char
        if char.isprintable() or (char in keep and (char.isspace() or index))
        else char.encode("unicode_escape", "backslashreplace").decode()
        for index, char in enumerate(found)
    )


def command(argv: Sequence[str], width: int) -> str:
    """A command line as a shell would take it, on one line, cut to `width` characters."""
    line = plain(shlex.join(argv))
    return line if len(line) <= width else line[: width - 1] + "…"


def clean(value: Any, *, lines: bool = False) -> Any:
    """A JSON value with every text in it plain, its keys too."""
    match value:
        case str():
            return plain(value, lines=lines)
        case dict():
            return {plain(key): clean(one, lines=lines) for key, one in value.items()}
        case list() | tuple():
            return [clean(one, lines=lines) for one in value]
    return value
