"""From one message of any known protocol to reports; a message of no known protocol gives none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lastout.evidence.commands import acp, claude, codex
from lastout.evidence.commands.report import Report

__all__ = ["reports"]


def reports(message: Mapping[str, Any]) -> list[Report]:
    """What this message says about commands and turns.

    Malformed parts are passed over, never guessed at.
    """
    method, kind = message.get("method"), message.get("type")
    if method == "session/update":
        return acp.update(message)
    if isinstance(method, str):
        return codex.notification(message)
    if isinstance(kind, str):
        if kind.startswith(("item.", "turn.", "thread.")):
            return codex.exec_line(message)
        return claude.line(message)
    if "result" in message:
        return acp.response(message)
    return []
