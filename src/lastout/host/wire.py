"""The host's own protocol for other languages: JSON lines, one request a line, events as they come.

A request is `{"do": NAME, "re": ANY, ...}`; its answer is `{"re": ANY, "ok": true, ...}` or
`{"re": ANY, "ok": false, "error": TEXT, "kind": NAME}`. Events are `{"key": KEY, "event": ...}`.
docs/reference/agents.md has the table.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any, Final

import anyio
import msgspec
from anyio import BrokenResourceError, ClosedResourceError
from anyio.abc import ByteReceiveStream, ByteSendStream, TaskGroup

from lastout.agents.dialogue import Options
from lastout.agents.events import AgentEvent
from lastout.agents.lines import Lines, TooLong
from lastout.changes import Changes
from lastout.errors import LastoutError
from lastout.host.conversation import Conversation
from lastout.host.host import Host
from lastout.host.message import Message
from lastout.host.readers import Reader

__all__ = ["Client"]

_LONGEST_REQUEST: Final = 16 << 20

Fields = dict[str, Any]

_IN_ORDER: Final = frozenset({"open", "send"})
"""Done before the next line is looked at: two messages are queued in the order of their lines."""

_LATER: Final[Fields] = {}
"""The answer comes when the message has ended."""


class Client:
    """One client: its requests are carried out side by side, and answered as they are done."""

    def __init__(self, host: Host, out: ByteSendStream, tasks: TaskGroup) -> None:
        self.quit_asked = anyio.Event()
        self._host = host
        self._out = out
        self._tasks = tasks
        self._lock = anyio.Lock()
        self._readers = ExitStack()
        self._watched: dict[str, Reader] = {}
        self._open = 0
        self._answered = Changes()

    async def all_answered(self) -> None:
        """Wait until every request has its answer."""
        while self._open:
            await self._answered.next()

    async def serve(self, stream: ByteReceiveStream) -> None:
        """Take requests until the stream ends."""
        lines = Lines(_LONGEST_REQUEST)
        await self._greet()
        async for data in stream:
            for line in lines.feed(data):
                await self._take(line)

    def close(self) -> None:
        """Read no more events."""
        self._readers.close()

    async def _greet(self) -> None:
        found = [
            {"key": f.key, "run": f.run, "verdict": f.verdict, "how": f.how, "left": f.left}
            for f in self._host.found
        ]
        await self._write({"event": "host", "found": found})

    async def _take(self, line: bytes | TooLong) -> None:
        if isinstance(line, TooLong):
            await self._write({"re": None, "ok": False, "error": "the line is too long"})
            return
        try:
            request = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.DecodeError as error:
            await self._write({"re": None, "ok": False, "error": f"not a request: {error}"})
            return
        self._open += 1
        if request.get("do") in _IN_ORDER:
            await self._answer(request)
        else:
            self._tasks.start_soon(self._answer, request)

    async def _answer(self, request: Fields) -> None:
        reply: Fields = {"re": request.get("re"), "ok": True}
        try:
            do = _REQUESTS.get(str(request.get("do")))
            if do is None:
                raise ValueError(f"no such request: {request.get('do')!r}")
            result = await do(self, request)
            if result is _LATER:
                return
            reply |= result or {}
        except KeyError as missing:
            reply |= {"ok": False, "error": f"missing: {missing}", "kind": "KeyError"}
        except (LastoutError, OSError, ValueError, TypeError, LookupError) as error:
            reply |= {"ok": False, "error": str(error), "kind": type(error).__name__}
        await self._reply(reply)

    async def _reply(self, reply: Fields) -> None:
        await self._write(reply)
        self._open -= 1
        self._answered.announce()

    async def _write(self, message: Fields) -> None:
        data = msgspec.json.encode(message) + b"\n"
        try:
            async with self._lock:
                await self._out.send(data)
        except (BrokenResourceError, ClosedResourceError):
            pass  # the client has gone; what it asked for goes on

    # Requests.

    async def open(self, request: Fields) -> Fields:
        """Open a conversation, and tell its events from now on."""
        given = request.get("options")
        conversation = await self._host.open(
            request["key"],
            request.get("agent"),
            cwd=request.get("cwd"),
            options=Options().updated(given) if given else None,
        )
        self._watch(conversation)
        return {"key": conversation.key, "state": conversation.state}

    async def send(self, request: Fields) -> Fields:
        """Take a message; its end comes as an event, and with `wait` in the answer."""
        message = await self._conversation(request).send(request["text"], id=request.get("id"))
        if not request.get("wait"):
            return _message(message)

        async def later() -> None:
            await message.done()
            # After the events of its turn: a client that prints as it reads prints in order.
            await self._watched[request["key"]].drained()
            await self._reply({"re": request.get("re"), "ok": True, **_message(message)})

        self._tasks.start_soon(later)
        return _LATER

    async def stop(self, request: Fields) -> Fields:
        """End the agent."""
        return {"verdict": await self._conversation(request).stop(now=bool(request.get("now")))}

    async def rest(self, request: Fields) -> Fields:
        """End the agent politely; the queue stays."""
        return {"verdict": await self._conversation(request).rest()}

    async def answer(self, request: Fields) -> None:
        """Answer a question."""
        text = {str(name): str(value) for name, value in (request.get("fields") or {}).items()}
        await self._conversation(request).answer(
            str(request["question"]), str(request["choice"]), **text
        )

    async def list(self, request: Fields) -> Fields:
        """All conversations that are stored, with the state of those that are open here."""
        opened = self._host.conversations
        return {
            "conversations": [
                {
                    "key": kept.key,
                    "agent": kept.agent,
                    "cwd": kept.cwd,
                    "options": kept.options.given(),
                    "conversation": kept.native,
                    "state": opened[kept.key].state if kept.key in opened else None,
                    "run": opened[kept.key].run if kept.key in opened else None,
                }
                for kept in self._host.known()
            ]
        }

    async def quit(self, request: Fields) -> Fields:
        """End everything, within the host's bound; then the host ends."""
        ends = await self._host.quit()
        self.quit_asked.set()
        return {"ends": ends}

    def _conversation(self, request: Fields) -> Conversation:
        found = self._host.conversations.get(request["key"])
        if found is None or request["key"] not in self._watched:
            raise LookupError(f"{request['key']!r} is not open here: open it first")
        return found

    def _watch(self, conversation: Conversation) -> None:
        known = self._watched.get(conversation.key)
        if known is None or not conversation.has_reader(known):
            # Registered at once: what happens before the task begins is told too.
            events = self._readers.enter_context(conversation.events())
            self._watched[conversation.key] = events
            self._tasks.start_soon(self._tell, conversation.key, events)

    async def _tell(self, key: str, events: Reader) -> None:
        async for event in events:
            await self._write({"key": key, **_plain(event)})


def _plain(event: AgentEvent) -> Fields:
    fields: Fields = msgspec.to_builtins(event)
    return fields


def _message(message: Message) -> Fields:
    return {
        "id": message.id,
        "state": message.state,
        "reason": message.reason,
        "answer": message.answer,
        "turn": message.turn,
        "run": message.run,
    }


def _on(act: Callable[[Conversation, Fields], Awaitable[Any]]) -> Callable[[Client, Fields], Any]:
    """A request that is one call on the conversation, and answers nothing but that it was done."""

    async def carry_out(client: Client, request: Fields) -> None:
        await act(client._conversation(request), request)

    return carry_out


_REQUESTS: Final[dict[str, Callable[[Client, Fields], Awaitable[Fields | None]]]] = {
    "open": Client.open,
    "send": Client.send,
    "stop": Client.stop,
    "rest": Client.rest,
    "answer": Client.answer,
    "list": Client.list,
    "quit": Client.quit,
    "close": _on(lambda conversation, request: conversation.close(reason="completion")),
    "interrupt": _on(lambda conversation, request: conversation.interrupt()),
    "configure": _on(lambda conversation, request: conversation.configure(**request["options"])),
    "rewind": _on(lambda conversation, request: conversation.rewind(request["id"])),
    "goal": _on(lambda conversation, request: conversation.goal(request["objective"])),
    "stop-task": _on(lambda conversation, request: conversation.stop_task(request["task"])),
}
