"""JSON schemas out of structs, in the form that every client understands: no references."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["schema"]


def schema(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """The schema of a struct, with `type: object` at its root as MCP demands."""
    (top,), named = msgspec.json.schema_components([struct], ref_template="{name}")
    whole: dict[str, Any] = _inline(top, named)
    whole.pop("title", None)
    whole.pop("description", None)
    assert whole["type"] == "object", whole
    return whole


def _inline(node: Any, named: dict[str, Any]) -> Any:
    if isinstance(node, dict):
        reference = node.get("$ref")
        if reference is not None:
            return _inline(named[reference], named)
        return {key: _inline(value, named) for key, value in node.items()}
    if isinstance(node, list):
        return [_inline(value, named) for value in node]
    return node
