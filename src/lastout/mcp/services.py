"""The tool that triggers what its owner has provided for."""

from __future__ import annotations

from lastout.mcp import answers, sentences
from lastout.mcp.arguments import ServiceStart
from lastout.mcp.desk import Call, ToolFailed

__all__ = ["service_start"]


async def service_start(call: Call, asked: ServiceStart) -> answers.Activation:
    """Returns at once, or after `wait_s` at the latest."""
    raise ToolFailed(sentences.NO_SERVICES)
