"""The Agent Client Protocol: `tool_call` and `tool_call_update` of kind `execute`.

Adapters differ in what they add. codex-acp gives an exit code in `_meta.terminal_exit`;
claude-agent-acp passes on Claude's text. Of its two or three updates one has a final status.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lastout.evidence.commands.claude import exit_code_in
from lastout.evidence.commands.fields import integer, mapping, text
from lastout.evidence.commands.report import Finished, Report, Started, TurnOver

__all__ = ["response", "update"]

_AGENT = "acp"
_FINAL = frozenset({"completed", "failed"})


def update(message: Mapping[str, Any]) -> list[Report]:
    """The reports in one `session/update` notification.

    A call's kind stands in its first update only: whether a final one belongs to a command is for
    the log to know, by its item id.
    """
    params = mapping(message.get("params"))
    fields = mapping(params.get("update"))
    thread = text(params.get("sessionId"))
    item = text(fields.get("toolCallId"))
    if fields.get("sessionUpdate") not in ("tool_call", "tool_call_update") or item is None:
        return []
    found: list[Report] = []
    command, cwd = _command(fields), text(mapping(fields.get("rawInput")).get("cwd"))
    if fields.get("kind") == "execute":
        found.append(Started(agent=_AGENT, thread=thread, item=item, command=command, cwd=cwd))
    meta = mapping(fields.get("_meta"))
    response = mapping(mapping(meta.get("claudeCode")).get("toolResponse"))
    status = text(fields.get("status"))
    task = text(response.get("backgroundTaskId"))
    if status not in _FINAL and not task:
        return found
    output = _output(fields, meta)
    ended = mapping(meta.get("terminal_exit"))
    code, source = integer(ended.get("exit_code")), "field"
    if code is None and status == "failed" and output is not None:
        code, source = exit_code_in(output), "text"
    detail: dict[str, Any] = {"task": task} if task else {}
    if (signal := text(ended.get("signal"))) is not None:
        detail["signal"] = signal
    after = integer(response.get("timedOutAfterMs"))
    found.append(
        Finished(
            agent=_AGENT,
            thread=thread,
            item=item,
            command=command,
            cwd=cwd,
            status=status,
            failed=None if status not in _FINAL else status == "failed",
            exit_code=code,
            exit_code_from=None if code is None else source,
            output=output,
            native_timeout=None if after is None else {"timedOutAfterMs": after},
            background=bool(task),
            detail=detail,
        )
    )
    return found


def response(message: Mapping[str, Any]) -> list[Report]:
    """The answer to `session/prompt` ends the turn; other answers have no `stopReason`."""
    reason = text(mapping(message.get("result")).get("stopReason"))
    return [] if reason is None else [TurnOver(agent=_AGENT, status=reason)]


def _command(fields: Mapping[str, Any]) -> str | None:
    raw = mapping(fields.get("rawInput")).get("command")
    if isinstance(raw, list) and all(isinstance(word, str) for word in raw):
        import shlex

        return shlex.join(raw)
    return text(raw)


def _output(fields: Mapping[str, Any], meta: Mapping[str, Any]) -> str | None:
    delta = text(mapping(meta.get("terminal_output_delta")).get("data"))
    if delta is not None:
        return delta
    raw = fields.get("rawOutput")
    if isinstance(raw, str):
        return raw
    return text(mapping(raw).get("formatted_output") or mapping(raw).get("stdout"))
