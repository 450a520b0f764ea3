"""Writing results: durable before anybody is told, also on a full disk."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import Final

import msgspec

from lastout.durable import replace, sync_write, written
from lastout.jobs import layout, sentences
from lastout.jobs.result import Result

__all__ = ["RESERVED", "fitting", "found_aside", "put_result", "set_aside"]

RESERVED: Final = 16 << 10
"""The room, in bytes, that is set aside for a result when its job is submitted."""


def set_aside(directory: str) -> None:
    """Make sure that a result can be written later. Raises OSError."""
    # Really written: then a flush of the result has no new block to account for.
    path = os.path.join(directory, layout.RESERVE)
    sync_write(path, b"\0" * RESERVED, durable=False, new=False)


def put_result(directory: str, result: Result) -> None:
    """Write a result, durably, and only then under its name. Raises OSError.

    It goes into the room that was set aside, whose name is durable already, so that one flush is
    enough: `found_aside` finds it there should nobody live to give it its own name.
    """
    data = msgspec.json.encode(result)
    reserve = os.path.join(directory, layout.RESERVE)
    path = os.path.join(directory, layout.result_name(result.turn))
    if len(data) > RESERVED or not os.path.exists(reserve):
        try:
            replace(path, data)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            data = fitting(result, RESERVED, error.strerror or str(error))
        else:
            _tidy(reserve, result)
            return
    fd = os.open(reserve, os.O_RDWR | os.O_CLOEXEC)
    try:
        written(fd, data.ljust(RESERVED))
        os.fdatasync(fd)
        os.rename(reserve, path)
        os.ftruncate(fd, len(data))
    finally:
        os.close(fd)


def found_aside(directory: str, job: str) -> Result | None:
    """A result that is complete and has not got its name: its writer was killed in between."""
    try:
        with open(os.path.join(directory, layout.RESERVE), "rb") as file:
            found = msgspec.json.decode(file.read(), type=Result)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None
    return found if found.job == job else None


def _tidy(reserve: str, result: Result) -> None:
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
