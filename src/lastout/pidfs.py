"""The kernel's own name for a process: the pidfs inode, and reopening it from the number alone.

The inode is the same for all pidfds of a process and never given away again in one boot (6.9); as
a file handle it can be stored (6.14) and reopened without privilege (6.17).
"""

from __future__ import annotations

import errno
import functools
import os
import struct
import sys
from typing import Any

__all__ = ["PASSING", "has_handles", "inode", "open_by_handle"]

PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Failures of this moment: they say nothing about the kernel, and are never remembered."""

_FD_PIDFS_ROOT = -10002  # linux/fcntl.h, since 6.17
_FILEID_KERNFS = 0xFE  # the handle type that pidfs uses; its 8 bytes are the inode


def inode(fd: int) -> int:
    """The inode of a pidfd, or 0 where the kernel has no pidfs (before 6.9)."""
    found = os.fstat(fd)
    return 0 if (found.st_dev, found.st_ino) == _anonymous() else found.st_ino


@functools.lru_cache(maxsize=1)
def has_handles() -> bool:
    """Whether a stored inode can be reopened: asked by reopening ourselves (6.17, 64 bit).

    Raises OSError when it cannot be asked at this moment.
    """
    if sys.maxsize < 2**32:
        return False
    fd = os.pidfd_open(os.getpid())
    try:
        number = inode(fd)
        if not number or not _handle_is_inode(fd, number):
            return False
        again = open_by_handle(number)
    except OSError as error:
        if error.errno in PASSING:
            raise
        return False
    finally:
        os.close(fd)
    if again is None:
        return False
    try:
        return inode(again) == number
    finally:
        os.close(again)


def open_by_handle(number: int) -> int | None:
    """A pidfd for a stored inode, or None when that process was reaped; else raises OSError."""
    import ctypes

    handle = ctypes.create_string_buffer(struct.pack("IiQ", 8, _FILEID_KERNFS, number), 16)
    fd: int = _libc().open_by_handle_at(_FD_PIDFS_ROOT, handle, os.O_CLOEXEC)
    if fd >= 0:
        return fd
    code = ctypes.get_errno()
    if code == errno.ESTALE:
        return None
    raise OSError(code, os.strerror(code))


@functools.lru_cache(maxsize=1)
def _libc() -> Any:
    # Imported late: most who take identities never reopen one.
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


@functools.lru_cache(maxsize=1)
def _anonymous() -> tuple[int, int]:
    """Device and inode of an anonymous file: what every pidfd has in common before pidfs (6.9)."""
    fd = os.eventfd(0)
    try:
        found = os.fstat(fd)
        return found.st_dev, found.st_ino
    finally:
        os.close(fd)


def _handle_is_inode(fd: int, number: int) -> bool:
    """Ask the kernel for the handle (name_to_handle_at, 6.14): is it what we would rebuild?"""
    import ctypes

    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0), 8 + 128)
    mount = ctypes.c_int()
    at_empty_path = 0x1000
    if _libc().name_to_handle_at(fd, b"", handle, ctypes.byref(mount), at_empty_path) != 0:
        if (code := ctypes.get_errno()) in PASSING:
            raise OSError(code, os.strerror(code))
        return False
    return handle.raw[:16] == struct.pack("IiQ", 8, _FILEID_KERNFS, number)
