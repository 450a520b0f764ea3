"""The dashboard of one machine: what runs, what is being stopped, who may write, and why it ended.

    lastout web            # prints a link that only this machine can follow

`serve` is the same for programs. Its names load when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lastout.lazy import lazy

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

__getattr__, __dir__ = lazy("lastout.web", _HOMES)
