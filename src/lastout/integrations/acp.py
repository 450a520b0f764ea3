"""ACP agents under the supervisor, for the `agent-client-protocol` SDK (and any other that takes an
argv)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from lastout.graces import MARGIN, Graces, resolve
from lastout.integrations.reusable import reusable
from lastout.supervisor import Argument

__all__ = ["supervised", "transport"]


def supervised(
    argv: Sequence[Argument],
    *,
    graces: Graces | str = "acp",
    state: str | os.PathLike[str] | None = None,
) -> list[str]:
    """`argv` with the supervisor in front: `spawn_agent_process(client, *supervised(argv))`.

    The preset's ladder ends inside the SDK's default patience (2 s after closing stdin, 2 s after
    SIGTERM); with longer graces pass `transport_kwargs=transport(graces)` too.
    """
    return reusable(argv, graces=graces, state=state)


def transport(graces: Graces | str = "acp") -> dict[str, Any]:
    """`transport_kwargs` that let the ladder finish: the SDK waits this long (seconds), twice."""
    return {"shutdown_timeout": resolve(graces).max_stop + MARGIN}
