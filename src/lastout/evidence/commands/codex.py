"""Codex: `app-server` notifications and `codex exec --json` lines, in both casings.

Recorded with 0.171: the same item is `commandExecution` with `exitCode`, `aggregatedOutput` and
`durationMs` in one, and `command_execution` with `exit_code` and `aggregated_output` and no times
in the other. A command that outlives its turn completes after `turn/completed`, or never (exec).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lastout.evidence.commands.fields import either, integer, mapping, text
from lastout.evidence.commands.report import Finished, Report, Started, TurnBegan, TurnOver

__all__ = ["exec_line", "notification"]

_KINDS = frozenset({"commandExecution", "command_execution"})
_APP_SERVER, _EXEC = "codex-app-server", "codex-exec"


def notification(message: Mapping[str, Any]) -> list[Report]:
    """The reports in one app-server notification."""
    params = mapping(message.get("params"))
    thread = text(either(params, "threadId", "thread_id"))
    turn = text(either(params, "turnId", "turn_id"))
    match message.get("method"):
        case "item/started" | "item/completed" as method:
            return _item(_APP_SERVER, thread, turn, params.get("item"), method == "item/completed")
        case "turn/started":
            turn = text(mapping(params.get("turn")).get("id")) or turn
            return [TurnBegan(agent=_APP_SERVER, thread=thread, turn=turn)]
        case "turn/completed":
            ended = mapping(params.get("turn"))
            turn = text(ended.get("id")) or turn
            status = text(ended.get("status"))
            return [TurnOver(agent=_APP_SERVER, thread=thread, turn=turn, status=status)]
    return []


def exec_line(message: Mapping[str, Any]) -> list[Report]:
    """The reports in one line of `codex exec --json`."""
    match message.get("type"):
        case "item.started" | "item.updated":
            return _item(_EXEC, None, None, message.get("item"), False)
        case "item.completed":
            return _item(_EXEC, None, None, message.get("item"), True)
        case "turn.started":
            return [TurnBegan(agent=_EXEC)]
        case "turn.completed" | "turn.failed" as kind:
            return [TurnOver(agent=_EXEC, status=kind.removeprefix("turn."))]
    return []


def _item(
    agent: str, thread: str | None, turn: str | None, item: Any, completed: bool
) -> list[Report]:
    fields = mapping(item)
    name = text(fields.get("id"))
    if name is None or fields.get("type") not in _KINDS:
        return []
    command = _command(fields.get("command"))
    cwd = text(fields.get("cwd"))
    if not completed:
        return [Started(agent=agent, thread=thread, turn=turn, item=name, command=command, cwd=cwd)]
    status = text(fields.get("status"))
    code = integer(either(fields, "exitCode", "exit_code"))
    return [
        Finished(
            agent=agent,
            thread=thread,
            turn=turn,
            item=name,
            command=command,
            cwd=cwd,
            status=status,
            failed=_failed(status, code),
            exit_code=code,
            exit_code_from=None if code is None else "field",
            duration_ms=integer(either(fields, "durationMs", "duration_ms")),
            output=text(either(fields, "aggregatedOutput", "aggregated_output")),
            native_timeout=_timeout(fields),
        )
    ]


def _command(value: Any) -> str | None:
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        import shlex

        return shlex.join(value)
    return text(value)


def _failed(status: str | None, code: int | None) -> bool | None:
    if status in ("failed", "declined"):
        return True
    if status == "completed":
        return code not in (None, 0)
    return None


def _timeout(fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """Only what the item itself says of a deadline: neither exit code 124 nor its output counts."""
    said = {
        name: fields[name]
        for name in ("timedOut", "timed_out", "timedOutAfterMs", "timed_out_after_ms")
        if fields.get(name) not in (None, False)
    }
    if fields.get("status") in ("timedOut", "timed_out"):
        said["status"] = fields["status"]
    return said or None
