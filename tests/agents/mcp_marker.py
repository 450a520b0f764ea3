"""An MCP server over stdio with one tool, `mark`; its starts and calls are in the file argv[1]."""

import json
import os
import sys

TOOL = {"name": "mark", "description": "Leaves a mark.", "inputSchema": {"type": "object"}}


def note(word: str) -> None:
    with open(sys.argv[1], "a") as log:
        log.write(f"{word} {os.getpid()}\n")


note("started")
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    method = request["method"]
    if method == "tools/call":
        note("called")
    results = {
        "initialize": {
            "protocolVersion": (request.get("params") or {}).get("protocolVersion", "2025-06-18"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "marker", "version": "1"},
        },
        "tools/list": {"tools": [TOOL]},
        "tools/call": {"content": [{"type": "text", "text": "marked"}]},
    }
    answer = {"jsonrpc": "2.0", "id": request["id"], "result": results.get(method, {})}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
