"""The conversation with Claude Code: stream-json both ways, with control requests (2.1.332).

The session's id is ours from the start (`--session-id`, `--resume`), and so is each user message's:
Claude keeps the uuid that it is given, says when it takes the message up, and writes it to its
transcript.
"""

from __future__ import annotations

import uuid
from typing import Any, Final

import msgspec

from lastout.agents import fields
from lastout.agents.dialogue import Options, Speaker, Start
from lastout.agents.events import (
    Accepted,
    Background,
    Choice,
    CommandEnded,
    CommandStarted,
    Notice,
    Question,
    QuestionClosed,
    Ready,
    Settled,
    StartRefused,
    Text,
    Thinking,
    TurnEnded,
)
from lastout.evidence.commands.claude import exit_code_in

__all__ = ["ClaudeDialogue", "message_uuid"]

_NAMESPACE: Final = uuid.UUID("6f2f9f4e-6a3e-4e0a-9a53-0d6a0a2a7f11")
_FORGOTTEN: Final = (
    "Claude Code has no transcript of this conversation (it was ended before it wrote one, or the "
    "file is gone): it starts without what was said before"
)
_INTERRUPTED: Final = frozenset({"aborted_tools", "aborted_streaming", "aborted", "interrupted"})


def message_uuid(message: str) -> str:
    """The uuid under which Claude knows a message of ours.

    Its id where that is one, else made from it.
    """
    try:
        return str(uuid.UUID(message))
    except ValueError:
        return str(uuid.uuid5(_NAMESPACE, message))


class ClaudeDialogue(Speaker):
    """One `claude -p` process with stream-json on both sides."""

    def __init__(self, start: Start, session: str, resumes: bool = True) -> None:
        super().__init__()
        self._forgotten = start.resume is not None and not resumes
        self._start = start
        self._session = session
        self._options = start.options
        self._waiting: dict[str, tuple[str, list[int]]] = {}
        self._asked: dict[str, tuple[dict[str, Any], Question]] = {}
        self._sent: dict[str, str] = {}
        self._message: str | None = None
        self._interrupted = False
        self._tasks: tuple[str, ...] = ()
        self._streamed = False

    def open(self) -> None:
        """The `initialize` control request.

        Its answer says that the session is open, before any message.
        """
        if self._forgotten:
            self._emit(Notice(text=_FORGOTTEN))
        self._control("initialize", [], subtype="initialize", hooks=None)

    def reopen(self) -> None:
        """Claude has no lock to wait for."""
        self.open()

    def send(self, message: str, text: str) -> None:
        """A user message under its own uuid."""
        identity = message_uuid(message)
        self._sent[identity] = message
        self._message, self.busy, self._interrupted = message, True, False
        self._write(
            {
                "type": "user",
                "uuid": identity,
                "session_id": self._session,
                "parent_tool_use_id": None,
                "message": {"role": "user", "content": [{"type": "text", "text": text}]},
            }
        )

    def interrupt(self) -> int:
        """Ends the turn and kills its foreground tool."""
        number = self._number()
        self._interrupted = self.busy
        self._control("interrupt", [number], subtype="interrupt")
        return number

    def configure(self, options: Options) -> int:
        """Model and permission mode change at once; the rest needs a new start."""
        number, before, self._options = self._number(), self._options, options
        wanted: list[dict[str, Any]] = []
        if options.model != before.model:
            wanted.append({"subtype": "set_model", "model": options.model})
        if options.approval != before.approval and options.approval is not None:
            wanted.append({"subtype": "set_permission_mode", "mode": options.approval})
        if not wanted:
            self._emit(Settled(request=number))
        for position, request in enumerate(wanted):
            self._control("configure", [number] if position == len(wanted) - 1 else [], **request)
        return number

    def answer(self, question: str, choice: str, text: dict[str, str]) -> None:
        """Answer a permission request, or the questions that Claude asks its user."""
        request, asked = self._asked[question]
        if choice not in {c.id for c in asked.choices}:
            raise ValueError(
                f"no choice {choice!r}; there are {', '.join(c.id for c in asked.choices)}"
            )
        del self._asked[question]
        self._respond(question, _verdict(request, choice, text))
        self._emit(QuestionClosed(id=question))

    def rewind(self, turn: str) -> int:
        """Claude rewinds at a start: `--resume-session-at`."""
        return self._settled_at_once("Claude Code rewinds only when it is started")

    def goal(self, objective: str | None) -> int:
        """Not part of this protocol."""
        return self._settled_at_once("Claude Code has no goals in this protocol")

    def stop_task(self, task: str) -> int:
        """Ends one background task."""
        number = self._number()
        self._control("stop", [number], subtype="stop_task", task_id=task)
        return number

    def farewell(self) -> None:
        """Interrupt: stdin's end alone never ends a running turn."""
        if self.busy or self._tasks:
            self.interrupt()

    # What the agent says.

    def _take(self, message: Any) -> bool:
        if not isinstance(message, dict) or not isinstance(message.get("type"), str):
            return False
        handler = getattr(self, "_on_" + message["type"], None)
        if handler is not None:
            handler(message)
        return True

    def _on_control_response(self, message: dict[str, Any]) -> None:
        response = message["response"]
        kind, numbers = self._waiting.pop(response.get("request_id"), ("", []))
        failed = response["subtype"] != "success"
        error = str(response.get("error", "refused")) if failed else None
        if kind == "initialize":
            if failed:
                self._emit(StartRefused(why="failed", message=error or ""))
            else:
                self._emit(
                    Ready(
                        conversation=self._session,
                        resumed=self._start.resume is not None,
                        model=self._options.model,
                    )
                )
        elif kind == "configure" and not numbers and error:
            self._emit(Notice(text=error))
        for number in numbers:
            self._emit(Settled(request=number, error=error, result=response.get("response")))

    def _on_control_request(self, message: dict[str, Any]) -> None:
        identity, request = message["request_id"], message["request"]
        if request["subtype"] != "can_use_tool":
            self._write(
                {
                    "type": "control_response",
                    "response": {
                        "subtype": "error",
                        "request_id": identity,
                        "error": f"{request['subtype']} is not offered",
                    },
                }
            )
            return
        question = _question(identity, request)
        self._asked[identity] = (request, question)
        self._emit(question)

    def _on_control_cancel_request(self, message: dict[str, Any]) -> None:
        if self._asked.pop(message["request_id"], None) is not None:
            self._emit(QuestionClosed(id=message["request_id"]))

    def _on_command_lifecycle(self, message: dict[str, Any]) -> None:
        if message["state"] == "started":
            self._accept(message["command_uuid"])

    def _on_user(self, message: dict[str, Any]) -> None:
        if message.get("isReplay"):
            self._accept(str(message.get("uuid")))
            return
        content = message["message"]["content"]
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") == "tool_result":
                failed = bool(block.get("is_error"))
                output = _plain(block.get("content"))
                self._emit(
                    CommandEnded(
                        item=fields.text(block["tool_use_id"]),
                        status="failed" if failed else "completed",
                        exit_code=exit_code_in(output) if failed and output else None,
                        output=output,
                    )
                )

    def _on_assistant(self, message: dict[str, Any]) -> None:
        for block in message["message"]["content"]:
            if block["type"] == "tool_use":
                given = block.get("input") or {}
                self._emit(
                    CommandStarted(
                        item=fields.text(block["id"]),
                        command=str(given.get("command") or block["name"]),
                    )
                )
            elif block["type"] == "text" and not self._streamed:
                self._emit(Text(text=fields.text(block["text"])))
        self._streamed = False

    def _on_stream_event(self, message: dict[str, Any]) -> None:
        if message.get("parent_tool_use_id") is not None:
            return  # of an agent that this one started
        delta = message["event"].get("delta") or {}
        if delta.get("type") == "text_delta":
            self._streamed = True
            self._emit(Text(text=fields.text(delta["text"])))
        elif delta.get("type") == "thinking_delta":
            self._emit(Thinking(text=fields.text(delta["thinking"])))

    def _on_system(self, message: dict[str, Any]) -> None:
        subtype = message.get("subtype")
        if subtype == "background_tasks_changed":
            self._tasks = tuple(str(task["task_id"]) for task in message["tasks"])
            self._emit(Background(tasks=self._tasks))
        elif subtype == "api_retry":
            self._emit(Notice(text="the model's service failed; Claude Code tries again"))

    def _on_result(self, message: dict[str, Any]) -> None:
        # A turn of Claude's own making (a task in the background has ended) can end between our
        # message and its turn: that one has been taken up by then, or the result is not its.
        ours = self._message is not None and message_uuid(self._message) not in self._sent
        failed = bool(message.get("is_error")) or message.get("subtype") != "success"
        status: Any = "failed" if failed else "completed"
        if self._interrupted and (failed or message.get("terminal_reason") in _INTERRUPTED):
            status = "interrupted"
        error = None
        if failed and status != "interrupted":
            errors = message.get("errors")
            error = str(
                message.get("result") or (errors[0] if errors else None) or message.get("subtype")
            )
        answered = self._message if ours else None
        self._emit(TurnEnded(message=answered, status=status, error=error))
        if ours or self._message is None:
            self.busy, self._message, self._interrupted = False, None, False
        for identity in list(self._asked):
            del self._asked[identity]
            self._emit(QuestionClosed(id=identity))

    def _accept(self, identity: str) -> None:
        message = self._sent.pop(identity, None)
        if message is not None:
            self._emit(Accepted(message=message, turn=identity))

    def _control(self, kind: str, numbers: list[int], **request: Any) -> None:
        identity = str(uuid.uuid4())
        self._waiting[identity] = (kind, numbers)
        self._write({"type": "control_request", "request_id": identity, "request": request})

    def _respond(self, identity: str, response: dict[str, Any]) -> None:
        self._write(
            {
                "type": "control_response",
                "response": {"subtype": "success", "request_id": identity, "response": response},
            }
        )

    def _write(self, message: dict[str, Any]) -> None:
        self.outgoing.append(msgspec.json.encode(message) + b"\n")


def _question(identity: str, request: dict[str, Any]) -> Question:
    given = request.get("input") or {}
    if request["tool_name"] == "AskUserQuestion":
        asked = [q for q in given.get("questions") or [] if isinstance(q, dict)]
        return Question(
            id=identity,
            kind="input",
            prompt="\n".join(str(q.get("question", "")) for q in asked),
            choices=(
                Choice(id="answer", meaning="other", label="Answer"),
                Choice(id="deny", meaning="deny", label="Do not answer"),
            ),
            fields=tuple(str(q.get("question", "")) for q in asked),
            detail=request,
        )
    choices = [Choice(id="allow", meaning="allow", label="Allow")]
    if request.get("permission_suggestions"):
        choices.append(
            Choice(id="allow-always", meaning="allow-always", label="Allow, and do not ask again")
        )
    choices.append(Choice(id="deny", meaning="deny", label="Deny, and go on"))
    choices.append(Choice(id="cancel", meaning="cancel", label="Deny, and interrupt the turn"))
    what = given.get("command") or request.get("description") or ""
    return Question(
        id=identity,
        kind="approval",
        prompt=f"{request['tool_name']}: {what}".rstrip(": "),
        choices=tuple(choices),
        detail=request,
    )


def _verdict(request: dict[str, Any], choice: str, text: dict[str, str]) -> dict[str, Any]:
    given = request.get("input") or {}
    if choice == "answer":
        return {"behavior": "allow", "updatedInput": {**given, "answers": dict(text)}}
    if choice == "allow":
        return {"behavior": "allow", "updatedInput": given}
    if choice == "allow-always":
        return {
            "behavior": "allow",
            "updatedInput": given,
            "updatedPermissions": request.get("permission_suggestions") or [],
        }
    reason = text.get("reason") or "The user does not want this."
    return {"behavior": "deny", "message": reason, "interrupt": choice == "cancel"}


def _plain(content: Any) -> str | None:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return None
