"""The table of tools: what each takes, answers and does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from lastout.errors import LastoutError
from lastout.mcp import answers, arguments, asking, sentences, services, steering
from lastout.mcp.desk import Call, ToolFailed

__all__ = ["TOOLS", "Tool", "call_tool"]


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool, with what a client may tell its user about it.

    `looks`: it changes nothing. `acts`: somebody may do anything because of it. `ends`: it ends
    something. `again`: twice is as once.
    """

    name: str
    takes: type[arguments.Asked]
    gives: type[answers.Answer]
    do: Callable[[Call, Any], Awaitable[answers.Answer]]
    looks: bool = False
    acts: bool = False
    ends: bool = False
    again: bool = False


_SEEN: Final = answers.JobSeen
_ALL: Final = (
    Tool("ask_agent", arguments.AskAgent, _SEEN, asking.ask_agent, acts=True),
    Tool("spawn_agent", arguments.SpawnAgent, _SEEN, asking.spawn_agent, acts=True),
    Tool("job_status", arguments.JobStatus, _SEEN, steering.job_status, looks=True),
    Tool("job_result", arguments.JobResult, _SEEN, steering.job_result, again=True),
    Tool("job_message", arguments.JobMessage, _SEEN, steering.job_message, acts=True),
    Tool("job_answer", arguments.JobAnswer, _SEEN, steering.job_answer, acts=True),
    Tool("job_cancel", arguments.JobCancel, _SEEN, steering.job_cancel, ends=True, again=True),
    Tool("job_list", arguments.JobList, answers.JobList, steering.job_list, looks=True),
    Tool("run_command", arguments.RunCommand, _SEEN, asking.run_command, acts=True),
    Tool("service_start", arguments.ServiceStart, answers.Activation, services.service_start),
)

TOOLS: Final = {tool.name: tool for tool in _ALL}
"""Every tool, by its name."""


async def call_tool(call: Call, tool: Tool, given: dict[str, Any]) -> answers.Answer:
    """Check what was given, and do it. Raises ToolFailed, whose text is for the model."""
    # A client that fills in everything that a schema has says null for what it leaves out.
    said = {name: value for name, value in given.items() if value is not None}
    try:
        asked = msgspec.convert(said, tool.takes)
    except msgspec.ValidationError as error:
        fields = msgspec.structs.fields(tool.takes)
        needed = [field.name for field in fields if field.required]
        names = [field.name for field in fields]
        told = f"{error}{_choices(tool.takes, str(error))}"
        problem = sentences.arguments_are(tool.name, told, names, needed)
        raise ToolFailed(problem) from error
    try:
        return await tool.do(call, asked)
    except ToolFailed:
        raise
    except (LastoutError, ValueError) as error:
        raise ToolFailed(str(error)) from error
    except OSError as error:
        raise ToolFailed(sentences.unexpected(error)) from error


def _choices(takes: type[msgspec.Struct], problem: str) -> str:
    """What a word can be that is none of the choices: msgspec names only the word."""
    if "Invalid enum value" not in problem:
        return ""
    field = problem.partition("`$.")[2].partition("`")[0].partition("[")[0]
    schema = msgspec.json.schema(takes)["$defs"][takes.__name__]["properties"].get(field, {})
    values = schema.get("enum") or schema.get("items", {}).get("enum") or ()
    return f" (one of {', '.join(map(repr, values))})" if values else ""
