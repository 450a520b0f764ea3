"""The HTTP server: OpenAI Responses and Anthropic Messages, on 127.0.0.1, in a thread."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from loopback import replies, script


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *arguments: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._json({})

    def do_GET(self) -> None:
        if self.path.partition("?")[0].endswith("/models"):
            self._json({"object": "list", "data": [], "models": []})
        else:
            self._json({"error": {"type": "not_found_error", "message": self.path}}, 404)

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        body = json.loads(raw or b"{}")
        if path.endswith("/count_tokens"):
            self._json({"input_tokens": 10})
            return
        number = next(self.server.numbers)
        offered = script.offered_tools(body)
        if path.endswith("/responses"):
            step = self.server.script.step(script.responses_turns(body), bool(offered), body)
            events = replies.responses(number, step.get("text", ""), replies.call(step, offered))
        elif path.endswith("/messages"):
            step = self.server.script.step(script.messages_turns(body), bool(offered), body)
            tool = replies.call(step, offered)
            model = body.get("model", "loopback")
            events = replies.messages(number, model, step.get("text", ""), tool)
        else:
            self._json({"error": {"type": "not_found_error", "message": path}}, 404)
            return
        try:
            if body.get("stream"):
                self._stream(events, step.get("stall", 0))
            else:
                self._json(replies.whole_message(events))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # an agent that is killed in a turn is the normal case

    def _stream(self, events: replies.Events, stall: float) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for position, event in enumerate(events):
            if stall and position == 1:
                time.sleep(stall)
            data = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def _json(self, value: Any, status: int = 200) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, scenarios: dict[str, list[script.Step]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = script.Script(scenarios)
        self.numbers = itertools.count()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, address: object) -> None:
        """A connection that broke off is not worth a word here."""

    def last_texts(self) -> str:
        """What the last request of the conversation carried, as one string."""
        asked = [one for one in self.script.asked if one["scenario"] is not None]
        return json.dumps(asked[-1]["body"])


@contextmanager
def serve(scenarios: dict[str, list[script.Step]]) -> Iterator[Server]:
    """A server for the length of the block."""
    server = Server(scenarios)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
