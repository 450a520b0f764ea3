"""Codex app-server's requests to its client as questions, and the answers in its own shapes
(protocol of 0.171)."""

from __future__ import annotations

from typing import Any, Final

from lastout.agents.events import Choice, Question

__all__ = ["read", "reply"]

_APPROVALS: Final = {
    "item/commandExecution/requestApproval": "run",
    "item/fileChange/requestApproval": "change files",
    "execCommandApproval": "run",
    "applyPatchApproval": "change files",
}
_LEGACY: Final = frozenset({"execCommandApproval", "applyPatchApproval"})
_MEANINGS: Final[dict[str, Any]] = {
    "accept": ("allow", "Allow"),
    "acceptForSession": ("allow-always", "Allow for this session"),
    "decline": ("deny", "Deny, and go on"),
    "cancel": ("cancel", "Deny, and interrupt the turn"),
    "approved": ("allow", "Allow"),
    "approved_for_session": ("allow-always", "Allow for this session"),
    "denied": ("deny", "Deny, and go on"),
    "abort": ("cancel", "Deny, and interrupt the turn"),
}
_MODERN: Final = ("accept", "acceptForSession", "decline", "cancel")
_OLD: Final = ("approved", "approved_for_session", "denied", "abort")


def read(identity: str, method: str, params: dict[str, Any]) -> Question | None:
    """The question in a server request; None for a request that no person can answer."""
    if method in _APPROVALS:
        return _approval(identity, method, params)
    if method == "item/permissions/requestApproval":
        return _question(
            identity,
            f"Grant permissions: {params.get('reason') or 'no reason given'}",
            ("accept", "decline"),
            params,
        )
    if method == "mcpServer/elicitation/request":
        prompt = str(params.get("message", ""))
        return _question(identity, prompt, ("accept", "decline", "cancel"), params, kind="input")
    if method == "item/tool/requestUserInput":
        asked = [q for q in params.get("questions") or [] if isinstance(q, dict)]
        return Question(
            id=identity,
            kind="input",
            prompt="\n".join(str(q.get("question", "")) for q in asked),
            choices=(Choice(id="answer", meaning="other", label="Answer"),),
            fields=tuple(str(q["id"]) for q in asked),
            detail=params,
        )
    return None


def reply(method: str, params: dict[str, Any], choice: str, text: dict[str, str]) -> dict[str, Any]:
    """The result that answers the request with this choice."""
    if method == "item/tool/requestUserInput":
        return {"answers": {name: {"answers": [value]} for name, value in text.items()}}
    if method == "mcpServer/elicitation/request":
        return {"action": choice, "content": dict(text) if choice == "accept" else None}
    if method == "item/permissions/requestApproval":
        granted = params.get("permissions") or {} if choice == "accept" else {}
        return {"permissions": granted, "scope": "turn"}
    return {"decision": choice}


def _approval(identity: str, method: str, params: dict[str, Any]) -> Question:
    command = params.get("command")
    what = " ".join(map(str, command)) if isinstance(command, list) else command
    subject = what or params.get("reason") or params.get("itemId", "")
    prompt = f"{_APPROVALS[method].capitalize()}: {subject}"
    offered = params.get("availableDecisions")
    # Decisions that are objects carry rules of Codex's own; a person picks among the plain ones.
    plain = tuple(d for d in offered if isinstance(d, str)) if isinstance(offered, list) else ()
    return _question(identity, prompt, _OLD if method in _LEGACY else plain or _MODERN, params)


def _question(
    identity: str, prompt: str, names: tuple[str, ...], detail: Any, kind: Any = "approval"
) -> Question:
    choices = []
    for name in names:
        meaning, label = _MEANINGS.get(name, ("other", name))
        choices.append(Choice(id=name, meaning=meaning, label=label))
    return Question(id=identity, kind=kind, prompt=prompt, choices=tuple(choices), detail=detail)
