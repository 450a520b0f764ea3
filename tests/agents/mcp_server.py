"""An MCP server over stdio that offers nothing and ends for nobody: neither stdin's end nor SIGTERM."""

import json
import os
import signal
import sys

signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.alarm(120)  # whatever happens, not for ever
with open(sys.argv[1], "a") as pids:
    pids.write(f"{os.getpid()}\n")
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    results = {
        "initialize": {
            "protocolVersion": request.get("params", {}).get("protocolVersion", "2025-06-18"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "stubborn", "version": "1"},
        },
        "tools/list": {"tools": []},
    }
    answer = {"jsonrpc": "2.0", "id": request["id"], "result": results.get(request["method"], {})}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
while True:
    signal.pause()
