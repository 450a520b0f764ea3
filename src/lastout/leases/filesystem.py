"""Which file systems hold locks that mean something, and the refusal of those that do not.

A lock on a network file system says something about a server's view, or about nothing; SQLite's WAL
needs memory that all its users share (sqlite.org/wal.html). Both halves of a lease stay local.
"""

from __future__ import annotations

import fcntl
import functools
import os
import re

from lastout.leases.refusals import StoreUnusable

__all__ = ["refuse_foreign", "type_of"]

# By the kernel's own name (mountinfo, proc_pid_mountinfo(5)). FUSE and 9p may be anything.
_FOREIGN = re.compile(
    r"nfs4?|cifs|smb3|smbfs|ncpfs|9p|afs|ceph|coda|glusterfs|gfs2?|ocfs2|lustre|gpfs|beegfs"
    r"|pvfs2|orangefs|virtiofs|vboxsf|vmhgfs|prl_fs|fuse|fuse\..*|fuseblk"
)
_OCTAL = re.compile(r"\\([0-7]{3})")


def type_of(path: str, mountinfo: str = "/proc/self/mountinfo") -> str:
    """The type of the file system that holds `path`, by the kernel's name, or ""."""
    wanted = os.path.realpath(path)
    best, found = -1, ""
    try:
        with open(mountinfo, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.readlines()
    except OSError:
        return ""
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4])
        inside = wanted == point or wanted.startswith(point.rstrip("/") + "/")
        # The last one wins where one mount lies over another at the same place.
        if inside and len(point) >= best:
            best, found = len(point), after.split()[0]
    return found


@functools.lru_cache(maxsize=64)
def refuse_foreign(folder: str) -> None:
    """Raises StoreUnusable, with its name, for a file system without locks that hold here."""
    name = type_of(folder)
    if _FOREIGN.fullmatch(name):
        raise StoreUnusable(
            f"{folder} is on {name}, where a lock of this machine means nothing; "
            "name a state directory on a local file system (--state DIR)"
        )
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return  # somebody holds it, so there are locks
    except OSError as error:
        raise StoreUnusable(
            f"{folder} is on {name or 'a file system'} that has no locks ({error.strerror}); "
            "name another state directory (--state DIR)"
        ) from error
    finally:
        os.close(fd)
