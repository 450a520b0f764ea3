"""The conversation with `codex app-server`: JSON-RPC over stdio (the schema that 0.171 prints)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from lastout._version import __version__
from lastout.agents import codex_questions, fields
from lastout.agents.dialogue import Options, Speaker, Start
from lastout.agents.events import (
    Accepted,
    Background,
    CommandEnded,
    CommandOutput,
    CommandStarted,
    Notice,
    Question,
    QuestionClosed,
    Ready,
    Rejected,
    Settled,
    StartRefused,
    Text,
    Thinking,
    TurnEnded,
    TurnStatus,
)
from lastout.agents.rpc import Notification, Request, Rpc, RpcError

__all__ = ["WRITER_ELSEWHERE", "CodexDialogue"]

WRITER_ELSEWHERE: Final = "already has an active writer"
"""In the message of the refusal when another process holds the thread's lock.

Its code, -32600, means many things.
"""

_POLICIES: Final = {
    "read-only": {"type": "readOnly"},
    "workspace-write": {"type": "workspaceWrite"},
    "danger-full-access": {"type": "dangerFullAccess"},
}


class CodexDialogue(Speaker):
    """One app-server process, used for one thread."""

    def __init__(self, start: Start) -> None:
        super().__init__()
        self._start = start
        self._options = start.options
        self._rpc = Rpc(self.outgoing.append, version=False)
        self._thread = start.resume
        self._turn: str | None = None
        self._message: str | None = None
        self._stopping: int | None = None
        self._asked: dict[str, tuple[Request, Question]] = {}
        self._running: dict[str, str] = {}
        self._others: set[str] = set()
        self._version: str | None = None

    def open(self) -> None:
        """`initialize`, then start or resume the thread."""
        client = {"name": "lastout", "title": None, "version": __version__}
        self._rpc.request(
            "initialize",
            {"clientInfo": client, "capabilities": {"experimentalApi": True}},
            self._initialized,
            self._start_failed,
        )

    def reopen(self) -> None:
        """Ask once more for the thread."""
        params: dict[str, Any] = {"cwd": self._start.cwd}
        if self._options.approval:
            params["approvalPolicy"] = self._options.approval
        if self._options.sandbox:
            params["sandbox"] = self._options.sandbox
        if self._options.model:
            params["model"] = self._options.model
        if self._start.resume is None:
            self._rpc.request("thread/start", params, self._opened, self._start_failed)
        else:
            # Without the turns: a long history would come back as one line of many megabytes.
            params |= {"threadId": self._start.resume, "excludeTurns": True}
            self._rpc.request("thread/resume", params, self._opened, self._start_failed)

    def send(self, message: str, text: str) -> None:
        """`turn/start`; options that changed since the last turn go with it."""
        self._message, self.busy = message, True
        params: dict[str, Any] = {
            "threadId": self._thread,
            "clientUserMessageId": message,
            "input": [{"type": "text", "text": text, "text_elements": []}],
        }
        given = self._options.given()
        for name, field in (
            ("model", "model"),
            ("effort", "effort"),
            ("approval", "approvalPolicy"),
        ):
            if name in given:
                params[field] = given[name]
        if "sandbox" in given:
            params["sandboxPolicy"] = _POLICIES.get(given["sandbox"], {"type": given["sandbox"]})

        def started(result: Any) -> None:
            self._turn = fields.text(result["turn"]["id"])
            self._emit(Accepted(message=message, turn=self._turn))
            if self._stopping is not None:
                self._interrupt(self._stopping)

        def failed(error: RpcError) -> None:
            self.busy, self._message = False, None
            self._emit(Rejected(message=message, reason=error.message))

        self._rpc.request("turn/start", params, started, failed)

    def interrupt(self) -> int:
        """`turn/interrupt`. Commands that run go on behind the turn: that is Codex's own rule."""
        if not self.busy:
            return self._settled_at_once()
        number = self._number()
        if self._turn is None:
            self._stopping = number  # the turn has no name yet: as soon as it has one
        else:
            self._interrupt(number)
        return number

    def configure(self, options: Options) -> int:
        """Goes with the next turn; Codex keeps it from there on."""
        self._options = options
        return self._settled_at_once()

    def answer(self, question: str, choice: str, text: dict[str, str]) -> None:
        """Answer a server request."""
        request, asked = self._asked[question]
        if choice not in {c.id for c in asked.choices}:
            raise ValueError(
                f"no choice {choice!r}; there are {', '.join(c.id for c in asked.choices)}"
            )
        del self._asked[question]
        self._rpc.answer(
            request.id, codex_questions.reply(request.method, request.params, choice, text)
        )
        self._emit(QuestionClosed(id=question))

    def rewind(self, turn: str) -> int:
        """`thread/revert`: the thread's history up to, and without, this turn."""
        return self._ask("thread/revert", {"threadId": self._thread, "beforeTurnId": turn})

    def goal(self, objective: str | None) -> int:
        """`thread/goal/set`, or clear it."""
        if objective is None:
            return self._ask("thread/goal/clear", {"threadId": self._thread})
        return self._ask("thread/goal/set", {"threadId": self._thread, "objective": objective})

    def stop_task(self, task: str) -> int:
        """Ends a command that runs behind the turns; `all` ends every one."""
        process = self._running.get(task)
        if process is None:
            return self._ask("thread/backgroundTerminals/clean", {"threadId": self._thread})
        return self._ask(
            "thread/backgroundTerminals/terminate", {"threadId": self._thread, "processId": process}
        )

    def farewell(self) -> None:
        """Interrupts the turn, so that the rollout says `interrupted` and not nothing."""
        if self.busy:
            self.interrupt()

    # What the agent says.

    def _take(self, message: Any) -> bool:
        taken = self._rpc.receive(message)
        if isinstance(taken, Request):
            self._asks(taken)
            return True
        if isinstance(taken, Notification):
            tell = self._TELLS.get(taken.method)
            if tell is not None and (taken.params.get("threadId") or self._thread) == self._thread:
                tell(self, taken.params)
            return True  # what we do not know yet is a newer Codex, not noise
        return taken

    def _initialized(self, result: Any) -> None:
        agent = str(result.get("userAgent", ""))
        self._version = agent.partition("/")[2].partition(" ")[0] or None
        self._rpc.notify("initialized")
        self.reopen()

    def _opened(self, result: Any) -> None:
        self._thread = str(result["thread"]["id"])
        self._emit(
            Ready(
                conversation=self._thread,
                resumed=self._start.resume is not None,
                model=fields.text_or_none(result.get("model")),
                version=self._version,
            )
        )

    def _start_failed(self, error: RpcError) -> None:
        resuming = self._start.resume is not None
        why: Any = "failed"
        if resuming and WRITER_ELSEWHERE in error.message:
            why = "locked"
        elif resuming and (
            "no rollout found" in error.message or "thread not found" in error.message
        ):
            why = "unknown"
        self._emit(StartRefused(why=why, message=error.message))

    def _interrupt(self, number: int) -> None:
        self._stopping = None
        self._ask("turn/interrupt", {"threadId": self._thread, "turnId": self._turn}, number)

    def _ask(self, method: str, params: dict[str, Any], number: int | None = None) -> int:
        given = self._number() if number is None else number
        self._rpc.request(
            method,
            params,
            lambda result: self._emit(Settled(request=given, result=result)),
            lambda error: self._emit(Settled(request=given, error=error.message)),
        )
        return given

    def _asks(self, request: Request) -> None:
        identity = str(request.id)
        question = codex_questions.read(identity, request.method, request.params)
        if question is None:
            self._rpc.refuse(request.id, f"{request.method} is not offered")
            return
        self._asked[identity] = (request, question)
        self._emit(question)

    def _turn_ended(self, params: dict[str, Any]) -> None:
        turn = params["turn"]
        ours = turn["id"] == self._turn
        self._others.discard(turn["id"])
        said = turn["status"]
        status: TurnStatus = said if said in ("completed", "interrupted") else "failed"
        error = (turn.get("error") or {}).get("message")
        self._emit(
            TurnEnded(
                message=self._message if ours else None,
                status=status,
                error=fields.text_or_none(error),
                turn=fields.text(turn["id"]),
            )
        )
        if ours:
            self.busy, self._message, self._turn = False, None, None
            if self._stopping is not None:
                self._emit(Settled(request=self._stopping))
                self._stopping = None
        for identity in list(self._asked):
            if self._asked[identity][0].params.get("turnId") == turn["id"]:
                del self._asked[identity]
                self._emit(QuestionClosed(id=identity))
        self._emit_background()

    def _emit_background(self) -> None:
        # A turn of Codex's own making (it pursues a goal) is work too.
        self._emit(Background(tasks=(*self._running, *self._others)))

    def _turn_started(self, params: dict[str, Any]) -> None:
        turn = fields.text(params["turn"]["id"])
        if not self.busy:
            self._others.add(turn)
            self._emit_background()

    def _item_started(self, params: dict[str, Any]) -> None:
        item = params["item"]
        if item["type"] == "commandExecution":
            self._running[fields.text(item["id"])] = str(item.get("processId") or "")
            self._emit(
                CommandStarted(
                    item=fields.text(item["id"]),
                    command=fields.text(item["command"]),
                    cwd=fields.text_or_none(item.get("cwd")),
                )
            )
        elif item["type"] in ("mcpToolCall", "dynamicToolCall"):
            self._emit(CommandStarted(item=fields.text(item["id"]), command=str(item.get("tool"))))

    def _item_completed(self, params: dict[str, Any]) -> None:
        item = params["item"]
        if item["type"] == "commandExecution":
            known = self._running.pop(item["id"], None) is not None
            if not known:
                self._emit(
                    CommandStarted(
                        item=fields.text(item["id"]),
                        command=fields.text(item["command"]),
                        cwd=fields.text_or_none(item.get("cwd")),
                    )
                )
            self._emit(
                CommandEnded(
                    item=fields.text(item["id"]),
                    status=fields.text(item["status"]),
                    exit_code=fields.number(item.get("exitCode")),
                    duration_ms=fields.number(item.get("durationMs")),
                    output=fields.text_or_none(item.get("aggregatedOutput")),
                )
            )
            if known and not self.busy:
                self._emit_background()
        elif item["type"] in ("mcpToolCall", "dynamicToolCall"):
            self._emit(
                CommandEnded(
                    item=fields.text(item["id"]),
                    status=str(item["status"]),
                    duration_ms=fields.number(item.get("durationMs")),
                )
            )

    def _resolved(self, params: dict[str, Any]) -> None:
        identity = str(params["requestId"])
        if self._asked.pop(identity, None) is not None:
            self._emit(QuestionClosed(id=identity))

    def _error(self, params: dict[str, Any]) -> None:
        error = params.get("error") or {}
        self._emit(
            Notice(
                text=str(error.get("message", "error"))
                + (", trying again" if params.get("willRetry") else "")
            )
        )

    _TELLS: Final[dict[str, Callable[[CodexDialogue, dict[str, Any]], None]]] = {
        "turn/started": _turn_started,
        "turn/completed": _turn_ended,
        "item/started": _item_started,
        "item/completed": _item_completed,
        "item/agentMessage/delta": lambda self, p: self._emit(
            Text(text=fields.text(p["delta"]), item=fields.text_or_none(p.get("itemId")))
        ),
        "item/reasoning/summaryTextDelta": lambda self, p: self._emit(
            Thinking(text=fields.text(p["delta"]))
        ),
        "item/commandExecution/outputDelta": lambda self, p: self._emit(
            CommandOutput(item=fields.text(p["itemId"]), text=fields.text(p["delta"]))
        ),
        "serverRequest/resolved": _resolved,
        "error": _error,
        "warning": lambda self, p: self._emit(Notice(text=str(p.get("message", "")))),
    }
