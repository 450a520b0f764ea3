"""`lastout chat`, on a terminal and in a pipe."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

BOUND = 30.0


def source() -> str:
    import lastout

    return str(Path(lastout.__file__ or "").parent.parent)


class Terminal:
    """A chat on a pseudo-terminal; what it has shown is kept until it was waited for."""

    def __init__(self, stage, *arguments):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ |= {"PYTHONPATH": source(), "TERM": "dumb"}
            argv = [sys.executable, "-m", "lastout", "chat", *arguments]
            os.execv(sys.executable, [*argv, "--state", str(stage.state)])
        self.shown = ""

    def type(self, text):
        os.write(self.fd, text.encode())

    def until(self, text):
        end = time.monotonic() + BOUND
        while text not in self.shown:
            ready, _, _ = select.select([self.fd], [], [], end - time.monotonic())
            if not ready:
                raise AssertionError(f"no {text!r} in {self.shown!r}")
            try:
                self.shown += os.read(self.fd, 4096).decode("utf-8", "replace")
            except OSError:
                raise AssertionError(f"the chat ended: {self.shown!r}") from None
        before, _, self.shown = self.shown.partition(text)
        return before

    def status(self):
        while True:
            try:
                if not os.read(self.fd, 4096):
                    break
            except OSError:
                break  # EIO: nobody has the terminal open any more
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)

    def close(self):
        os.close(self.fd)
        if self.pid:
            os.waitpid(self.pid, 0)


@pytest.fixture
def terminal(stage):
    made = []

    def start(*arguments):
        made.append(Terminal(stage, *arguments))
        made[-1].until("> ")
        return made[-1]

    yield start
    for one in made:
        one.close()


def test_talk_and_leave(terminal):
    chat = terminal("scripted")
    chat.type("hello\n")
    chat.until("you said: hello")
    chat.until("> ")
    chat.type("//run echo output; exit 3\n")
    chat.until("$ echo output; exit 3")
    chat.until("failed, exit code 3")
    chat.until("> ")
    chat.type("\x04")
    assert chat.status() == 0


@pytest.mark.quiet  # twice is within two seconds
def test_ctrl_c_interrupts_the_turn_and_keeps_the_agent_twice_stops_it(terminal):
    chat = terminal("scripted:--lock")
    chat.type("//run sleep 301\n")
    chat.until("$ sleep 301")
    chat.type("\x03")
    chat.until("once more stops the agent")
    chat.until("interrupted")
    chat.until("> ")
    chat.type("still there\n")
    chat.until("you said: still there")
    chat.until("> ")
    time.sleep(2.1)  # longer than what counts as twice
    chat.type("//stubborn sleep 301\n")
    chat.until("$ trap")
    chat.type("\x03")
    chat.until("once more stops the agent")
    chat.type("\x03")
    chat.until("stopping the agent")
    chat.until("it was stopped")  # the prompt may have come before: the first key ended the turn
    chat.type("again\n")
    chat.until("you said: again")
    chat.type("/quit\n")
    assert chat.status() == 0


def test_an_approval_is_answered_by_y(terminal, stage):
    mark = stage.directory / "mark"
    chat = terminal("scripted")
    chat.type(f"//ask touch {mark}\n")
    chat.until("1  Allow")
    chat.until("> ")
    chat.type("y\n")
    chat.until("completed, exit code 0")
    assert mark.exists()
    chat.type("\x04")
    assert chat.status() == 0


def test_the_same_key_takes_the_conversation_up_again(terminal, stage):
    for number in range(2):
        chat = terminal("scripted", "--key", "mine")
        chat.type(f"number {number}\n")
        chat.until(f"you said: number {number}")
        chat.until("> ")
        chat.type("\x04")
        assert chat.status() == 0
    stage.home = stage.state / "scripted"
    (path,) = stage.home.glob("sessions/*/*/*/*")
    thread = path.stem.removeprefix("rollout-")
    assert stage.said(thread) == ["number 0", "number 1"]


@pytest.mark.parametrize(
    ("text", "status", "out"), [("hello", 0, "you said: hello"), ("/fail no credit", 1, "")]
)
def test_in_a_pipe_the_whole_input_is_one_message(stage, text, status, out):
    done = subprocess.run(
        [sys.executable, "-m", "lastout", "chat", "scripted", "--state", stage.state],
        input=text.encode(),
        capture_output=True,
        env={**os.environ, "PYTHONPATH": source()},
        cwd=stage.directory,
        timeout=BOUND,
        check=False,
    )
    assert (done.returncode, done.stdout.decode().strip()) == (status, out)
    if status:
        assert b"failed: no credit" in done.stderr


def test_an_agent_that_there_is_not_is_named(stage):
    done = subprocess.run(
        [sys.executable, "-m", "lastout", "chat", "nobody", "--state", stage.state],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": source()},
        timeout=BOUND,
        check=False,
    )
    assert done.returncode == 1
    assert b"no agent is named 'nobody'; there are codex, claude" in done.stderr
