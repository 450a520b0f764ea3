"""Which step of which scenario a request is at, from the request alone: the server remembers nothing.

A prompt picks its scenario by a tag, `[[name]]`; the step is the number of model replies that the
request already carries after that prompt. So a request that is retried, resumed, forked or sent by
another process always gets the same answer.

A step is `{"text": T}`, `{"shell": COMMAND}`, `{"mcp": [SERVER, TOOL, ARGUMENTS]}` or
`{"stall": SECONDS}`: the stream begins and stops.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Step = Mapping[str, Any]

_TAG = re.compile(r"\[\[([\w.-]+)\]\]")
_MODELS_ITEMS = frozenset({"function_call", "custom_tool_call", "local_shell_call"})


@dataclass
class Script:
    """The scenarios, and what was asked of them."""

    scenarios: dict[str, list[Step]]
    asked: list[dict[str, Any]] = field(default_factory=list)

    def step(self, turns: Iterable[tuple[str, str]], tools: bool, body: Any) -> Step:
        """The answer to a request; `turns` are (who, text)."""
        name, position = locate(turns)
        self.asked.append({"scenario": name, "step": position, "body": body})
        if name is None or not tools:
            return {"text": "ok"}  # a title, a summary: what agents ask beside the conversation
        steps = self.scenarios.get(name)
        if steps is None:
            return {"text": f"no scenario {name}"}
        return steps[position] if position < len(steps) else {"text": "end of script"}


def locate(turns: Iterable[tuple[str, str]]) -> tuple[str | None, int]:
    """The scenario that the last tag names, and how many replies came after it."""
    name: str | None = None
    step, replying = 0, False
    for who, text in turns:
        tags = _TAG.findall(text) if who == "user" else []
        if tags:
            name, step, replying = tags[-1], 0, False
        elif who == "model":
            step += not replying  # parallel calls are one reply
            replying = True
        else:
            replying = False
    return name, step


def responses_turns(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The turns in a request of the OpenAI Responses API."""
    turns = []
    for item in body.get("input") or []:
        kind, role = item.get("type", "message"), item.get("role")
        if kind in _MODELS_ITEMS or (kind == "message" and role == "assistant"):
            turns.append(("model", ""))
        elif kind == "message" and role == "user":
            turns.append(("user", _text(item.get("content"))))
        elif kind != "reasoning":
            turns.append(("other", ""))
    return turns


def messages_turns(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The turns in a request of the Anthropic Messages API."""
    return [
        ("model", "") if message.get("role") == "assistant" else ("user", _text(message["content"]))
        for message in body.get("messages") or []
    ]


def offered_tools(body: Mapping[str, Any]) -> set[str]:
    """The names of the tools in a request, one level into groups."""
    names = set()
    for tool in body.get("tools") or []:
        names.add(tool.get("name") or tool.get("type"))
        names.update(inner.get("name") for inner in tool.get("tools") or [])
    return names - {None}


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or [] if isinstance(part, dict))
