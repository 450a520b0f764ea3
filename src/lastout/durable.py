"""Files that are there as a whole or not at all, and stay when the power goes."""

from __future__ import annotations

import contextlib
import os
from datetime import UTC, datetime

__all__ = ["link_once", "now", "replace", "sync_directory", "sync_write", "written"]


def now() -> str:
    """The time in every such file: RFC 3339, UTC, milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def sync_directory(path: str) -> None:
    """Make the names in a directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_write(path: str, data: bytes, *, durable: bool = True, new: bool = True) -> None:
    """Write a file of our own (0600). Raises OSError; a file that is not whole is taken away."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_EXCL if new else os.O_TRUNC)
    fd = os.open(path, flags, 0o600)
    try:
        written(fd, data)
        if durable:
            os.fsync(fd)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(path)
        raise
    finally:
        os.close(fd)


def written(fd: int, data: bytes) -> None:
    """Write all of it. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def replace(path: str, data: bytes, *, durable: bool = True) -> None:
    """Replace a file that has one writer. Raises OSError; then the old one is still there."""
    fresh = path + ".new"
    sync_write(fresh, data, durable=durable, new=False)
    os.rename(fresh, path)
    if durable:
        sync_directory(os.path.dirname(path))


def link_once(path: str, data: bytes) -> bool:
    """Make a file that may be made once, durably; False when somebody was there before.

    Raises OSError; FileNotFoundError when its directory is gone.
    """
    directory, name = os.path.split(path)
    fresh = os.path.join(directory, f".{name[:64]}-{os.urandom(6).hex()}")
    sync_write(fresh, data)
    try:
        os.link(fresh, path)
    except FileExistsError:
        return False
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)
    sync_directory(directory)
    return True
