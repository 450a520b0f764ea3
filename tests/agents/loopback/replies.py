"""One reply of the model as server-sent events, in the dialect that was asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Events = list[dict[str, Any]]

_LONG_MS = 280_000  # what the agents' own tool deadlines are set to


def call(step: Mapping[str, Any], offered: set[str]) -> tuple[str, dict[str, Any]] | None:
    """The tool call of a step, by the name and with the arguments of the shell that is offered.

    `{"mcp": [SERVER, TOOL, ARGUMENTS]}` calls a tool of an MCP server.
    """
    if "mcp" in step:
        server, tool, arguments = step["mcp"]
        return f"mcp__{server}__{tool}", arguments
    command = step.get("shell")
    if command is None:
        return None
    extra = step.get("args") or {}
    if "Bash" in offered:
        return "Bash", {"command": command, "description": "scripted", "timeout": _LONG_MS} | extra
    return "exec_command", {"cmd": command, "yield_time_ms": _LONG_MS} | extra


def responses(number: int, text: str, tool: tuple[str, dict[str, Any]] | None) -> Events:
    """OpenAI Responses API."""
    if tool is not None:
        item: dict[str, Any] = {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"call_{number}",
            "name": tool[0],
            "arguments": json.dumps(tool[1]),
            "status": "completed",
        }
        if tool[0].startswith("mcp__"):  # a group of its own for each server
            item["namespace"], _, item["name"] = tool[0].rpartition("__")
    else:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        item = {
            "type": "message",
            "id": f"msg_{number}",
            "role": "assistant",
            "status": "completed",
            "content": content,
        }
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 15,
    }
    reply = {"id": f"resp_{number}", "object": "response", "created_at": 0, "model": "loopback"}
    begun = {"output_index": 0, "item": item | {"status": "in_progress"}}
    events: Events = [
        {"type": "response.created", "response": reply | {"status": "in_progress", "output": []}},
        {"type": "response.output_item.added", **begun},
    ]
    if tool is None:
        where = {"output_index": 0, "content_index": 0, "item_id": item["id"]}
        events.append({"type": "response.output_text.delta", **where, "delta": text})
    done = reply | {"status": "completed", "output": [item], "usage": usage}
    events += [
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": done},
    ]
    return [event | {"sequence_number": n} for n, event in enumerate(events)]


def messages(number: int, model: str, text: str, tool: tuple[str, dict[str, Any]] | None) -> Events:
    """Anthropic Messages API."""
    if tool is not None:
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": tool[0], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(tool[1])}
    else:
        block = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": text}
    begun = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 1},
    }
    ended = {"stop_reason": "tool_use" if tool else "end_turn", "stop_sequence": None}
    return [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]


def whole_message(events: Events) -> dict[str, Any]:
    """The same Messages reply for an agent that did not ask for a stream."""
    message = dict(events[0]["message"])
    block = dict(events[1]["content_block"])
    delta = events[2]["delta"]
    if delta["type"] == "text_delta":
        block["text"] = delta["text"]
    else:
        block["input"] = json.loads(delta["partial_json"])
    return message | {"content": [block]} | events[4]["delta"]
