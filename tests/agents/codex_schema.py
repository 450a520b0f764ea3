"""What we use of Codex's protocol, out of the JSON schema that the installed version prints.

`python codex_schema.py CODEX` prints it for codex_schema.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

REQUESTS = (
    "initialize", "thread/start", "thread/resume", "thread/revert", "thread/goal/set",
    "thread/goal/clear", "thread/backgroundTerminals/clean", "thread/backgroundTerminals/terminate",
    "turn/start", "turn/interrupt",
)  # fmt: skip
TOLD = (
    "turn/started", "turn/completed", "item/started", "item/completed", "item/agentMessage/delta",
    "item/reasoning/summaryTextDelta", "item/commandExecution/outputDelta",
    "serverRequest/resolved", "error", "warning",
)  # fmt: skip
ASKED = (
    "item/commandExecution/requestApproval", "item/fileChange/requestApproval",
    "item/permissions/requestApproval", "item/tool/requestUserInput",
    "mcpServer/elicitation/request", "applyPatchApproval", "execCommandApproval",
)  # fmt: skip


def extract(codex: str) -> dict[str, Any]:
    """Required and known fields of the methods that we use."""
    with tempfile.TemporaryDirectory() as name:
        command = [codex, "app-server", "generate-json-schema", "--experimental", "--out", name]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        return {
            "requests": _methods(Path(name), "ClientRequest.json", REQUESTS),
            "told": _methods(Path(name), "ServerNotification.json", TOLD),
            "asked": _methods(Path(name), "ServerRequest.json", ASKED),
            "commandExecution": _item(Path(name)),
        }


def _methods(directory: Path, file: str, wanted: tuple[str, ...]) -> dict[str, Any]:
    schema = json.loads((directory / file).read_text())
    found = {}
    for option in schema["oneOf"]:
        method = option["properties"]["method"]["enum"][0]
        if method in wanted:
            params = option["properties"].get("params", {})
            name = params.get("$ref", "").rpartition("/")[2]
            found[method] = _fields(schema["definitions"].get(name, params))
    return dict(sorted(found.items()))


def _item(directory: Path) -> dict[str, Any]:
    schema = json.loads((directory / "ServerNotification.json").read_text())
    for option in schema["definitions"]["ThreadItem"]["oneOf"]:
        if option["properties"]["type"]["enum"] == ["commandExecution"]:
            return _fields(option)
    raise LookupError("there is no commandExecution item any more")


def _fields(schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "required": sorted(schema.get("required", [])),
        "fields": sorted(schema.get("properties", {})),
    }


if __name__ == "__main__":
    json.dump(extract(sys.argv[1]), sys.stdout, indent=1)
    sys.stdout.write("\n")
