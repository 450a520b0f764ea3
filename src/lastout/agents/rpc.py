"""JSON-RPC as agents speak it over stdio, without any I/O: one message a line, both sides may ask.

Codex leaves the `jsonrpc` member out, ACP wants it; apart from that they are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

__all__ = ["METHOD_NOT_FOUND", "Notification", "Request", "Rpc", "RpcError"]

METHOD_NOT_FOUND: Final = -32601


@dataclass(frozen=True, slots=True)
class RpcError:
    """The agent's refusal of a request.

    The code alone says little: Codex shares -32600 among different errors.
    """

    code: int
    message: str


@dataclass(frozen=True, slots=True)
class Request:
    """The agent asks: it waits for `Rpc.answer` or `Rpc.refuse` with this id."""

    id: int | str
    method: str
    params: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Notification:
    """The agent tells."""

    method: str
    params: dict[str, Any]


Answer = Callable[[Any], None]
Failure = Callable[[RpcError], None]


class Rpc:
    """Numbers requests, matches answers to them, and encodes. What is to be sent goes to `send`."""

    def __init__(self, send: Callable[[bytes], None], *, version: bool) -> None:
        self._send = send
        self._version = version
        self._last = 0
        self._open: dict[int, tuple[Answer, Failure]] = {}

    def request(self, method: str, params: dict[str, Any], answer: Answer, failure: Failure) -> int:
        """Ask; exactly one of the two is called when the agent answers."""
        self._last += 1
        self._open[self._last] = (answer, failure)
        self._write({"id": self._last, "method": method, "params": params})
        return self._last

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Tell; nothing comes back."""
        self._write({"method": method} if params is None else {"method": method, "params": params})

    def answer(self, request: int | str, result: Any) -> None:
        """Answer a request of the agent."""
        self._write({"id": request, "result": result})

    def refuse(self, request: int | str, message: str, code: int = METHOD_NOT_FOUND) -> None:
        """Refuse a request of the agent."""
        self._write({"id": request, "error": {"code": code, "message": message}})

    def receive(self, message: Any) -> Request | Notification | bool:
        """Take one decoded line.

        An answer is handed on (True); False is what is no message at all.
        """
        if not isinstance(message, dict):
            return False
        method, number, params = message.get("method"), message.get("id"), message.get("params")
        if isinstance(method, str):
            body = params if isinstance(params, dict) else {}
            return Notification(method, body) if number is None else Request(number, method, body)
        if "result" not in message and "error" not in message:
            return False
        waiting = self._open.pop(number, None) if isinstance(number, int) else None
        if waiting is None:
            return False  # an answer to nothing that was asked, or a second one
        answer, failure = waiting
        if "error" in message:
            failure(_error(message["error"]))
        else:
            answer(message["result"])
        return True

    def _write(self, message: dict[str, Any]) -> None:
        if self._version:
            message = {"jsonrpc": "2.0", **message}
        self._send(msgspec.json.encode(message) + b"\n")


def _error(value: Any) -> RpcError:
    if not isinstance(value, dict):
        return RpcError(0, str(value))
    code, message = value.get("code"), value.get("message")
    return RpcError(code if isinstance(code, int) else 0, str(message or value))
