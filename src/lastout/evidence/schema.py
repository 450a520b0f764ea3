"""The JSON schema of a record's line, generated from the structs.

python -m lastout.evidence.schema > docs/reference/record.schema.json
"""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec

from lastout.evidence import events

__all__ = ["schema", "text"]

_ID = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """The schema. Unknown events and fields are allowed: readers skip what they do not know."""
    made = msgspec.json.schema(events.Known)
    made.pop("anyOf", None)
    definitions = made["$defs"]
    named = sorted(
        (one["properties"]["event"]["enum"][0], name)
        for name, one in definitions.items()
        if "event" in one.get("properties", {})
    )
    for kind, name in named:
        definitions[name]["properties"]["event"] = {"const": kind}
        definitions[name]["properties"]["v"] = {"const": 1}
    header = ["v", "event", "run", "from", "seq", "boottime_ns", "time"]
    return {
        "$schema": _ID,
        "title": "One line of a lastout record",
        "description": "One fact. Readers skip events and fields that they do not know.",
        "type": "object",
        "required": header,
        "properties": {
            "v": {"const": 1},
            "event": {"type": "string"},
            "run": {"type": "string"},
            "from": {"type": "string"},
            "seq": {"type": "integer", "minimum": 1},
            "boottime_ns": {"type": "integer"},
            "time": {"type": "string"},
        },
        "allOf": [
            {
                "if": {"properties": {"event": {"const": kind}}, "required": ["event"]},
                "then": {"$ref": f"#/$defs/{name}"},
            }
            for kind, name in named
        ],
        "$defs": definitions,
    }


def text() -> str:
    """The schema as the file has it."""
    return json.dumps(schema(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
