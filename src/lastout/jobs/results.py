"""Writing results: durable before anybody is told, also on a full disk."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import Final

import msgspec

from lastout.jobs import layout, sentences
from lastout.jobs.files import replace, sync_directory, written
from lastout.jobs.result import Result

__all__ = ["RESERVED", "fitting", "put_result", "set_aside"]

RESERVED: Final = 64 << 10
"""The room, in bytes, that is set aside for a result when its job is submitted."""


def set_aside(directory: str) -> None:
    """Make sure that a result can be written later. Raises OSError."""
    path = os.path.join(directory, layout.RESERVE)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(fd, 0, RESERVED)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(path)
        raise
    finally:
        os.close(fd)


def put_result(directory: str, result: Result) -> None:
    """Write a result, durably, into new room or into what was set aside. Raises OSError."""
    path = os.path.join(directory, layout.result_name(result.turn))
    reserve = os.path.join(directory, layout.RESERVE)
    try:
        replace(path, msgspec.json.encode(result))
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        data = fitting(result, RESERVED, error.strerror or str(error))
        fd = os.open(reserve, os.O_RDWR | os.O_CLOEXEC)
        try:
            written(fd, data)
            os.ftruncate(fd, len(data))
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(reserve, path)
        sync_directory(directory)
        return
    if result.final:
        with contextlib.suppress(OSError):
            os.unlink(reserve)


def fitting(result: Result, most: int, why: str) -> bytes:
    """A result in so many bytes: the long parts are cut, and that is said."""
    data = msgspec.json.encode(result)
    for kept in (64, 8, 0):
        if len(data) <= most:
            return data
        answer = result.answer
        result = msgspec.structs.replace(
            result,
            stopped=result.stopped[:kept],
            remaining=result.remaining[:kept],
            locks=result.locks[:kept],
            detail={},
            answer=answer[: kept * 200] if answer is not None else None,
            omitted=sentences.short_of_room(why),
        )
        data = msgspec.json.encode(result)
    return data
