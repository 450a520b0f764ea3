"""A plain command as an agent.

One process a turn, the message is its input, its output is the answer.
"""

from __future__ import annotations

import codecs

from lastout.agents.dialogue import Options, Speaker, Start
from lastout.agents.events import Accepted, AgentEvent, Ready, Text, TurnEnded

__all__ = ["CommandDialogue"]


class CommandDialogue(Speaker):
    """`sh`, `codex exec`, `claude -p`.

    Anything that reads to the end of its input, answers, and exits.
    """

    def __init__(self, start: Start, name: str) -> None:
        super().__init__()
        self._name = start.resume or name
        self._resumed = start.resume is not None
        self._message: str | None = None
        self._text = codecs.getincrementaldecoder("utf-8")("replace")
        self._interrupted = False

    def open(self) -> None:
        """There is nothing to ask: a command that runs is ready."""
        self._emit(Ready(conversation=self._name, resumed=self._resumed))

    def reopen(self) -> None:
        """As `open`."""
        self.open()

    def receive(self, line: bytes) -> list[AgentEvent]:
        """A line of output is a piece of the answer."""
        self._emit(Text(text=self._text.decode(line + b"\n")))
        return self._drain()

    def ended(self, code: int | None, rest: str) -> list[AgentEvent]:
        """The turn ends with the command."""
        if self._message is not None:
            message, self._message, self.busy = self._message, None, False
            if self._interrupted:
                self._emit(TurnEnded(message=message, status="interrupted"))
            elif code == 0:
                self._emit(TurnEnded(message=message, status="completed"))
            else:
                how = (
                    "ended in a way that is not known"
                    if code is None
                    else f"ended with status {code}"
                )
                self._emit(
                    TurnEnded(
                        message=message,
                        status="failed",
                        error=f"the command {how}: {rest}".rstrip(": "),
                    )
                )
        return self._drain()

    def send(self, message: str, text: str) -> None:
        """The message is the whole input."""
        self._message, self.busy = message, True
        self.outgoing.append(text.encode() if text.endswith("\n") else text.encode() + b"\n")
        self.ended_input = True
        self._emit(Accepted(message=message))

    def interrupt(self) -> int:
        """A plain command knows no interrupt; the session sends it SIGINT."""
        self._interrupted = True
        return self._settled_at_once()

    def configure(self, options: Options) -> int:
        """A plain command has no options."""
        return self._settled_at_once("a plain command has no options")

    def answer(self, question: str, choice: str, text: dict[str, str]) -> None:
        """A plain command asks nothing."""
        raise KeyError(question)

    def rewind(self, turn: str) -> int:
        """A plain command has no history."""
        return self._settled_at_once("a plain command has no history")

    def goal(self, objective: str | None) -> int:
        """A plain command has no goals."""
        return self._settled_at_once("a plain command has no goals")

    def stop_task(self, task: str) -> int:
        """A plain command has no tasks."""
        return self._settled_at_once("a plain command has no background tasks")

    def farewell(self) -> None:
        """Nothing: its input has ended long ago."""
