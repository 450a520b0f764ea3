"""The agent of the survey: it starts what agents start, cleans up nothing, and speaks enough of its
host's protocol to be started by it.

    agent.py ROLL TTL polite|stubborn lines|jsonrpc|claude [ANYTHING ...]
    agent.py ROLL TTL tool A|B

A is a child in its group, B one in a session of its own; both ignore TERM, INT and HUP. A polite
agent ends with its stdin and on SIGTERM; a stubborn one ignores both. All of them sign ROLL with
pid and start time, and end by themselves after TTL seconds.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def sign(roll: str, role: str) -> None:
    with open("/proc/self/stat", "rb") as file:
        start = int(file.read().rpartition(b")")[2].split()[19])
    line = json.dumps({"role": role, "pid": os.getpid(), "start": start}).encode() + b"\n"
    fd = os.open(roll, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, line)
    os.close(fd)


def tool(roll: str, role: str, ttl: float) -> None:
    """A (in our group) or B (in a session of its own); holds none of our pipes."""
    if os.fork():
        return
    signal.alarm(round(ttl))
    if role == "B":
        os.setsid()
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    sign(roll, role)
    while True:
        signal.pause()


def jsonrpc(request: dict[str, Any]) -> dict[str, Any] | None:
    """An answer that mcp, ACP and Codex each take for their `initialize`."""
    if "id" not in request or "method" not in request:
        return None
    asked = request.get("params", {}).get("protocolVersion", "2025-06-18")
    result = {
        "protocolVersion": asked,
        "capabilities": {},
        "serverInfo": {"name": "agent", "version": "1"},
        "agentCapabilities": {},
        "userAgent": "agent/1",
        "codexHome": "/nonexistent",
        "platformFamily": "unix",
        "platformOs": "linux",
    }
    return {"jsonrpc": "2.0", "id": request["id"], "result": result}


def claude(request: dict[str, Any]) -> dict[str, Any] | None:
    if request.get("type") != "control_request":
        return None
    answer = {"subtype": "success", "request_id": request["request_id"], "response": {}}
    return {"type": "control_response", "response": answer}


def main() -> None:
    roll, ttl, manner, protocol = sys.argv[1:5]
    if manner == "tool":
        tool(roll, protocol, float(ttl))
        return
    stubborn = manner == "stubborn"
    signal.alarm(round(float(ttl)))
    if stubborn:
        for number in IGNORED:
            signal.signal(number, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
    for role in ("A", "B"):
        tool(roll, role, float(ttl))
    sign(roll, "agent")
    answer = {"jsonrpc": jsonrpc, "claude": claude}.get(protocol, lambda _: None)
    for line in sys.stdin.buffer:
        reply = answer(json.loads(line))
        if reply is not None:
            sys.stdout.buffer.write(json.dumps(reply).encode() + b"\n")
            sys.stdout.buffer.flush()
    while stubborn:
        time.sleep(3600)


if __name__ == "__main__":
    main()
