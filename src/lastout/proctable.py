"""The process table: what `/proc` says of one process, and who its children are."""

from __future__ import annotations

import errno
import os
import signal
from dataclasses import dataclass

__all__ = ["ProcessStat", "children", "parse_stat", "read_stat"]


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """What `/proc/PID/stat` says of one process (proc_pid_stat(5))."""

    pid: int
    name: str
    state: str
    ppid: int
    pgid: int
    session: int
    threads: int
    start: int


def parse_stat(raw: bytes) -> ProcessStat:
    """Parse one stat line. The name may hold blanks, newlines and `)`: the last `)` ends it."""
    head, _, tail = raw.rpartition(b")")
    number, _, name = head.partition(b"(")
    field = tail.split()
    try:
        return ProcessStat(
            pid=int(number),
            name=name.decode("utf-8", "backslashreplace"),
            state=field[0].decode("ascii"),
            ppid=int(field[1]),
            pgid=int(field[2]),
            session=int(field[3]),
            threads=int(field[17]),
            start=int(field[19]),
        )
    except (IndexError, ValueError) as error:
        raise ValueError(f"not a stat line: {raw!r}") from error


def read_stat(pid: int | str) -> ProcessStat:
    """Read `/proc/PID/stat`.

    Raises ProcessLookupError when there is no such process, another OSError when it is unreadable
    (with hidepid that is also whatever we may not trace).
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return parse_stat(file.read())
    except (FileNotFoundError, ProcessLookupError):
        raise _missing(pid) from None
    except ValueError as error:
        raise OSError(errno.EIO, str(error)) from error


def children(pid: int) -> tuple[int, ...]:
    """The children of every thread of a process, as far as they can be seen at this moment.

    A child that changes parents while the list is read can be missed (proc_tid_children(5)): the
    list is a hint, read again until it stays empty. Raises ProcessLookupError when the process is
    gone, another OSError when the table is unreadable.
    """
    found: list[int] = []
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError):
        raise _missing(pid) from None
    for task in tasks:
        try:
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                found.extend(int(number) for number in file.read().split())
        except (FileNotFoundError, ProcessLookupError):
            # A thread that has ended meanwhile: its children have moved to another one or away.
            if not os.path.exists("/proc/self/task"):
                raise
            if not _has_children_files():
                return _children_by_scan(pid)
    return tuple(found)


def _missing(pid: int | str) -> OSError:
    """Why `/proc` has nothing of a process: it is gone, or hidden from us (hidepid, proc(5))."""
    if not os.path.exists("/proc/self/stat"):
        return PermissionError(errno.EACCES, "the process table is not readable", "/proc")
    if str(pid).isdigit() and _is_hidden(int(pid)):
        return PermissionError(errno.EACCES, "the process is hidden", f"/proc/{pid}")
    return ProcessLookupError(errno.ESRCH, "no such process", str(pid))


def _is_hidden(pid: int) -> bool:
    """Whether it answers although `/proc` denies it. Raises OSError when it cannot be asked."""
    try:
        fd = os.pidfd_open(pid)
    except OSError as error:
        if error.errno in (errno.ESRCH, errno.EINVAL, errno.ENOENT):
            return False
        raise
    try:
        # The number may have been given away since: then `/proc` has it now, and who was meant
        # is gone. Otherwise whoever still answers after the look was there during it.
        if os.path.exists(f"/proc/{pid}/stat"):
            return False
        signal.pidfd_send_signal(fd, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    finally:
        os.close(fd)
    return True


def _has_children_files() -> bool:
    """CONFIG_PROC_CHILDREN, missing in some embedded kernels."""
    return os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def _children_by_scan(pid: int) -> tuple[int, ...]:
    found: list[int] = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if read_stat(entry).ppid == pid:
                    found.append(int(entry))
            except ProcessLookupError:
                continue
    return tuple(found)
