"""The MCP server `lastout mcp`: one agent asks another, starts jobs, and hears how they ended.

The official SDK is the extra `mcp`. Nothing of it is imported before a server is served, and our
own names load when they are used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lastout.mcp.server import serve

__all__ = ["serve"]

_HOMES = {"serve": "mcp.server"}


def __getattr__(name: str) -> Any:
    """Import the module that a public name lives in, the first time that it is asked for (PEP
    562)."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'lastout.mcp' has no attribute {name!r}")
    return getattr(import_module("lastout." + home), name)
