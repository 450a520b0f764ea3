"""The scripted agent's process: requests on stdin, one turn at a time in a thread."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from lastout.agents.scripted.commands import Commands
from lastout.agents.scripted.transcript import Refusal, Transcript, take_lock

__all__ = ["main"]

_INVALID = -32600

Result = tuple[Any, Callable[[], None] | None]
"""The answer to a request, and what follows once it is written."""


class Interrupted(Exception):
    """The turn was interrupted."""


class Agent:
    """One process, one thread of conversation."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.home = os.path.abspath(options.home)
        self.lock: bool = options.lock
        self.slow: float = options.slow
        self.ignores = set(filter(None, options.ignore.split(",")))
        self.commands = Commands(self._tell)
        self.thread: str | None = None
        self.transcript: Transcript | None = None
        self.turn: str | None = None
        self._said: list[str] = []
        self._afterwards: list[str] = []
        self._interrupted = threading.Event()
        self._output = threading.Lock()
        self._answers: dict[int, Any] = {}
        self._answered = threading.Condition()
        self._asked = 0

    # Talking.

    def listen(self) -> None:
        """Serve requests until stdin ends."""
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if "method" in message and "id" in message:
                self._serve(message)
            elif "method" not in message:
                with self._answered:
                    self._answers[message["id"]] = message.get("result")
                    self._answered.notify_all()

    def _serve(self, message: dict[str, Any]) -> None:
        try:
            handler = _REQUESTS.get(message["method"])
            if handler is None:
                raise Refusal(f"unknown method {message['method']}")
            result, after = handler(self, message.get("params") or {})
        except Refusal as refusal:
            error = {"code": _INVALID, "message": str(refusal)}
            self._write({"id": message["id"], "error": error})
            return
        self._write({"id": message["id"], "result": result})
        if after is not None:
            after()

    def _write(self, message: dict[str, Any]) -> None:
        self._print(json.dumps(message) + "\n")

    def _print(self, text: str) -> None:
        data = text.encode()
        with self._output:
            try:
                while data:
                    data = data[os.write(1, data) :]
            except BrokenPipeError:
                pass  # nobody reads any more; that alone ends nothing

    def _tell(self, method: str, turn: str | None, params: dict[str, Any]) -> None:
        self._write(
            {"method": method, "params": {"threadId": self.thread, "turnId": turn} | params}
        )

    def chatter(self, seconds: float) -> None:
        """Say something that matters to nobody, for ever."""
        while True:
            time.sleep(seconds)
            self._tell("warning", None, {"message": "still here"})

    # Requests.

    def initialize(self, params: dict[str, Any]) -> Result:
        """Says who it is, late where it is told to."""
        time.sleep(self.slow)
        return {"userAgent": "scripted/1.0.0", "platformOs": "linux"}, None

    def start(self, params: dict[str, Any]) -> Result:
        """A new thread."""
        return self._open(os.urandom(8).hex(), params), None

    def resume(self, params: dict[str, Any]) -> Result:
        """A thread that has a transcript."""
        thread = params["threadId"]
        if not os.path.exists(Transcript(self.home, thread).path):
            raise Refusal(f"no rollout found for thread id {thread}")
        return self._open(thread, params), None

    def _open(self, thread: str, params: dict[str, Any]) -> dict[str, Any]:
        if self.lock and thread != self.thread:
            take_lock(self.home, thread)
        self.thread = thread
        self.transcript = Transcript(self.home, thread)
        return {"thread": {"id": thread}, "model": params.get("model") or "script"}

    def begin(self, params: dict[str, Any]) -> Result:
        """A turn."""
        if self.transcript is None or params["threadId"] != self.thread:
            raise Refusal(f"thread not found: {params['threadId']}")
        if self.turn is not None:
            raise Refusal("a turn is running")
        self.turn = os.urandom(6).hex()
        self._interrupted.clear()
        self._said = []
        text = "\n".join(part["text"] for part in params["input"])
        client = params.get("clientUserMessageId")
        model = params.get("model")
        self.transcript.append(turn=self.turn, role="user", clientId=client, text=text, model=model)
        work = threading.Thread(target=self._work, args=(text,), daemon=True)
        return {"turn": {"id": self.turn, "status": "inProgress"}}, work.start

    def interrupt(self, params: dict[str, Any]) -> Result:
        """Ends the turn; a command that runs goes on, and the turn ends after it."""
        if "interrupt" not in self.ignores:
            self._interrupted.set()
            self.commands.kill()
            with self._answered:
                self._answered.notify_all()
        return {}, None

    def revert(self, params: dict[str, Any]) -> Result:
        """Forgets a turn and all after it."""
        if self.transcript is None:
            raise Refusal("thread not found")
        self.transcript.revert(params["beforeTurnId"])
        return {"thread": {"id": self.thread}}, None

    def clean(self, params: dict[str, Any]) -> Result:
        """Ends what runs in the background."""
        self.commands.kill()
        return {}, None

    # A turn.

    def _work(self, text: str) -> None:
        status, error = "completed", None
        lines = text.splitlines() if text.startswith("/") else [f"/say you said: {text}"]
        try:
            for line in lines:
                word, _, rest = line.partition(" ")
                _STEPS[word](self, rest)
                if self._interrupted.is_set():
                    raise Interrupted
        except Interrupted:
            status = "interrupted"
        except Refusal as refusal:
            status, error = "failed", {"message": str(refusal)}
        except KeyError as unknown:
            status, error = "failed", {"message": f"no step {unknown}"}
        turn, self.turn = self.turn, None
        assert self.transcript is not None
        said = "\n".join(self._said)
        self.transcript.append(turn=turn, role="agent", status=status, text=said)
        ended: dict[str, Any] = {"id": turn, "status": status, "error": error, "items": []}
        self._tell("turn/completed", turn, {"turn": ended})
        while self._afterwards:
            seconds, _, command = self._afterwards.pop(0).partition(" ")
            time.sleep(float(seconds))
            self.commands.run(command, None)

    def say(self, rest: str) -> None:
        """Word by word."""
        for word in rest.split(" "):
            self._tell("item/agentMessage/delta", self.turn, {"itemId": "msg", "delta": word + " "})
        self._said.append(rest)

    def ask(self, rest: str) -> None:
        """Wait for the answer, however long."""
        self._asked += 1
        number = self._asked
        params = {
            "threadId": self.thread,
            "turnId": self.turn,
            "itemId": f"ask_{number}",
            "command": rest,
            "startedAtMs": 0,
            "availableDecisions": ["accept", "decline", "cancel"],
        }
        method = "item/commandExecution/requestApproval"
        self._write({"id": number, "method": method, "params": params})
        with self._answered:
            self._answered.wait_for(lambda: number in self._answers or self._interrupted.is_set())
            answer = self._answers.pop(number, None)
        if answer is None or answer["decision"] == "cancel":
            raise Interrupted
        if answer["decision"] == "accept":
            self.commands.run(rest, self.turn)

    def fail(self, rest: str) -> None:
        """The turn fails with this text."""
        raise Refusal(rest)

    def big(self, rest: str) -> None:
        """One long line."""
        delta = {"itemId": "big", "delta": "x" * int(rest)}
        self._tell("item/agentMessage/delta", self.turn, delta)

    def ignore(self, rest: str) -> None:
        """Be deaf to these from now on."""
        self.ignores |= set(rest.split(","))

    def later(self, rest: str) -> None:
        """As an agent that takes something up by itself."""
        self._afterwards.append(rest)

    def sleep(self, rest: str) -> None:
        """Until it is over or interrupted."""
        self._interrupted.wait(float(rest))


_REQUESTS: Final[dict[str, Callable[[Agent, dict[str, Any]], Result]]] = {
    "initialize": Agent.initialize,
    "thread/start": Agent.start,
    "thread/resume": Agent.resume,
    "thread/revert": Agent.revert,
    "thread/goal/set": lambda agent, params: ({}, None),
    "thread/goal/clear": lambda agent, params: ({}, None),
    "thread/backgroundTerminals/clean": Agent.clean,
    "thread/backgroundTerminals/terminate": Agent.clean,
    "turn/start": Agent.begin,
    "turn/interrupt": Agent.interrupt,
}

_STUBBORN = "trap '' HUP INT TERM; {}; :"  # `:` keeps the shell from executing the last command

_STEPS: Final[dict[str, Callable[[Agent, str], None]]] = {
    "/say": Agent.say,
    "/ask": Agent.ask,
    "/fail": Agent.fail,
    "/big": Agent.big,
    "/ignore": Agent.ignore,
    "/sleep": Agent.sleep,
    "/later": Agent.later,
    "/run": lambda agent, rest: agent.commands.run(rest, agent.turn),
    "/stubborn": lambda agent, rest: agent.commands.run(_STUBBORN.format(rest), agent.turn),
    "/background": lambda agent, rest: agent.commands.run(rest, agent.turn, wait=False),
    "/escape": lambda agent, rest: agent.commands.escape(rest),
    "/print": lambda agent, rest: agent._print(rest + "\n"),
    "/half": lambda agent, rest: agent._print(rest),
    "/exit": lambda agent, rest: os._exit(int(rest)),
}


def main() -> None:
    """Serve until stdin ends."""
    parser = argparse.ArgumentParser(description="an agent that obeys a script")
    parser.add_argument("--home", required=True)
    parser.add_argument("--lock", action="store_true")
    parser.add_argument("--ignore", default="")
    parser.add_argument("--die")
    parser.add_argument("--slow", type=float, default=0.0)
    parser.add_argument("--server")
    parser.add_argument("--chatter", type=float)
    options = parser.parse_args()
    if options.die is not None:
        sys.stderr.write(options.die + "\n")
        sys.exit(3)
    if options.server is not None:
        subprocess.Popen(
            ["sh", "-c", options.server], stdin=subprocess.DEVNULL, start_new_session=True
        )
    agent = Agent(options)
    if options.chatter is not None:
        threading.Thread(target=agent.chatter, args=(options.chatter,), daemon=True).start()

    def told(number: int, frame: object) -> None:
        if "term" not in agent.ignores:
            agent.commands.kill()
            os._exit(0)

    signal.signal(signal.SIGTERM, told)
    agent.listen()
    if "stdin" in agent.ignores:
        while True:
            signal.pause()
    agent.commands.kill()
    os._exit(0)
