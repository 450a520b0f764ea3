"""A dashboard of a test's own, and somebody who speaks HTTP to it byte by byte."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lastout

BOUND = 20.0
SOURCE = str(Path(lastout.__file__).parent.parent)
LASTOUT = [sys.executable, "-m", "lastout"]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": SOURCE}


class Server:
    """`lastout web`, as a person starts it."""

    def __init__(self, state: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            [*LASTOUT, "web", "--state", str(state), *(options or ("--port", "0"))],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment(),
        )  # fmt: skip
        assert self.process.stdout is not None
        self.said = ""
        while "key=" not in self.said:
            line = self.process.stdout.readline()
            assert line, self.process.stderr and self.process.stderr.read()
            self.said += line.decode()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/#key=([\w-]+)", self.said)
        assert found
        self.link, self.port, self.secret = found[0], int(found[1]), found[2]
        self.base = f"http://127.0.0.1:{self.port}"

    def end(self, number: int = signal.SIGTERM) -> float:
        """Ends it, and tells in how many seconds."""
        began = time.monotonic()
        if self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(BOUND)
        took = time.monotonic() - began
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return took

    # ---- requests -----------------------------------------------------------------------------

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: dict[str, str | None] | None = None,
    ) -> tuple[int, dict[str, str], bytes]:
        """One request as it was asked for: None takes a header away."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=BOUND)
        sent: dict[str, str | None] = {"Host": f"127.0.0.1:{self.port}"}
        data = None
        if method == "POST":
            sent["Origin"] = self.base
            data = json.dumps(body).encode()
            sent["Content-Length"] = str(len(data))
        sent |= headers or {}
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in sent.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders(data)
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def pass_(self) -> dict[str, str | None]:
        """The headers of who has followed the link."""
        status, headers, body = self.ask("POST", "/api/session", {"secret": self.secret})
        assert status == 200, body
        cookie = headers["set-cookie"].split(";")[0]
        return {"Cookie": cookie, "X-Lastout-Token": json.loads(body)["token"]}

    def get(self, path: str) -> Any:
        status, _, body = self.ask("GET", path, headers=self.pass_())
        assert status == 200, (status, body)
        return json.loads(body)

    def stream(
        self, path: str = "/api/events", last: str | None = None, *, buffer: int | None = None
    ) -> Stream:
        return Stream(self, path, last, buffer)


class Stream:
    """A stream of events, read when the test reads."""

    def __init__(self, server: Server, path: str, last: str | None, buffer: int | None) -> None:
        self.socket = socket.socket()
        if buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.socket.settimeout(BOUND)
        self.socket.connect(("127.0.0.1", server.port))
        lines = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{server.port}"]
        lines += [f"{name}: {value}" for name, value in server.pass_().items()]
        if last is not None:
            lines.append(f"Last-Event-ID: {last}")
        self.socket.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        self._file = self.socket.makefile("rb")
        self.status = int(self._file.readline().split()[1])
        self.headers = b""
        while (line := self._file.readline()) not in (b"\r\n", b""):
            self.headers += line
        self.last = ""
        self.count = 0
        """How many events there were."""

    def next(self) -> tuple[str, Any]:
        """The next event: its name and what it says. Raises EOFError."""
        name, data = "", b""
        while True:
            line = self._file.readline()
            if not line:
                raise EOFError
            line = line.rstrip(b"\n")
            if line.startswith(b"event: "):
                name = line[7:].decode()
            elif line.startswith(b"data: "):
                data = line[6:]
            elif line.startswith(b"id: "):
                self.last = line[4:].decode()
            elif not line:
                self.count += 1
                return name, json.loads(data)

    def until(self, wanted: Any, *, names: tuple[str, ...] = ("all", "some")) -> Any:
        """The first event of these for which `wanted(data)` holds."""
        end = time.monotonic() + BOUND
        while time.monotonic() < end:
            name, data = self.next()
            if name in names and wanted(data):
                return data
        raise AssertionError("it never came")

    def row(self, run: str, wanted: Any) -> dict[str, Any]:
        """The row of a run as soon as it is as wanted."""
        found: list[dict[str, Any]] = []

        def look(data: dict[str, Any]) -> bool:
            found[:] = [row for row in data["runs"] if row["id"] == run and wanted(row)]
            return bool(found)

        self.until(look)
        return found[0]

    def close(self) -> None:
        self._file.close()
        self.socket.close()


class Run:
    """A command below `lastout run`, and its record."""

    def __init__(self, state: Path, *argv: str, options: tuple[str, ...] = ()) -> None:
        self.process = subprocess.Popen(
            [*LASTOUT, "run", "--state", str(state), "--stdin-end", "ignore", *options, "--", *argv],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=environment(),
        )  # fmt: skip
        self.record = self._find(state)
        self.id = self.record.name.removesuffix(".jsonl")

    def _find(self, state: Path) -> Path:
        from lastout.evidence.watch import Watch

        end = time.monotonic() + BOUND
        with Watch() as watch:
            while time.monotonic() < end:
                watch.add_runs(str(state))
                for path in state.glob("runs/*/*.jsonl"):
                    text = path.read_bytes()
                    pid = b'"front":{"pid":%d,' % self.process.pid
                    if b'"event":"started"' in text and pid in text:
                        return path
                watch.wait(1)
        raise AssertionError("no record says that it has started")

    @property
    def started(self) -> dict[str, Any]:
        for line in self.record.read_bytes().splitlines():
            if (told := json.loads(line))["event"] == "started":
                return dict(told)
        raise AssertionError("not started")

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()
        self.process.wait(BOUND)


def gone(pids: list[int]) -> Iterator[int]:
    """Waits until processes that are not ours to wait for have ended."""
    for pid in pids:
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            assert select.select([fd], [], [], BOUND)[0], f"pid {pid} lives"
        finally:
            os.close(fd)
        yield pid
