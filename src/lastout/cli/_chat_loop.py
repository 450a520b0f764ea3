"""The chat itself: lines of the terminal in, the agent's events out, Ctrl-C in between."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import anyio
import click
from anyio import to_thread

from lastout.agents.events import (
    CommandEnded,
    CommandOutput,
    CommandStarted,
    Noise,
    Notice,
    Question,
    QuestionClosed,
    Text,
)
from lastout.errors import LastoutError
from lastout.host.conversation import Conversation
from lastout.host.events import AgentEnded, AgentStarted, Moved
from lastout.host.message import Message

__all__ = ["Chat"]

TWICE: Final = 2.0
"""Seconds within which a second Ctrl-C means the agent itself."""

_PROMPT: Final = "> "
_OUTPUT_SHOWN: Final = 2000  # characters from the end of a command's output
_HELP: Final = """\
/stop                stop the agent; the next message starts a fresh one
/rest                end the agent politely; it comes back with the next message
/model NAME          another model from now on (also /effort, /approval, /sandbox)
/rewind              forget your last message and its answer
/goal TEXT           set the agent's goal; without TEXT clear it
/tasks, /end TASK    what runs in the background; end it
/quit                the same as Ctrl-D
//TEXT               send a message that begins with /"""


class Chat:
    """One conversation on the terminal. `run` gives the exit status."""

    def __init__(self, conversation: Conversation) -> None:
        self._chat = conversation
        self._terminal = sys.stdin.isatty()
        self._last: Message | None = None
        self._question: Question | None = None
        self._tasks: tuple[str, ...] = ()
        self._failed = False
        self._in_text = False
        self._pressed_at = float("-inf")
        self._pressed_in_turn = False
        self._streamed: set[str] = set()
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        self._color = False if plain else None  # None: as the stream is
        self._over = anyio.Event()

    async def run(self) -> int:
        """Until the input ends, or /quit."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._show)
            tasks.start_soon(self._interrupts)
            tasks.start_soon(self._read)
            await self._over.wait()
            tasks.cancel_scope.cancel()
        return 1 if self._failed else 0

    # In.

    async def _read(self) -> None:
        if self._terminal:
            self._say(f"{self._chat.key} with {self._chat.kept.agent}; /help, Ctrl-D to end", "dim")
        async for line in self._lines():
            try:
                if not await self._line(line):
                    break
            except (LastoutError, ValueError, LookupError) as error:
                self._say(str(error), "red")
                self._failed = self._failed or not self._terminal
        if self._last is not None and not self._terminal:
            await self._last.done()
        self._over.set()

    async def _lines(self) -> AsyncIterator[str]:
        if not self._terminal:
            # A pipe: the whole input is one message.
            text = await to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
            if text.strip():
                yield text.rstrip("\n")
            return
        while True:
            # The prompt only when nobody else is writing.
            await self._quiet()
            try:
                yield await to_thread.run_sync(_ask_line, abandon_on_cancel=True)
            except EOFError:
                self._say("")
                return

    async def _quiet(self) -> None:
        while self._last is not None and not self._last.settled and self._question is None:
            with anyio.move_on_after(0.2):
                await self._last.done()

    async def _line(self, line: str) -> bool:
        """Do what a line says; False ends the chat."""
        if self._question is not None:
            await self._answer(self._question, line.strip())
        elif line.startswith("//"):
            await self._send(line[1:])
        elif line.startswith("/") and self._terminal:
            word, _, rest = line[1:].partition(" ")
            if word in ("quit", "exit"):
                return False
            await self._command(word, rest.strip())
        elif line.strip():
            await self._send(line)
        return True

    async def _send(self, text: str) -> None:
        self._last = await self._chat.send(text)
        if self._terminal:
            await self._quiet()

    async def _command(self, word: str, rest: str) -> None:
        commands: dict[str, Callable[[], Awaitable[Any]]] = {
            "stop": self._chat.stop,
            "rest": self._chat.rest,
            "goal": lambda: self._chat.goal(rest or None),
            "end": lambda: self._chat.stop_task(rest or "all"),
            "rewind": self._rewind,
        }
        if word in ("model", "effort", "approval", "sandbox"):
            await self._chat.configure(**{word: rest or None})
            self._say(f"{word}: {rest or 'as the agent is configured'}", "dim")
        elif word == "tasks":
            self._say("\n".join(self._tasks) or "nothing runs in the background", "dim")
        elif word in commands:
            await commands[word]()
        else:
            self._say(_HELP, "dim")

    async def _rewind(self) -> None:
        if self._last is None:
            raise LookupError("you have not sent anything yet")
        await self._chat.rewind(self._last.id)
        self._say("your last message is forgotten", "dim")
        self._last = None

    async def _answer(self, question: Question, line: str) -> None:
        choice, fields = line, dict[str, str]()
        if question.kind == "input" and question.fields:
            choice = question.choices[0].id
            words = [line] if len(question.fields) == 1 else shlex.split(line)
            fields = dict(zip(question.fields, words, strict=False))
        elif line.isdigit() and 0 < int(line) <= len(question.choices):
            choice = question.choices[int(line) - 1].id
        elif line in ("y", "yes"):
            choice = "allow"
        elif line in ("n", "no"):
            choice = "deny"
        await self._chat.answer(question.id, choice, **fields)
        if self._question is question:
            self._question = None

    async def _interrupts(self) -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as received:
            async for number in received:
                if number != signal.SIGINT:
                    self._over.set()
                    return
                await self._interrupt()

    async def _interrupt(self) -> None:
        now = time.monotonic()
        twice, self._pressed_at = now - self._pressed_at < TWICE, now
        busy = self._last is not None and not self._last.settled
        if busy and not twice:
            self._pressed_in_turn = True
        elif not twice:
            self._pressed_in_turn = False
        try:
            if twice and self._pressed_in_turn:
                # Also when the first has ended the turn meanwhile: it was the agent that was meant.
                self._say("\nstopping the agent", "dim")
                await self._chat.stop()
            elif busy:
                self._say("\ninterrupted; once more stops the agent", "dim")
                await self._chat.interrupt()
            elif twice or not self._terminal:
                self._over.set()
            else:
                self._say("\nCtrl-D, or Ctrl-C once more, ends the chat", "dim")
        except LastoutError as error:
            self._say(str(error), "red")

    # Out.

    async def _show(self) -> None:
        with self._chat.events() as events:
            async for event in events:
                self._event(event)

    def _event(self, event: Any) -> None:
        match event:
            case Text():
                self._in_text = True
                click.echo(event.text, nl=False)
            case CommandStarted():
                self._say(f"$ {event.command}", "cyan")
            case CommandOutput():
                self._streamed.add(event.item)
                click.secho(event.text, nl=False, dim=True, err=True, color=self._color)
            case CommandEnded():
                self._command_ended(event)
            case Question():
                self._question = event
                self._show_question(event)
            case QuestionClosed() if self._question is not None and event.id == self._question.id:
                self._question = None
            case Notice():
                self._say(event.text, "yellow")
            case Noise():
                self._say(f"not understood ({event.why}): {event.head}", "yellow")
            case AgentStarted() if event.notice:
                self._say(event.notice, "yellow")
            case AgentEnded() if not event.why.startswith(("it rested", "the host quits")):
                self._say(event.why, "yellow")
            case Moved():
                self._moved(event)
            case _:
                self._tasks = getattr(event, "tasks", self._tasks)

    def _command_ended(self, event: CommandEnded) -> None:
        code = "" if event.exit_code is None else f", exit code {event.exit_code}"
        if event.output and event.item not in self._streamed:
            self._say(event.output.rstrip()[-_OUTPUT_SHOWN:], "dim")
        self._streamed.discard(event.item)
        self._say(f"  {event.status}{code}", "dim")

    def _show_question(self, question: Question) -> None:
        self._say(question.prompt, "yellow")
        if question.fields:
            return
        for number, choice in enumerate(question.choices, 1):
            self._say(f"  {number}  {choice.label}", "yellow")

    def _moved(self, event: Moved) -> None:
        if event.state in ("failed", "returned", "interrupted"):
            self._failed = self._failed or not self._terminal
            self._say(event.state + (f": {event.reason}" if event.reason else ""), "red")
        elif event.state == "completed" and self._in_text:
            self._in_text = False
            click.echo()

    def _say(self, text: str, style: str | None = None) -> None:
        """What is not the answer goes to stderr: `lastout chat codex < question > answer`."""
        if self._in_text:
            self._in_text = False
            click.echo()
        styles: dict[str, Any] = {"dim": True} if style == "dim" else {"fg": style}
        click.secho(text, err=True, color=self._color, **styles)


def _ask_line() -> str:
    return input(_PROMPT)
