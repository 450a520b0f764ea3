"""The socket of the service process: one JSON line asks, one JSON line answers."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from lastout.above import run_above
from lastout.identity import ProcessIdentity, take
from lastout.services import errors as refusals
from lastout.services import layout, sentences
from lastout.services.activation import Asker
from lastout.services.errors import NoRoute, ServiceError

__all__ = ["MOST_REQUEST", "Connection", "answer", "asker_of", "connect", "listen", "peer_of"]

MOST_REQUEST: Final = 4096
"""Bytes: a request names things and carries no command."""

_ANSWER_BOUND: Final = 15.0
"""Seconds: the longest step of the service process before it answers."""

_CREDENTIALS: Final = struct.Struct("3i")
_NAMED = {
    name: kind
    for name in refusals.__all__
    if isinstance(kind := getattr(refusals, name), type) and issubclass(kind, ServiceError)
}


@contextlib.contextmanager
def _reachable(state: str) -> Iterator[str]:
    """The socket's path, by way of a descriptor: a state directory may lie deeper than a socket's
    name can be long (unix(7): 108 bytes)."""
    fd = os.open(layout.services_directory(state), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/socket"
    finally:
        os.close(fd)


def listen(state: str) -> socket.socket:
    """Listen there (0600); what an earlier service process left is replaced. Its lock is held."""
    with _reachable(state) as path:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        before = os.umask(0o177)
        try:
            listener.bind(path)
        except BaseException:
            listener.close()
            raise
        finally:
            os.umask(before)
        listener.listen(64)
        listener.setblocking(False)
        return listener


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """Pid and uid of who connected, by the kernel (unix(7), SO_PEERCRED)."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(raw)
    return pid, uid


def asker_of(pid: int, uid: int) -> Asker:
    """Who asked, for the record."""
    try:
        one: ProcessIdentity | None = take(pid)
    except OSError:
        one = None
    return Asker(pid=pid, start=one.start if one else 0, uid=uid, run=run_above(pid))


class Connection:
    """A client's end."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link

    def fileno(self) -> int:
        """For poll: readable when the service process has gone."""
        return self._link.fileno()

    def ask(self, do: str, **fields: Any) -> dict[str, Any]:
        """Ask, and wait for the answer. Raises the ServiceError that it is, or NoRoute when the
        service process ends before it answers."""
        line = msgspec.json.encode({"do": do, **fields}) + b"\n"
        if len(line) > MOST_REQUEST:
            raise ValueError(f"a request is at most {MOST_REQUEST} bytes")
        try:
            self._link.sendall(line)
            text = self._read()
        except TimeoutError:
            raise NoRoute(sentences.no_answer(_ANSWER_BOUND, asked=True)) from None
        except OSError:
            text = b""
        if not text.endswith(b"\n"):
            raise NoRoute(sentences.ENDED_FIRST)
        told: dict[str, Any] = msgspec.json.decode(text)
        if told.get("ok"):
            return told
        raise _error(told)

    def _read(self) -> bytes:
        text = b""
        while not text.endswith(b"\n"):
            data = self._link.recv(1 << 16)
            if not data:
                return text
            text += data
        return text

    def close(self) -> None:
        """Hang up."""
        self._link.close()


def connect(state: str) -> Connection | None:
    """Connect to the service process; None where there is none. Raises NoRoute for a stranger's."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        # A full queue makes connect(2) wait, at most so long; Python's own timeout would not wait.
        bound = struct.pack("@ll", int(_ANSWER_BOUND), 0)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, bound)
        with _reachable(state) as path:
            link.connect(path)
        link.settimeout(_ANSWER_BOUND)
        _, uid = peer_of(link)
        if uid not in (0, os.stat(state).st_uid):
            raise NoRoute(sentences.strange_listener(uid))
    except (FileNotFoundError, ConnectionRefusedError, ConnectionResetError):
        link.close()
        return None
    except BlockingIOError:
        link.close()
        raise NoRoute(sentences.no_answer(_ANSWER_BOUND, asked=False)) from None
    except BaseException:
        link.close()
        raise
    return Connection(link)


def answer(error: Exception) -> dict[str, Any]:
    """An error as it goes over the socket."""
    kind = type(error).__name__
    told: dict[str, Any] = {"ok": False, "kind": kind, "message": str(error)}
    if isinstance(error, refusals.AlreadyRunning):
        told["activation"] = error.activation
    return told


def _error(told: dict[str, Any]) -> Exception:
    kind, message = told.get("kind"), str(told.get("message"))
    if kind == "AlreadyRunning":
        return refusals.AlreadyRunning(message, str(told.get("activation")))
    if kind in ("ValueError", "DecodeError", "ValidationError"):
        return ValueError(message)
    return _NAMED.get(str(kind), ServiceError)(message)
