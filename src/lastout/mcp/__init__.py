"""The MCP server `lastout mcp`: one agent asks another, starts jobs, and hears how they ended.

The official SDK is the extra `mcp`. Nothing of it is imported before a server is served, and our
own names load when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lastout.lazy import lazy

if TYPE_CHECKING:
    from lastout.mcp.server import serve

__all__ = ["serve"]

_HOMES = {"serve": "server"}

__getattr__, __dir__ = lazy("lastout.mcp", _HOMES)
