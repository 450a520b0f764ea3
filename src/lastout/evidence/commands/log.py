"""From reports to lines of the record: each command once, the missing and the late said so.

A completion is written the moment it comes, so that a crash loses none; a command that was started
and of whose end nothing was reported is named when its turn ends, and written when the log closes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from lastout.evidence.commands.report import Finished, Report, Started, TurnBegan, TurnOver
from lastout.evidence.commands.sources import reports
from lastout.evidence.events import CommandRan, TurnEnded
from lastout.evidence.mask import mask_text

__all__ = ["OUTPUT_KEPT", "CommandLog", "Writer"]

OUTPUT_KEPT = 4000
"""How many characters from the end of a command's output go into the record."""

_COMMAND_KEPT = 64 << 10
_REMEMBERED = 4096


class Writer(Protocol):
    """Whatever appends lines: a `Journal`."""

    def append(self, event_type: type[Any], **fields: Any) -> Any:
        """Append one line."""


@dataclass(slots=True)
class _Item:
    started: Started | None = None
    turn: str | None = None
    background: bool = False
    done: bool = False


@dataclass(slots=True)
class _Turn:
    commands: int = 0
    failed: int = 0


class CommandLog:
    """Feeds on one agent's messages and writes `command` and `turn` lines.

    `mask` rewrites every command and output before it is written (default: `mask_text`). The log
    keeps what it needs to tell a duplicate, for at most 4,096 items; it never holds output back.
    """

    def __init__(self, writer: Writer, mask: Callable[[str], str] = mask_text) -> None:
        self._writer = writer
        self._mask = mask
        self._items: dict[tuple[str | None, str], _Item] = {}
        self._open_turn: str | None = None
        self._in_turn = False
        self._turns = 0
        self._count: _Turn = _Turn()
        self._agent = ""

    def feed(self, message: Mapping[str, Any]) -> list[CommandRan | TurnEnded]:
        """Take one decoded message of the agent; the lines that it led to. Raises OSError."""
        return [line for report in reports(message) for line in self.take(report)]

    def take(self, report: Report) -> list[CommandRan | TurnEnded]:
        """Take one report, from `reports` or from an adapter of one's own. Raises OSError."""
        self._agent = report.agent
        match report:
            case TurnBegan():
                self._begin(report)
            case Started():
                self._started(report)
            case Finished():
                return self._finished(report)
            case TurnOver():
                return [self._turn_over(report)]
        return []

    def close(self) -> list[CommandRan]:
        """The agent has gone: write what was started and never completed. Raises OSError."""
        lines = []
        for key, item in self._items.items():
            if item.started is not None and not item.done:
                item.done = True
                lines.append(self._unfinished(key[1], item))
        return lines

    def _begin(self, report: Report) -> None:
        self._in_turn = True
        self._turns += 1
        self._open_turn = report.turn or str(self._turns)
        self._count = _Turn()

    def _started(self, report: Started) -> None:
        item = self._item(report)
        if item.started is None:
            if not self._in_turn:
                # Claude and ACP do not announce a turn: its first command does.
                self._begin(report)
            item.turn = report.turn or self._open_turn
            item.started = report
            self._count.commands += 1
        elif report.command and not item.started.command:
            item.started = report

    def _finished(self, report: Finished) -> list[CommandRan | TurnEnded]:
        known = self._items.get((report.thread, report.item))
        if known is None and report.command is None:
            return []  # the result of a tool that is no command
        if known is not None and known.done:
            return []  # a duplicate
        if report.detail.get("notification") and (known is None or not known.background):
            return []  # of a command in the foreground, whose result comes by itself
        if known is not None and known.background and not report.detail.get("notification"):
            return []  # the call's own end (ACP): the command in the background goes on
        item = self._item(report)
        late = item.turn is not None and not (self._in_turn and item.turn == self._open_turn)
        if item.started is None:
            item.turn = report.turn or self._open_turn
            late = report.turn is not None and report.turn != self._open_turn
            self._count.commands += 1
        item.background = report.background
        item.done = not report.background
        if report.failed and not late:
            self._count.failed += 1
        return [self._completed(report, item, late)]

    def _turn_over(self, report: TurnOver) -> TurnEnded:
        turn = report.turn or self._open_turn
        unfinished = [
            key[1]
            for key, item in self._items.items()
            if item.started is not None and not item.done and item.turn == turn
        ]
        self._in_turn = False
        count, self._count = self._count, _Turn()
        ended: TurnEnded = self._writer.append(
            TurnEnded,
            agent=report.agent,
            thread=report.thread,
            turn=turn,
            status=report.status,
            commands=count.commands,
            failed=count.failed,
            unfinished=tuple(unfinished),
        )
        return ended

    def _completed(self, report: Finished, item: _Item, late: bool) -> CommandRan:
        began = item.started
        output = report.output
        line: CommandRan = self._writer.append(
            CommandRan,
            agent=report.agent,
            item=report.item,
            thread=report.thread,
            turn=item.turn,
            phase="background" if report.background else "completed",
            command=self._command(report.command or (began.command if began else None)),
            cwd=report.cwd or (began.cwd if began else None),
            status=report.status,
            exit_code=report.exit_code,
            exit_code_from=report.exit_code_from,
            duration_ms=report.duration_ms,
            output=None if output is None else self._mask(output)[-OUTPUT_KEPT:],
            output_chars=None if output is None else len(output),
            native_timeout=report.native_timeout,
            after_turn=late,
            detail={name: value for name, value in report.detail.items() if name != "notification"}
            or None,
        )
        return line

    def _unfinished(self, name: str, item: _Item) -> CommandRan:
        began = item.started
        assert began is not None
        line: CommandRan = self._writer.append(
            CommandRan,
            agent=began.agent,
            item=name,
            thread=began.thread,
            turn=item.turn,
            phase="unfinished",
            command=self._command(began.command),
            cwd=began.cwd,
        )
        return line

    def _command(self, command: str | None) -> str | None:
        return None if command is None else self._mask(command)[:_COMMAND_KEPT]

    def _item(self, report: Started | Finished) -> _Item:
        key = (report.thread, report.item)
        found = self._items.get(key)
        if found is None:
            found = self._items[key] = _Item()
            if len(self._items) > _REMEMBERED:
                self._forget()
        return found

    def _forget(self) -> None:
        """Drop the oldest item that is done; one that is open is never dropped."""
        for key, item in self._items.items():
            if item.done:
                del self._items[key]
                return
