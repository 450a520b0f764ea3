"""From what an agent says to a job's feed: whole pieces, in order, in bounded room.

Text comes in words; the feed has it in lines. A command is told when it has ended, with what the
agent reported of it, and the current line never stands in for it.
"""

from __future__ import annotations

import time
from typing import Final, Literal

from lastout.agents import events
from lastout.durable import now
from lastout.evidence.mask import mask_text
from lastout.host.events import AgentEnded, AgentStarted
from lastout.jobs import feed
from lastout.jobs import turns_sentences as sentences
from lastout.jobs.status import Choice, Question
from lastout.jobs.work import Work

__all__ = ["Story"]

TEXT_KEPT: Final = 1 << 20
"""Characters of a turn's text, thoughts and command output that go into the feed."""

_OUTPUT: Final = 4000
_COMMAND: Final = 8000
_PIECE: Final = 4000
_LINE: Final = 200
_WORTH: Final = 40  # characters of a line that is being said, before it is shown as the current one
_REST: Final = 0.5
"""Seconds between two current lines that only replace each other."""


class Story:
    """Tells one job's feed what its agent says."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._said = _Piece("answer")
        self._thought = _Piece("thought")
        self._running: dict[str, events.CommandStarted] = {}
        self._answers: dict[str, tuple[str, str | None]] = {}
        self._left = TEXT_KEPT
        self._line = ""
        self._line_at = 0.0
        self.commands = 0
        self.failed_commands = 0

    def begin(self) -> None:
        """Another turn."""
        self.commands = self.failed_commands = 0
        self._left = TEXT_KEPT

    def hear(self, event: events.AgentEvent) -> None:
        """One event of the agent."""
        match event:
            case events.Text():
                self._add(self._said, self._thought, event.text)
            case events.Thinking():
                self._add(self._thought, self._said, event.text)
            case events.CommandStarted():
                self._flush()
                self._running[event.item] = event
                self.progress(sentences.running(mask_text(event.command)))
            case events.CommandOutput():
                lines = event.text.split()
                if lines:
                    self.progress(mask_text(event.text.strip().rpartition("\n")[2]), soon=False)
            case events.CommandEnded():
                self._command(event)
            case events.Question():
                self._flush()
                self._work.emit(feed.Questioned(question=_question(event)))
            case events.QuestionClosed():
                choice, by = self._answers.pop(event.id, (None, None))
                self._work.emit(feed.Answered(question=event.id, choice=choice, by=by))
            case events.Ready():
                self._work.describe(conversation=event.conversation)
            case AgentStarted() if event.notice is not None:
                self.notice(event.notice)
            case AgentEnded():
                self.notice(event.why, {"run": event.run, "verdict": event.verdict})
            case events.Notice():
                self.notice(event.text)
            case events.Noise():
                self.notice(event.head, {"noise": event.why, "length": event.length})
            case _:
                pass

    def answered(self, question: str, choice: str, by: str | None) -> None:
        """An answer is on its way to the agent; told when the question is closed."""
        self._answers[question] = (choice, by)

    def notice(self, text: str, detail: object = None) -> None:
        """Anything else."""
        self._flush()
        self._work.emit(feed.Notice(text=text[:_PIECE], detail=detail))

    def progress(self, line: str, *, soon: bool = True) -> None:
        """The current line. `soon` False: only now and then."""
        line = " ".join(line.split())[:_LINE]
        at = time.monotonic()
        if line and line != self._line and (soon or at - self._line_at >= _REST):
            self._line, self._line_at = line, at
            self._work.emit(feed.Progress(text=line))

    def end(self) -> None:
        """The turn is over: what is half said is said, and commands without an end are named."""
        self._flush()
        for began in self._running.values():
            self._work.emit(
                feed.CommandRan(
                    item=began.item,
                    command=mask_text(began.command)[:_COMMAND],
                    cwd=began.cwd,
                    phase="unfinished",
                )
            )
        self.commands += len(self._running)
        self._running.clear()
        self._line = ""
        self._work.describe(progress=None)

    def _command(self, ended: events.CommandEnded) -> None:
        self._flush()
        began = self._running.pop(ended.item, None)
        if began is None:
            return  # told already, as one without an end
        output = mask_text(ended.output)[-_OUTPUT:] if ended.output else ""
        room = self._take(len(output))
        self.commands += 1
        self.failed_commands += ended.status == "failed" or bool(ended.exit_code)
        self._work.emit(
            feed.CommandRan(
                item=ended.item,
                command=mask_text(began.command)[:_COMMAND],
                cwd=began.cwd,
                status=ended.status,
                exit_code=ended.exit_code,
                duration_ms=ended.duration_ms,
                output=output[len(output) - room :],
            )
        )

    def _add(self, piece: _Piece, other: _Piece, text: str) -> None:
        self._say(other, other.rest())
        for part in piece.add(text):
            self._say(piece, part)
        if piece is self._said and len(piece.line) >= _WORTH:
            self.progress(piece.line, soon=False)

    def _flush(self) -> None:
        for piece in (self._thought, self._said):
            self._say(piece, piece.rest())

    def _say(self, piece: _Piece, text: str) -> None:
        text = text[: self._take(len(text))]
        if text:
            self._work.emit(feed.Text(text=text, role=piece.role))

    def _take(self, length: int) -> int:
        """How much of that still has room."""
        room = min(length, self._left)
        before, self._left = self._left, self._left - room
        if room < length and before > 0:
            self._left = 0
            self._work.emit(feed.Notice(text=sentences.text_left_out(TEXT_KEPT)))
        return room


class _Piece:
    """Collects words until there is a line of them."""

    def __init__(self, role: Literal["answer", "thought"]) -> None:
        self.role = role
        self.line = ""
        self._words: list[str] = []
        self._length = 0

    def add(self, text: str) -> list[str]:
        """The whole pieces that are there now."""
        self._words.append(text)
        self._length += len(text)
        if "\n" not in text and self._length < _PIECE:
            self.line = (self.line + text)[-_LINE:]
            return []
        whole = "".join(self._words)
        cut = len(whole) if self._length >= _PIECE else whole.rfind("\n") + 1
        ready, left = whole[:cut], whole[cut:]
        self.line = (left or ready.rstrip().rpartition("\n")[2])[-_LINE:]
        if not ready.strip():  # an empty line goes with what comes after it
            ready, left = "", whole
        self._words, self._length = [left], len(left)
        return [ready[at : at + _PIECE] for at in range(0, len(ready), _PIECE)]

    def rest(self) -> str:
        """What is there without the end of its line."""
        left = "".join(self._words)
        self._words, self._length, self.line = [], 0, ""
        return left


def _question(asked: events.Question) -> Question:
    return Question(
        id=asked.id,
        kind=asked.kind,
        prompt=mask_text(asked.prompt)[:_PIECE],
        choices=tuple(Choice(id=c.id, label=c.label, meaning=c.meaning) for c in asked.choices),
        fields=asked.fields,
        asked_at=now(),
    )
