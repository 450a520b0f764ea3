"""What the server says to people. What stands on the page is in static/words.js."""

from __future__ import annotations

from typing import Final

__all__ = [
    "ALREADY_SERVED", "BAD_SECRET", "BUSY", "NOT_HERE", "NOT_JSON", "NO_ORIGIN", "NO_RUN",
    "NO_SECRET", "OTHER_HOST", "OTHER_ORIGIN", "READY", "TOO_LARGE", "WHO_HAS_IT", "port_taken",
]  # fmt: skip

ALREADY_SERVED: Final = "a dashboard of this state directory is being served already"
READY: Final = "The dashboard is at"
WHO_HAS_IT: Final = (
    "Whoever has this link can see and stop these runs. Ctrl-C ends the page, not the runs."
)
OTHER_HOST: Final = "This server answers for this machine only.\n"
OTHER_ORIGIN: Final = "This was asked on account of another page.\n"
NO_ORIGIN: Final = "An action must come from the page.\n"
NO_SECRET: Final = "Open the page by its link; `lastout web --link` prints it.\n"
BAD_SECRET: Final = "This link is not, or no longer, the right one; `lastout web --link` prints it."
NOT_HERE: Final = "There is nothing here."
NOT_JSON: Final = "This is not what was expected."
NO_RUN: Final = "There is no record of this run any more."
TOO_LARGE: Final = (
    "This record is too large to be told here; `lastout why` tells it. Its lines are below."
)
BUSY: Final = "Too many pages are open."


def port_taken(port: int) -> str:
    return f"port {port} of 127.0.0.1 is taken; name another with --port, or 0 for any"
