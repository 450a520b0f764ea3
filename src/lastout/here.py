"""The current directory, which somebody may have removed."""

from __future__ import annotations

import errno
import os

__all__ = ["working_directory"]


def working_directory() -> str:
    """The path of the current directory. Raises FileNotFoundError, with a sentence, where it was
    removed (getcwd(3))."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise FileNotFoundError(
            errno.ENOENT, "the current directory was removed; go to another one, or name one"
        ) from None
