"""The conversation with any agent that speaks the Agent Client Protocol, version 1.

JSON-RPC over stdio.
"""

from __future__ import annotations

from typing import Any, Final

from lastout._version import __version__
from lastout.agents import fields
from lastout.agents.dialogue import Options, Speaker, Start
from lastout.agents.events import (
    Accepted,
    Choice,
    CommandEnded,
    CommandStarted,
    Question,
    QuestionClosed,
    Ready,
    Settled,
    StartRefused,
    Text,
    Thinking,
    TurnEnded,
)
from lastout.agents.rpc import Request, Rpc, RpcError

__all__ = ["AcpDialogue"]

_MEANINGS: Final[dict[str, Any]] = {
    "allow_once": "allow",
    "allow_always": "allow-always",
    "reject_once": "deny",
    "reject_always": "deny",
}
_CATEGORIES: Final = {
    "model": ("model",),
    "effort": ("thought_level", "effort"),
    "approval": ("mode",),
}
_WORK: Final = frozenset(
    {
        "agent_message_chunk",
        "agent_thought_chunk",
        "user_message_chunk",
        "tool_call",
        "tool_call_update",
        "plan",
    }
)


class AcpDialogue(Speaker):
    """One ACP agent, used for one session."""

    def __init__(self, start: Start) -> None:
        super().__init__()
        self._start = start
        self._options = start.options
        self._rpc = Rpc(self.outgoing.append, version=True)
        self._session: str | None = None
        self._message: str | None = None
        self._accepted = True
        self._can: dict[str, Any] = {}
        self._settings: dict[str, tuple[str, str]] = {}
        self._asked: dict[str, tuple[Request, Question]] = {}
        self._open_tools: set[str] = set()
        self._version: str | None = None

    def open(self) -> None:
        """`initialize`, then a new session or the old one."""
        client = {"name": "lastout", "version": __version__}
        # Neither files nor terminals are offered: the agent's tools run under our supervisor, in
        # its own tree.
        self._rpc.request(
            "initialize",
            {
                "protocolVersion": 1,
                "clientInfo": client,
                "clientCapabilities": {
                    "fs": {"readTextFile": False, "writeTextFile": False},
                    "terminal": False,
                },
            },
            self._initialized,
            self._start_failed,
        )

    def reopen(self) -> None:
        """Ask (again) for the session."""
        params: dict[str, Any] = {"cwd": self._start.cwd, "mcpServers": []}
        resume = self._start.resume
        if resume is None:
            self._rpc.request("session/new", params, self._opened, self._start_failed)
        elif (self._can.get("sessionCapabilities") or {}).get("resume") is not None:
            self._rpc.request(
                "session/resume", {**params, "sessionId": resume}, self._opened, self._start_failed
            )
        elif self._can.get("loadSession"):
            self._rpc.request(
                "session/load", {**params, "sessionId": resume}, self._opened, self._start_failed
            )
        else:
            self._emit(
                StartRefused(
                    why="cannot-resume", message="this agent cannot take up an earlier session"
                )
            )

    def send(self, message: str, text: str) -> None:
        """`session/prompt`; its answer is the turn's end.

        The first sign of work is the sign that it was taken.
        """
        self._message, self.busy, self._accepted = message, True, False

        def done(result: Any) -> None:
            self._accept()
            reason = result.get("stopReason")
            status: Any = {"end_turn": "completed", "cancelled": "interrupted"}.get(
                reason, "failed"
            )
            self._end_turn(status, None if status != "failed" else f"the turn stopped: {reason}")

        def failed(error: RpcError) -> None:
            self._accept()
            self._end_turn("failed", error.message)

        self._rpc.request(
            "session/prompt",
            {
                "sessionId": self._session,
                "messageId": message,
                "prompt": [{"type": "text", "text": text}],
            },
            done,
            failed,
        )

    def interrupt(self) -> int:
        """`session/cancel`; what waits for permission is cancelled with it, as the protocol
        asks."""
        if self.busy:
            self._rpc.notify("session/cancel", {"sessionId": self._session})
            self._close_questions(answer=True)
        return self._settled_at_once()

    def configure(self, options: Options) -> int:
        """Through the session's own options or modes, where the agent has one of that kind."""
        number, before, self._options = self._number(), self._options, options
        changed = {
            name: value for name, value in options.given().items() if getattr(before, name) != value
        }
        self._apply(changed, number)
        return number

    def answer(self, question: str, choice: str, text: dict[str, str]) -> None:
        """Answer a permission request."""
        request, asked = self._asked[question]
        if choice not in {c.id for c in asked.choices}:
            raise ValueError(
                f"no choice {choice!r}; there are {', '.join(c.id for c in asked.choices)}"
            )
        del self._asked[question]
        outcome = (
            {"outcome": "cancelled"}
            if choice == "cancel"
            else {"outcome": "selected", "optionId": choice}
        )
        self._rpc.answer(request.id, {"outcome": outcome})
        self._emit(QuestionClosed(id=question))

    def rewind(self, turn: str) -> int:
        """Not part of the protocol."""
        return self._settled_at_once("the Agent Client Protocol cannot rewind")

    def goal(self, objective: str | None) -> int:
        """Not part of the protocol."""
        return self._settled_at_once("the Agent Client Protocol has no goals")

    def stop_task(self, task: str) -> int:
        """Not part of the protocol."""
        return self._settled_at_once("the Agent Client Protocol cannot stop a background task")

    def farewell(self) -> None:
        """Cancel the turn."""
        self.interrupt()

    # What the agent says.

    def _take(self, message: Any) -> bool:
        taken = self._rpc.receive(message)
        if isinstance(taken, bool):
            return taken
        if isinstance(taken, Request):
            self._asks(taken)
        elif taken.method == "session/update" and self._session is not None:
            # Before the session is open it is the old history that session/load plays back: not
            # news.
            self._update(taken.params.get("update") or {})
        return True

    def _initialized(self, result: Any) -> None:
        self._can = result.get("agentCapabilities") or {}
        self._version = fields.text_or_none((result.get("agentInfo") or {}).get("version"))
        self.reopen()

    def _opened(self, result: Any) -> None:
        body = result or {}
        self._session = str(body.get("sessionId") or self._start.resume)
        self._learn(body)
        self._emit(
            Ready(
                conversation=self._session,
                resumed=self._start.resume is not None,
                version=self._version,
            )
        )
        if self._start.options.given():
            self._apply(self._start.options.given(), None)

    def _start_failed(self, error: RpcError) -> None:
        unknown = self._start.resume is not None and error.code == -32002
        self._emit(StartRefused(why="unknown" if unknown else "failed", message=error.message))

    def _learn(self, body: dict[str, Any]) -> None:
        for option in body.get("configOptions") or []:
            for name, categories in _CATEGORIES.items():
                if option.get("category") in categories:
                    self._settings[name] = ("session/set_config_option", str(option["id"]))
        if body.get("modes") and "approval" not in self._settings:
            self._settings["approval"] = ("session/set_mode", "")

    def _apply(self, changed: dict[str, str], number: int | None) -> None:
        """Ask for each change; `number` settles with the last one, or with the first that fails."""
        missing = [name for name in changed if name not in self._settings]
        if missing or not changed:
            if number is not None:
                error = f"this agent has no option for {', '.join(missing)}" if missing else None
                self._emit(Settled(request=number, error=error))
            return
        left, errors = len(changed), list[str]()

        def one(error: str | None) -> None:
            nonlocal left
            left -= 1
            if error:
                errors.append(error)
            if left == 0 and number is not None:
                self._emit(Settled(request=number, error="; ".join(errors) or None))

        for name, value in changed.items():
            method, identity = self._settings[name]
            params: dict[str, Any] = {"sessionId": self._session}
            params |= (
                {"modeId": value}
                if method == "session/set_mode"
                else {"configId": identity, "value": value}
            )
            self._rpc.request(method, params, lambda _: one(None), lambda error: one(error.message))

    def _update(self, update: dict[str, Any]) -> None:
        kind = update.get("sessionUpdate")
        if kind in _WORK:
            self._accept()
        if kind in ("agent_message_chunk", "agent_thought_chunk"):
            text = (update.get("content") or {}).get("text")
            if isinstance(text, str):
                self._emit(
                    Text(text=text) if kind == "agent_message_chunk" else Thinking(text=text)
                )
        elif kind in ("tool_call", "tool_call_update"):
            self._tool(update)

    def _tool(self, update: dict[str, Any]) -> None:
        identity = str(update["toolCallId"])
        if identity not in self._open_tools and (update["sessionUpdate"] == "tool_call"):
            self._open_tools.add(identity)
            given = update.get("rawInput")
            command = given.get("command") if isinstance(given, dict) else None
            name = " ".join(map(str, command)) if isinstance(command, list) else command
            self._emit(
                CommandStarted(item=identity, command=str(name or update.get("title") or "tool"))
            )
        if update.get("status") in ("completed", "failed") and identity in self._open_tools:
            # Two or three updates may come for one call; only the first with a final status counts.
            self._open_tools.discard(identity)
            self._emit(
                CommandEnded(
                    item=identity, status=update["status"], output=_plain(update.get("content"))
                )
            )

    def _asks(self, request: Request) -> None:
        if request.method != "session/request_permission":
            self._rpc.refuse(request.id, f"{request.method} is not offered")
            return
        self._accept()
        identity = str(request.id)
        choices = [
            Choice(
                id=str(o["optionId"]),
                meaning=_MEANINGS.get(o.get("kind"), "other"),
                label=str(o["name"]),
            )
            for o in request.params.get("options") or []
        ]
        choices.append(Choice(id="cancel", meaning="cancel", label="Deny, and interrupt the turn"))
        title = (request.params.get("toolCall") or {}).get("title")
        question = Question(
            id=identity,
            kind="approval",
            prompt=str(title or "Permission"),
            choices=tuple(choices),
            detail=request.params,
        )
        self._asked[identity] = (request, question)
        self._emit(question)

    def _accept(self) -> None:
        if not self._accepted and self._message is not None:
            self._accepted = True
            self._emit(Accepted(message=self._message))

    def _end_turn(self, status: Any, error: str | None) -> None:
        self._emit(TurnEnded(message=self._message, status=status, error=error))
        self.busy, self._message, self._accepted = False, None, True
        self._close_questions(answer=True)

    def _close_questions(self, *, answer: bool) -> None:
        asked, self._asked = self._asked, {}
        for identity, (request, _) in asked.items():
            if answer:
                self._rpc.answer(request.id, {"outcome": {"outcome": "cancelled"}})
            self._emit(QuestionClosed(id=identity))


def _plain(content: Any) -> str | None:
    if not isinstance(content, list):
        return None
    texts = [
        part["content"].get("text")
        for part in content
        if isinstance(part, dict) and isinstance(part.get("content"), dict)
    ]
    return "\n".join(text for text in texts if isinstance(text, str)) or None
