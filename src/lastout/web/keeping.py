"""What the dashboard keeps between two of its lives: its secret and its port, for its owner alone.

With both a page that is open goes on by itself after a restart. One server a state directory: it
holds a lock for as long as it lives.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import secrets
import stat
from typing import Final, Self

from lastout.errors import LastoutError
from lastout.web import words

__all__ = ["PORT", "AlreadyServed", "Keeping", "PortTaken"]

PORT: Final = 7117
"""Taken first when no port was asked for or kept."""

_FILE: Final = "web.json"
_LOCK: Final = "web.lock"


class AlreadyServed(LastoutError):
    """Another dashboard of this state directory is there; `link` leads to it."""

    def __init__(self, link: str | None) -> None:
        super().__init__(words.ALREADY_SERVED)
        self.link = link


class PortTaken(LastoutError):
    """Somebody else listens on the port that was asked for."""


class Keeping:
    """The secret and the port of one state directory, and the lock of its server."""

    def __init__(self, state: str) -> None:
        self._path = os.path.join(state, _FILE)
        self._lock_path = os.path.join(state, _LOCK)
        self._lock = -1
        self.secret, self.port = _read(self._path)

    def take(self) -> Self:
        """Be the server of this state directory until `close`. Raises AlreadyServed, OSError."""
        fd = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise AlreadyServed(self.link) from None
        self._lock = fd
        self.secret, self.port = _read(self._path)  # the last server may have written meanwhile
        return self

    @property
    def link(self) -> str | None:
        """The link for a person, or None before there is one. The secret stands behind the `#`: a
        browser sends it nowhere."""
        return f"http://127.0.0.1:{self.port}/#key={self.secret}" if self.secret else None

    @property
    def served(self) -> bool:
        """Whether somebody serves this state directory now."""
        try:
            fd = os.open(self._lock_path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    def keep(self, port: int, *, renew: bool = False) -> None:
        """Keep the port, and the secret; a new one with `renew` or where there is none."""
        if renew or not self.secret:
            self.secret = secrets.token_urlsafe(32)
        self.port = port
        document = {"v": 1, "secret": self.secret, "port": port}
        temporary = f"{self._path}.{os.getpid()}"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="ascii") as file:
            json.dump(document, file)
            file.flush()
            os.fsync(fd)
        os.replace(temporary, self._path)

    def derived(self, purpose: str) -> str:
        """A value that only who knows the secret can make; it does not tell the secret."""
        return hmac.new(self.secret.encode(), purpose.encode(), hashlib.sha256).hexdigest()

    def close(self) -> None:
        """Let another server come."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _read(path: str) -> tuple[str, int | None]:
    """The secret and the port; neither from a file that others could have read or written."""
    nothing = "", None
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return nothing
    with open(fd, "rb") as file:
        found = os.fstat(fd)
        mode = stat.S_IMODE(found.st_mode)
        if found.st_uid != os.geteuid() or mode & 0o077 or not stat.S_ISREG(found.st_mode):
            return nothing
        try:
            kept = json.loads(file.read(4096))
            secret, port = kept["secret"], kept["port"]
        except (ValueError, KeyError, TypeError):
            return nothing
    if not isinstance(secret, str) or not secret.isascii() or len(secret) < 32:
        return nothing
    return secret, port if isinstance(port, int) and 0 < port < 65536 else None
