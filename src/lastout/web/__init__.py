"""The dashboard of one machine: what runs, what is being stopped, who may write, and why it ended.

    lastout web            # prints a link that only this machine can follow

`serve` is the same for programs. Its names load when they are used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lastout.web.keeping import AlreadyServed, PortTaken
    from lastout.web.server import Served, serve

__all__ = ["AlreadyServed", "PortTaken", "Served", "serve"]

_HOMES = {
    "AlreadyServed": "keeping",
    "PortTaken": "keeping",
    "Served": "server",
    "serve": "server",
}


def __getattr__(name: str) -> Any:
    """Import the module that a public name lives in, the first time that it is asked for (PEP
    562)."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'lastout.web' has no attribute {name!r}")
    return getattr(import_module("lastout.web." + home), name)
