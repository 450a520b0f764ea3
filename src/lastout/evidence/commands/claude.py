"""Claude Code's stream-json: tool calls in `assistant` lines, their results in `user` lines.

Recorded with 2.1.332: there is no numeric exit code; a failure's text starts with `Exit code N`,
and a success has no number at all, so none is recorded. The agent's own deadline moves a command to
the background (`timedOutAfterMs`, `backgroundTaskId`); its end comes as a `task_notification`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lastout.evidence.commands.fields import integer, mapping, text
from lastout.evidence.commands.report import Finished, Report, Started, TurnOver

__all__ = ["exit_code_in", "line"]

_AGENT = "claude"
_SHELLS = frozenset({"Bash", "PowerShell"})
_EXIT_CODE = re.compile(r"\A(?:Error: )?Exit code (\d{1,10})(?:\n|\Z)")
_TASK_CODE = re.compile(r"failed with exit code (\d{1,10})\Z")


def line(message: Mapping[str, Any]) -> list[Report]:
    """The reports in one line of Claude Code's output."""
    thread = text(message.get("session_id"))
    match message.get("type"):
        case "assistant":
            return [report for block in _blocks(message) for report in _call(block, thread)]
        case "user":
            return [
                report for block in _blocks(message) for report in _result(block, message, thread)
            ]
        case "system":
            return _task(message, thread)
        case "result":
            status = text(message.get("subtype"))
            reason = text(message.get("terminal_reason"))
            if status and reason and reason != "completed":
                status = f"{status} ({reason})"
            return [TurnOver(agent=_AGENT, thread=thread, status=status)]
    return []


def exit_code_in(output: str) -> int | None:
    """The number in a result's text that starts with `Exit code N`: reported, not observed."""
    found = _EXIT_CODE.match(output)
    return int(found[1]) if found else None


def _blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = mapping(message.get("message")).get("content")
    if not isinstance(content, list):
        return []
    return [block for block in content if isinstance(block, Mapping)]


def _call(block: Mapping[str, Any], thread: str | None) -> list[Report]:
    item = text(block.get("id"))
    if block.get("type") != "tool_use" or block.get("name") not in _SHELLS or item is None:
        return []
    command = text(mapping(block.get("input")).get("command"))
    return [Started(agent=_AGENT, thread=thread, item=item, command=command)]


def _result(
    block: Mapping[str, Any], message: Mapping[str, Any], thread: str | None
) -> list[Report]:
    item = text(block.get("tool_use_id"))
    if block.get("type") != "tool_result" or item is None:
        return []
    failed = block.get("is_error") if isinstance(block.get("is_error"), bool) else None
    output = _text_of(block.get("content"))
    code = exit_code_in(output) if failed and output is not None else None
    native = mapping(message.get("tool_use_result"))
    detail: dict[str, Any] = {}
    if native.get("interrupted") is True:
        detail["interrupted"] = True
    if task := text(native.get("backgroundTaskId")):
        detail["task"] = task
    if kind := _not_executed(message, item):
        detail["non_execution_kind"] = kind
    after = integer(native.get("timedOutAfterMs"))
    return [
        Finished(
            agent=_AGENT,
            thread=thread,
            item=item,
            status=None if failed is None else f"is_error {'true' if failed else 'false'}",
            failed=failed,
            exit_code=code,
            exit_code_from=None if code is None else "text",
            output=output,
            native_timeout=None if after is None else {"timedOutAfterMs": after},
            background="task" in detail,
            detail=detail,
        )
    ]


def _task(message: Mapping[str, Any], thread: str | None) -> list[Report]:
    item = text(message.get("tool_use_id"))
    if message.get("subtype") != "task_notification" or item is None:
        return []
    status = text(message.get("status"))
    found = _TASK_CODE.search(text(message.get("summary")) or "")
    code = int(found[1]) if found else None
    return [
        Finished(
            agent=_AGENT,
            thread=thread,
            item=item,
            status=status,
            failed={"completed": False, "failed": True}.get(status or ""),
            exit_code=code,
            exit_code_from=None if code is None else "text",
            detail={"notification": True},
        )
    ]


def _text_of(content: Any) -> str | None:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [text(mapping(block).get("text")) for block in content]
        return "".join(part for part in parts if part is not None)
    return None


def _not_executed(message: Mapping[str, Any], item: str) -> str | None:
    meta = message.get("tool_result_meta")
    for entry in meta if isinstance(meta, list) else []:
        fields = mapping(entry)
        if fields.get("id") == item:
            return text(fields.get("non_execution_kind"))
    return None
