"""The service process: starts what it is asked for by name, watches it, and publishes its end.

It keeps nothing that matters: what it started goes on without it (no owner, a lock and a record of
its own), and the next service process finds all of it again. While nothing happens it sleeps in one
poll without a timeout.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import select
import signal
import socket
import sys
import time
from types import FrameType
from typing import Any, Final

import msgspec

from lastout import identity
from lastout.durable import now
from lastout.errors import LastoutError
from lastout.services import activation as activations
from lastout.services import begin, layout, sentences, wire
from lastout.services.definition import load
from lastout.services.errors import Busy, NoRoute, ServiceError
from lastout.services.starter import runner_argv
from lastout.services.steps import RETRY, Found, State

__all__ = ["Server", "serve_ready"]

_STEP: Final = 2.0
_REFUSED: Final = (LastoutError, OSError, ValueError, msgspec.MsgspecError, RecursionError)
_MOST_CLIENTS: Final = 128
_LONGEST_WAIT: Final = 320.0
_DEAF: Final = 1.0  # seconds without new clients where no descriptor is to be had


class _Client:
    """One connection, and what it has sent or is still to be told."""

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self.request = b""
        self.answer = b""


class Server:
    """Serve one state directory. Raises NoRoute where another one does, or inside of a run."""

    def __init__(self, state: str) -> None:
        self.state = state
        self._poll = select.poll()
        self._clients: dict[int, _Client] = {}
        self._live: dict[int, tuple[str, str, int | None]] = {}
        """pidfd -> service, activation, and the pid where it is our child."""
        self._due: dict[tuple[str, str], float] = {}
        """When a step that could not be taken is tried again."""
        self._waits: dict[tuple[str, str], float] = {}
        """How long it was waited for last: longer each time, since nobody may ever mend it."""
        self._said: dict[str, str] = {}
        self._listens_at: float | None = None
        """When clients are accepted again, where that was not possible."""
        self._ended = False
        self._me = identity.take(os.getpid()).to_record()
        layout.make(state)
        self._lock = os.open(
            os.path.join(layout.services_directory(state), "serve.lock"),
            os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW,
            0o600,
        )
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise NoRoute(sentences.SERVES_ALREADY) from None
        self._listener = wire.listen(state)
        self._wake, self._woken = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def run(self) -> None:
        """Serve until TERM, INT, HUP, or until somebody asks for the end; what runs goes on."""
        signal.signal(signal.SIGTERM, self._signalled)
        for number in (signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup, or `&` in a script
                signal.signal(number, self._signalled)
        signal.set_wakeup_fd(self._woken)
        os.chdir("/")  # nobody's directory, or file system, is kept busy by a process that waits
        self._poll.register(self._wake, select.POLLIN)
        self._resume_all()
        self._poll.register(self._listener, select.POLLIN)
        try:
            while not self._ended:
                self._round()
        finally:
            self._close()

    def _round(self) -> None:
        again = () if self._listens_at is None else (self._listens_at,)
        due = min((*self._due.values(), *again), default=None)
        if due is None:
            gc.collect()  # nothing waits for us: what a step has left is given back first
        wait = None if due is None else max(0.0, due - time.monotonic()) * 1000
        for fd, events in self._poll.poll(wait):
            if fd == self._wake:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake, 64)
            elif fd == self._listener.fileno():
                self._accept()
            elif fd in self._live:
                self._gone(fd)
            elif fd in self._clients:
                self._serve(self._clients[fd], events)
        at = time.monotonic()
        if self._listens_at is not None and self._listens_at <= at:
            self._listens_at = None
            self._poll.register(self._listener, select.POLLIN)
        for name, one in [key for key, moment in self._due.items() if moment <= at]:
            self._step(name, one)

    # --- activations -----------------------------------------------------------------------------

    def _resume_all(self) -> None:
        """Go on with everything that an earlier service process has left, wherever it was."""
        for name in layout.names(self.state):
            try:
                ours = load(self.state, name).manager == "lastout"
                found = activations.ids(self.state, name) if ours else []
            except (LastoutError, OSError) as error:
                self._say(name, error)
                continue
            for one in found:
                self._step(name, one)

    def _step(self, name: str, one: str) -> Found | None:
        """Take whatever step is due; None when it could not be taken, and is tried again."""
        self._due.pop((name, one), None)
        try:
            with layout.alone(self.state, name, _STEP):
                found, pidfd = begin.start(self.state, name, one)
            self._watch(name, one, found, pidfd)
        except (OSError, LastoutError) as error:
            self._say(f"{name} {one}", error)
            if isinstance(error, OSError | Busy):  # what is damaged or newer stays so
                self._again(name, one)
            return None
        if (name, one) not in self._due:
            self._waits.pop((name, one), None)
            self._said.pop(f"{name} {one}", None)
        return found

    def _again(self, name: str, one: str) -> None:
        wait = min(2 * self._waits.get((name, one), RETRY / 2), _LONGEST_WAIT)
        self._waits[name, one] = wait
        self._due[name, one] = time.monotonic() + wait

    def _watch(self, name: str, one: str, found: Found, child: int | None) -> None:
        if child is not None:
            try:
                pid = identity_pid(child)
            except OSError:  # found and waited for by its identity, the next time
                os.close(child)
                raise
            self._add(child, name, one, pid)
        if found.state in (State.RUNNING, State.STARTING):
            watched = {key[2] for key in self._live.values() if key[:2] == (name, one)}
            for each in found.supervisors:
                if each.pid in watched:
                    continue
                with contextlib.suppress(OSError, identity.IdentityUnknown):
                    self._add(identity.open_pidfd(each), name, one, each.pid)
            if not any(key[:2] == (name, one) for key in self._live.values()):
                self._again(name, one)
        elif found.undelivered is not None:
            self._say(f"{name} {one}", found.undelivered)
            self._again(name, one)
        elif found.verdict is not None:
            self._say(f"{name} {one}", found.verdict.sentence)

    def _add(self, pidfd: int, name: str, one: str, pid: int) -> None:
        self._live[pidfd] = (name, one, pid)
        self._poll.register(pidfd, select.POLLIN)

    def _gone(self, pidfd: int) -> None:
        name, one, pid = self._live.pop(pidfd)
        self._poll.unregister(pidfd)
        os.close(pidfd)
        if pid:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        if name and not any(key[:2] == (name, one) for key in self._live.values()):
            self._step(name, one)

    # --- clients ---------------------------------------------------------------------------------

    def _accept(self) -> None:
        try:
            link, _ = self._listener.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError as error:  # no descriptor is left, or no memory
            self._say("a client", error)
            if self._clients:
                self._hang_up(next(iter(self._clients.values())))  # who has been there the longest
            else:
                self._poll.unregister(self._listener)
                self._listens_at = time.monotonic() + _DEAF
            return
        link.setblocking(False)
        _, uid = wire.peer_of(link)
        if uid not in (0, os.getuid()) or len(self._clients) >= _MOST_CLIENTS:
            link.close()
            return
        self._clients[link.fileno()] = _Client(link)
        self._poll.register(link, select.POLLIN)

    def _serve(self, client: _Client, events: int) -> None:
        try:
            if events & select.POLLOUT:
                self._send(client)
                return
            data = client.link.recv(wire.MOST_REQUEST)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        client.request += data
        if not data or len(client.request) > wire.MOST_REQUEST:
            self._hang_up(client)
            return
        while b"\n" in client.request:
            line, _, client.request = client.request.partition(b"\n")
            try:
                told = self._answer(client, line)
            except _REFUSED as error:
                told = wire.answer(error)
            client.answer += msgspec.json.encode(told) + b"\n"
        with contextlib.suppress(OSError):
            self._send(client)

    def _answer(self, client: _Client, line: bytes) -> dict[str, Any]:
        request = msgspec.json.decode(line)
        if not isinstance(request, dict):
            raise ValueError("a request is a JSON object")
        match request.get("do"):
            case "start":
                return self._start(client, request)
            case "ping":
                return {"ok": True, "process": self._me, "watched": len(self._live)}
            case "quit":
                self._ended = True
                return {"ok": True, "process": self._me}
            case "runner":
                self._start_runner()
                return {"ok": True}
            case other:
                raise ValueError(f"there is no request {other!r}")

    def _start(self, client: _Client, request: dict[str, Any]) -> dict[str, Any]:
        name = layout.check_name(str(request.get("name")))
        asked = request.get("request")
        by = wire.asker_of(*wire.peer_of(client.link))
        with layout.alone(self.state, name, _STEP):
            definition = load(self.state, name)
            if definition.manager != "lastout":
                raise ServiceError(sentences.run_by(name, definition.manager))
            accepted = begin.accept(
                self.state,
                definition,
                by,
                new=bool(request.get("new")),
                request=str(asked) if asked is not None else None,
            )
        one = accepted.activation.id
        found = accepted.found
        if found.state is not State.ENDED:
            found = self._step(name, one) or found
        return {
            "ok": True,
            "activation": one,
            "joined": accepted.joined,
            "state": found.state.value,
            "run": found.activation.attempts[-1].run if found.activation.attempts else None,
        }

    def _start_runner(self) -> None:
        """A short-lived child of ours, outside of every run, starts the job runners that are due."""
        argv = runner_argv(self.state)
        pid = os.posix_spawn(
            argv[0],
            argv,
            dict(os.environ),
            file_actions=[(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0)],
            setsid=True,
        )
        self._add(os.pidfd_open(pid), "", "", pid)

    def _send(self, client: _Client) -> None:
        while client.answer:
            try:
                sent = client.link.send(client.answer)
            except BlockingIOError:
                self._poll.modify(client.link, select.POLLOUT)
                return
            client.answer = client.answer[sent:]
        self._poll.modify(client.link, select.POLLIN)

    def _hang_up(self, client: _Client) -> None:
        self._clients.pop(client.link.fileno(), None)
        self._poll.unregister(client.link)
        client.link.close()

    # --- the end ---------------------------------------------------------------------------------

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        self._ended = True

    def _close(self) -> None:
        signal.set_wakeup_fd(-1)
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(layout.services_directory(self.state), "socket"))
        self._listener.close()
        for client in list(self._clients.values()):
            self._hang_up(client)
        for fd in (*self._live, self._wake, self._woken, self._lock):
            os.close(fd)

    def _say(self, about: str, what: object) -> None:
        """Into the log, once as long as it stays the same."""
        text = str(what)
        if self._said.get(about) == text:
            return
        self._said[about] = text
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(f"{now()} {about}: {text}\n")
            sys.stderr.flush()


def serve_ready(state: str, ready: int) -> None:
    """Be the service process, and say so on a pipe once it can be reached."""
    os.set_inheritable(ready, False)
    server = Server(state)
    os.write(ready, b"+")
    os.close(ready)
    server.run()


def identity_pid(pidfd: int) -> int:
    """The pid of a pidfd (proc_pid_fdinfo(5))."""
    with open(f"/proc/self/fdinfo/{pidfd}", "rb") as file:
        for line in file:
            if line.startswith(b"Pid:"):
                return int(line[4:])
    return -1
