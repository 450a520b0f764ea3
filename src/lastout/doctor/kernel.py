"""What the kernel offers, asked by using it; a version number alone says little."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
from collections.abc import Iterator

from lastout import pidfs
from lastout.doctor.finding import Finding

__all__ = ["check"]

_PR_GET_CHILD_SUBREAPER = 37
_OLDEST = (5, 4)


def check() -> Iterator[Finding]:
    """The kernel's version and each feature that the supervisor or an identity stands on."""
    release = os.uname().release
    yield _version(release)
    yield _subreaper()
    yield from _pidfd()
    yield from _proc()


def _version(release: str) -> Finding:
    numbers = tuple(int(part) for part in release.split("-")[0].split(".")[:2] if part.isdigit())
    if len(numbers) == 2 and numbers < _OLDEST:
        return Finding(
            "kernel", "bad", f"Linux {release}", "pidfds are missing before 5.3, and half of "
            "waitid before 5.4", "a kernel of 5.4 or newer",
        )  # fmt: skip
    return Finding("kernel", "good", f"Linux {release}")


def _subreaper() -> Finding:
    value = ctypes.c_int()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(value), 0, 0, 0) != 0:
        return Finding(
            "child subreaper", "bad", os.strerror(ctypes.get_errno()),
            "what escapes from its session is not adopted, so no run can be proven to be over",
            "a kernel, or a container runtime, that has PR_SET_CHILD_SUBREAPER",
        )  # fmt: skip
    meaning = "orphans below a supervisor come to it, also after setsid and double fork"
    return Finding("child subreaper", "good", "available", meaning)


def _pidfd() -> Iterator[Finding]:
    try:
        fd = os.pidfd_open(os.getpid())
    except OSError as error:
        yield Finding(
            "pidfd", "bad", str(error), "processes could only be signalled by number",
            "a kernel of 5.3 or newer, and a seccomp profile that allows pidfd_open",
        )  # fmt: skip
        return
    try:
        signal.pidfd_send_signal(fd, 0)
        inode = pidfs.inode(fd)
    except OSError as error:
        yield Finding("pidfd", "bad", str(error), "processes could only be signalled by number")
        return
    finally:
        os.close(fd)
    yield Finding("pidfd", "good", "available", "a signal cannot hit a stranger")
    if not inode:
        yield Finding(
            "process identity", "note", "pid and start time",
            "two processes are told apart when they did not start in the same hundredth of a second",
            "a kernel of 6.9 or newer: it numbers processes once for ever",
        )  # fmt: skip
    elif not pidfs.has_handles():
        yield Finding(
            "process identity", "good", "pidfs inode",
            "a stored identity is compared exactly, once the pid has been opened",
            "a kernel of 6.17 or newer: it reopens a process by the stored number alone",
        )  # fmt: skip
    else:
        meaning = "a stored identity is reopened exactly, or known to be gone"
        yield Finding("process identity", "good", "pidfs inode and handle", meaning)


def _proc() -> Iterator[Finding]:
    if not os.path.exists("/proc/self/stat"):
        yield Finding(
            "/proc", "bad", "not mounted", "neither owner nor tree can be read", "mount /proc"
        )
        return
    if _seen_pid() != os.getpid():
        yield Finding(
            "/proc", "bad", "of another pid namespace",
            "what it says is about other processes", "mount a /proc of this namespace",
        )  # fmt: skip
    hidden = _hidepid()
    if hidden:
        yield Finding(
            "/proc", "weak", f"mounted with hidepid={hidden}",
            "processes of other users cannot be seen: an owner of another user is refused",
            "name an owner of your own, or `--owner none`",
        )  # fmt: skip
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb"):
            pass
        yield Finding("lists of children", "good", "available")
    except OSError as error:
        if error.errno == errno.ENOENT:
            yield Finding(
                "lists of children", "note", "missing (CONFIG_PROC_CHILDREN)",
                "children are found by looking through all of /proc, which takes longer",
            )  # fmt: skip


def _seen_pid() -> int | None:
    try:
        return int(os.readlink("/proc/self"))
    except (OSError, ValueError):
        return None


def _hidepid() -> str:
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                fields = line.split()
                if len(fields) > 3 and fields[1] == "/proc":
                    options = dict(part.partition("=")[::2] for part in fields[3].split(","))
                    value = options.get("hidepid", "")
                    return "" if value in ("0", "off") else value
    except OSError:
        pass
    return ""
