"""Errors as one line for a person, never as a traceback."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import click

from lastout.errors import LastoutError, in_words

__all__ = ["plain", "said"]


@contextlib.contextmanager
def plain() -> Iterator[None]:
    """Our own errors and the system's as one line; a closed pipe as an end."""
    try:
        yield
    except BrokenPipeError:
        raise SystemExit(1) from None
    except (LastoutError, OSError, ValueError) as error:
        raise click.ClickException(said(error)) from error


def said(error: Exception) -> str:
    """An error as one line, safe for a terminal."""
    from lastout.evidence.words.parts import visible

    return visible(in_words(error))
