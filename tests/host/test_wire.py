"""The host for other languages: requests and events as JSON lines, on stdio and on a socket."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import time

import pytest


def test_a_conversation_over_stdio(stage, host_process):
    host = host_process()
    assert host.ask("open", key="k", agent="scripted", options={"model": "small"})["ok"]
    answer = host.ask("send", key="k", text="hello", id="m1", wait=True)
    assert (answer["state"], answer["answer"]) == ("completed", "you said: hello ")
    assert host.ask("send", key="k", text="hello", id="m1")["state"] == "completed"
    (listed,) = host.ask("list")["conversations"]
    assert (listed["key"], listed["options"], listed["state"]) == ("k", {"model": "small"}, "ready")
    host.tell("send", key="k", text="/ask true", id="m2")
    question = host.until_event("question")
    host.ask("answer", key="k", question=question["id"], choice="allow")
    host.until(lambda line: line.get("event") == "message" and line["state"] == "completed")
    assert host.ask("rest", key="k")["verdict"] == "exited"
    assert host.ask("quit")["ends"] == {"k": "closed"}
    assert host.process.wait(10) == 0


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ('{"do": "send", "key": "none", "text": "x", "re": 1}', "LookupError"),
        ('{"do": "send", "key": "k", "re": 1}', "KeyError"),
        ('{"do": "dance", "re": 1}', "ValueError"),
        ('{"do": "open", "key": "x", "agent": "nobody", "re": 1}', "ValueError"),
        ('{"do": "configure", "key": "k", "options": {"colour": "blue"}, "re": 1}', "ValueError"),
        ('{"do": "answer", "key": "k", "question": "7", "choice": "allow", "re": 1}', "NoQuestion"),
        ("not json", None),
        ("[1]", None),
    ],
)
def test_a_bad_request_is_answered_and_changes_nothing(host_process, line, kind):
    host = host_process()
    host.ask("open", key="k", agent="scripted")
    host.process.stdin.write(line.encode() + b"\n")
    host.process.stdin.flush()
    answer = host.until(lambda reply: reply.get("ok") is False)
    assert answer.get("kind") == kind
    assert host.ask("send", key="k", text="hello", wait=True)["state"] == "completed"


def test_the_end_of_stdin_ends_the_host_and_every_agent(host_process):
    host = host_process()
    host.ask("open", key="k", agent="scripted")
    host.tell("send", key="k", text="/stubborn sleep 301", wait=True, re="last")
    host.until_event("command-started")
    host.process.stdin.close()
    assert host.until(lambda line: line.get("re") == "last")["state"] == "interrupted"
    assert host.process.wait(10) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_host_and_every_agent(host_process, number):
    host = host_process()
    host.ask("open", key="k", agent="scripted")
    host.tell("send", key="k", text="/run sleep 301")
    host.until_event("command-started")
    began = time.monotonic()
    host.process.send_signal(number)
    assert host.process.wait(10) == 0
    assert time.monotonic() - began < 8.0


class Client:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        try:
            self.socket.connect(str(path))
        except OSError:
            self.socket.close()
            raise
        self.lines = self.socket.makefile("rb")
        json.loads(self.lines.readline())

    def ask(self, **request):
        self.socket.sendall(json.dumps({"re": 1, **request}).encode() + b"\n")
        return self.until(lambda line: line.get("re") == 1)

    def until(self, wanted):
        for raw in self.lines:
            line = json.loads(raw)
            if wanted(line):
                return line
        raise AssertionError("the host has closed the connection")

    def close(self):
        self.lines.close()
        self.socket.close()


@pytest.fixture
def socket_host(stage, host_process, monkeypatch):
    """A host on a socket; its stdin is not its concern."""
    import subprocess
    import sys
    from pathlib import Path

    source = str(Path(sys.modules["lastout"].__file__).parent.parent)
    path = stage.directory / "socket"
    started = []

    def start():
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "lastout",
                "host",
                "--state",
                str(stage.state),
                "--socket",
                path,
            ],
            env={**os.environ, "PYTHONPATH": source},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        started.append(process)
        return process

    yield path, start
    for process in started:
        process.terminate()
        process.wait(10)
        process.stderr.close()


def connected(path):
    """The first client that gets through: a socket is there some time before it listens."""
    end = time.monotonic() + 30
    while True:
        try:
            return Client(path)
        except (FileNotFoundError, ConnectionRefusedError):
            assert time.monotonic() < end, "nobody listens"
            time.sleep(0.01)


def test_two_clients_share_a_conversation_and_one_may_go(stage, socket_host):
    path, start = socket_host
    process = start()
    one, two = connected(path), Client(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for client in (one, two):
        client.ask(do="open", key="k", agent="scripted")
    answer = one.ask(do="send", key="k", text="hello", wait=True)
    assert two.until(lambda line: line.get("event") == "turn-ended")["status"] == "completed"
    one.close()
    assert two.ask(do="send", key="k", text="again", wait=True)["run"] == answer["run"]
    assert two.ask(do="quit")["ends"] == {"k": "exited"}
    two.close()
    assert process.wait(10) == 0
    assert not path.exists()


def test_a_second_host_does_not_take_the_socket_and_a_stale_one_is_replaced(stage, socket_host):
    path, start = socket_host
    first = start()
    connected(path).close()
    second = start()
    assert second.wait(20) == 1
    assert b"a host is serving there already" in second.stderr.read()
    connected(path).close()
    first.kill()
    first.wait()
    assert path.exists()
    start()
    connected(path).close()
